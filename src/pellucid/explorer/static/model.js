// One snapshot with its numbers as they are now: after a change of a value, or at some step of a pass.

class Model {
  constructor(snapshot, asks) {
    this.snapshot = snapshot;
    this.nodes = snapshot.nodes.map((node) => ({ ...node }));
    this.edges = snapshot.edges.map((edge) => ({ ...edge }));
    this.root = snapshot.root;
    this.kind = snapshot.live ? "numbers" : snapshot.arrays ? "arrays" : asks && snapshot.repeats ? "asked" : "fixed";
    this.forward = snapshot.forward || [];
    this.backward = snapshot.backward || [];
    this.into = this.nodes.map(() => []);
    this.out = this.nodes.map(() => []);
    for (const edge of this.edges) {
      this.into[edge.to].push(edge);
      this.out[edge.from].push(edge);
    }
    this.order = new Map(this.forward.map((id, place) => [id, place + 1]));
    this.arriving = this.nodes.map(() => []);
    this.backward.forEach((move, step) => {
      for (const index of move.edges) {
        this.edges[index].step = step;
        this.arriving[this.edges[index].from].push(this.edges[index]);
      }
    });
    this.lastOfLine = new Map(
      this.nodes.filter((node) => node.source !== undefined).map((node) => [node.source, node.id]),
    );
    this.reset();
  }

  /** Back to the recorded numbers. */
  reset() {
    this.changed = new Map();
    this.adopt({ ...this.snapshot, captions: this.backward.map((move) => move.caption) });
  }

  /** Numbers for everything: the recorded ones, or those that were computed after a change. */
  adopt({ nodes, edges, captions }) {
    this.bad = null;
    this.captions = captions || null;
    nodes.forEach(({ value, grad }, id) => Object.assign(this.nodes[id], { value, grad }));
    this.values = nodes.map((node) => single(node.value));
    this.grads = nodes.map((node) => single(node.grad));
    edges.forEach(({ local, sent, norm }, index) =>
      Object.assign(this.edges[index], { local: num(local), sent: num(sent), norm: num(norm) }),
    );
  }

  isLeaf(id) {
    return !this.order.has(id);
  }

  /** Leaves whose numbers can be changed here. */
  editable() {
    if (this.kind === "fixed") return [];
    return this.nodes.filter((node) => this.isLeaf(node.id) && node.value && /float/.test(node.value.dtype));
  }

  /** Whether a change is computed in the page, or by whom the page asks. */
  get computes() {
    return this.kind === "numbers" || this.kind === "arrays";
  }

  /** Change a leaf (a number, or a list of them) and compute everything again, where the page can. */
  change(id, value) {
    this.changed.set(id, value);
    if (this.kind === "numbers") this.computeNumbers();
    else if (this.kind === "arrays") this.adopt(computeArrays(this));
  }

  /** Values, local derivatives, contributions, gradients of a graph of single numbers. */
  computeNumbers() {
    this.bad = this.captions = null;
    for (const [id, value] of this.changed) this.values[id] = value;
    for (const node of this.nodes)
      if (!this.isLeaf(node.id)) this.values[node.id] = computeValue(node, this.inputsOf(node));
    this.pull();
  }

  /** The result if one leaf had another value; nothing is changed. */
  resultAt(id, value) {
    const values = [...this.values];
    values[id] = value;
    for (const node of this.nodes) {
      if (this.isLeaf(node.id)) continue;
      const inputs = node.inputs.map((input) => (typeof input === "number" ? values[input] : num(input.number)));
      values[node.id] = computeValue(node, inputs);
    }
    return values[this.root];
  }

  inputsOf(node) {
    return node.inputs.map((input) => (typeof input === "number" ? this.values[input] : num(input.number)));
  }

  pull() {
    const start = single(this.snapshot.nodes[this.root].grad);
    this.grads = this.nodes.map((node) => (node.grad ? 0 : null));
    this.grads[this.root] = start;
    for (const move of this.backward) {
      const node = this.nodes[move.node];
      for (const index of move.edges) {
        const edge = this.edges[index];
        edge.local = computeSlope(node, this.inputsOf(node), this.values[node.id], edge.slot);
        edge.sent = this.grads[node.id] * edge.local;
        edge.norm = Math.abs(edge.sent);
        this.grads[edge.from] += edge.sent;
      }
    }
  }

  steps(mode) {
    return mode === "forward" ? this.forward.length : Math.max(0, this.backward.length - 1);
  }

  /** Whether the value of a node is there at a step of the forward pass. */
  known(id, mode, step) {
    return mode === "backward" || this.isLeaf(id) || this.order.get(id) <= step;
  }

  /** The contributions that have arrived at a node up to a step. */
  arrived(id, step) {
    return this.arriving[id].filter((edge) => edge.step <= step);
  }

  /** The gradient of a node at a step: its state, and a number or null (tensors are told by their summary). */
  gradient(id, mode, step) {
    const node = this.nodes[id];
    if (!node.needs && !node.grad) return { state: "never", value: null };
    if (mode === "forward" || !this.backward.length)
      return { state: node.grad && !this.backward.length ? "done" : "waiting", value: this.grads[id] };
    if (id === this.root) return { state: "done", value: this.grads[id] };
    const uses = this.arriving[id];
    if (!uses.length) return { state: node.grad ? "done" : "never", value: this.grads[id] };
    const now = this.arrived(id, step);
    if (!now.length) return { state: "waiting", value: null };
    const value = now.every((edge) => edge.sent !== null) ? now.reduce((sum, edge) => sum + edge.sent, 0) : null;
    return { state: now.length === uses.length ? "done" : "partial", value, arrived: now.length, of: uses.length };
  }

  /** What a step is about: the node and the edges that are lit. */
  active(mode, step) {
    if (mode === "forward") {
      const id = step > 0 ? this.forward[step - 1] : null;
      return { node: id, edges: id === null ? [] : this.into[id] };
    }
    const move = this.backward[step];
    return move ? { node: move.node, edges: move.edges.map((index) => this.edges[index]) } : { node: null, edges: [] };
  }

  /** The first number that is not finite: going forward, and going backward. */
  firstBad() {
    this.bad = this.bad || this.findBad();
    return this.bad;
  }

  findBad() {
    const bad = (id) => isBad(this.values[id], this.nodes[id].value);
    const leaf = this.nodes.find((node) => this.isLeaf(node.id) && bad(node.id));
    const value = leaf ? leaf.id : this.forward.find(bad);
    const step = this.backward.findIndex((move) =>
      move.edges.some((index) => {
        const edge = this.edges[index];
        return !Number.isFinite(edge.sent === null ? edge.norm : edge.sent);
      }),
    );
    return { value: value === undefined ? null : value, step: step < 0 ? null : step };
  }

  badGradient(id) {
    return isBad(this.grads[id], this.nodes[id].grad);
  }

  badValue(id) {
    return isBad(this.values[id], this.nodes[id].value);
  }

  /** The size of a gradient: of a number or of an array. */
  size(id) {
    if (this.grads[id] !== null) return Math.abs(this.grads[id]);
    const told = this.nodes[id].grad;
    return told ? num(told.norm) : null;
  }

  // --- sentences

  caption(mode, step) {
    if (mode === "forward") return this.forwardCaption(step);
    if (!this.backward[step]) return "There is no backward pass: nothing here requires a gradient.";
    return this.captions ? this.captions[step] : this.backwardCaption(step);
  }

  forwardCaption(step) {
    if (step === 0) {
      const leaves = this.nodes.filter((node) => this.isLeaf(node.id));
      const told = leaves.slice(0, 6).map((node) => `${node.called} = ${this.brief(node.id)}`);
      return `Start: ${told.join(", ")}${leaves.length > 6 ? ", …" : ""} ${leaves.length === 1 ? "is" : "are"} given.`;
    }
    const node = this.nodes[this.forward[step - 1]];
    const left = node.name ? `${node.name} = ${node.formula}` : node.formula;
    const inputs = this.inputsOf(node);
    const numbers =
      inputs.every((value) => value !== null) && inputs.length ? ` = ${written(node, inputs.map(factor))}` : "";
    return `${left}${numbers} = ${this.brief(node.id)}.`;
  }

  /** A value in a few words. */
  brief(id) {
    return this.values[id] !== null ? this.single(id) : describe(this.nodes[id].value);
  }

  /** A value that is one number, or true or false. */
  single(id) {
    const { value } = this.nodes[id];
    return value && value.dtype === "bool" ? String(Boolean(this.values[id])) : shown(this.values[id]);
  }

  /** The same sentences as caption() in words.py, from the numbers as they are now. */
  backwardCaption(step) {
    const move = this.backward[step];
    if (!move.edges.length && move.node === this.root) return move.caption; // where it starts, no value counts
    const node = this.nodes[move.node];
    const equation = node.name ? `${node.name} = ${node.formula}` : node.formula;
    const edges = move.edges.map((index) => this.edges[index]);
    const targets = [...new Set(edges.map((edge) => edge.from))];
    const parts = targets.map((target) =>
      this.sentTo(
        target,
        edges.filter((edge) => edge.from === target),
      ),
    );
    return parts.length ? `Through ${equation}: ${parts.join("; ")}.` : `${node.called} passes nothing on.`;
  }

  sentTo(target, now) {
    const symbol = `∂${this.nodes[this.root].called}/∂${this.nodes[target].called}`;
    const uses = this.arriving[target];
    if (uses.length === 1) return `${symbol} ${now[0].sent === null ? "gets" : "="} ${this.product(now[0])}`;
    const given = now.map((edge) => `path ${uses.indexOf(edge) + 1}: ${this.product(edge)}`).join(", ");
    const arrived = uses.slice(0, uses.indexOf(now[now.length - 1]) + 1);
    return `${symbol} gets ${given}${this.together(arrived, uses.length)}`;
  }

  together(arrived, every) {
    if (arrived.length === 1 || arrived.some((edge) => edge.sent === null))
      return ` (${arrived.length} of ${every} paths)`;
    const total = arrived.reduce((sum, edge) => sum + edge.sent, 0);
    const terms = arrived.map((edge, place) => (place ? factor(edge.sent) : shown(edge.sent))).join(" + ");
    if (arrived.length < every) return ` (so far ${terms} = ${shown(total)})`;
    return `; ${countWord(every).toLowerCase()} paths add up: ${terms} = ${shown(total)}`;
  }

  product(edge) {
    if (edge.sent === null) return `norm ${shown(edge.norm)}${edge.words ? ` (${edge.words})` : ""}`;
    if (edge.local === null) return shown(edge.sent);
    return `${shown(this.grads[edge.to])} × ${factor(edge.local)} = ${shown(edge.sent)}`;
  }

  /** "Two paths: 5 (direct) + 3 (via sum)", from the numbers as they are now. */
  paths(id) {
    const uses = this.arriving[id];
    if (uses.length < 2) return "";
    const terms = uses.map(
      (edge) => `${edge.sent === null ? `norm ${shown(edge.norm)}` : shown(edge.sent)} (${this.way(edge)})`,
    );
    return `${countWord(uses.length)} paths: ${terms.join(" + ").replaceAll(" + -", " - ")}`;
  }

  way(edge) {
    return edge.to === this.root ? "direct" : `via ${this.nodes[edge.to].called}`;
  }
}

/** The number of a summary that has only one; null for others. */
function single(summary) {
  return summary && summary.numbers && summary.numbers.length === 1 ? num(summary.numbers[0]) : null;
}

function isBad(value, summary) {
  if (value !== null) return !Number.isFinite(value);
  return Boolean(summary && (summary.nan || summary.inf));
}

/** An array in a few words: its shape and how large it is. */
function describe(summary) {
  if (!summary) return "not kept";
  const shape = `(${summary.shape.join(", ")}${summary.shape.length === 1 ? "," : ""})`;
  const bad = summary.nan ? `, ${summary.nan} NaN` : summary.inf ? `, ${summary.inf} ∞` : "";
  return summary.norm === undefined ? shape : `${shape} norm ${shown(num(summary.norm))}${bad}`;
}
