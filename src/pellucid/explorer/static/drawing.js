// The graph as SVG. Only what is visible is drawn; far away, boxes become plain blocks of one path.

const BOX = [152, 104];
const LONGEST_SOURCE = 20; // letters of a source line that fit into a box
const GROUP = [180, 84];
const CROWD = 24; // boxes; among more, only lines of the step and of the selected box have labels
const FAR = 0.3; // below this scale no text can be read

class Drawing {
  constructor(app) {
    this.app = app;
    this.scale = 1;
    this.shift = [0, 0];
    this.parts = ["far", "lines", "lit", "boxes", "labels"].map((name) => svgEl("g", { class: `layer-${name}` }));
    this.layer = svgEl("g", {}, ...this.parts);
    this.svg = svgEl(
      "svg",
      { class: "graph", role: "img", "aria-label": "The graph; the list of nodes below has the same content as text." },
      arrowHeads(),
      this.layer,
    );
    this.frame = el("div", { class: "view" }, this.svg);
    this.size = [800, 400];
    new ResizeObserver(() => this.takeSize() && this.draw()).observe(this.frame);
    listen(this);
  }

  /** Take the size of the frame in pixels: an SVG of "100 %" lays out all of its text anew when anything on the page
   *  changes, and to ask for a size while drawing would make the browser lay out the page once more. */
  takeSize() {
    const size = [this.frame.clientWidth, this.frame.clientHeight];
    if (!size[0] || !size[1] || String(size) === String(this.size)) return false;
    this.size = size;
    [this.svg.style.width, this.svg.style.height] = size.map((pixels) => `${pixels}px`);
    return true;
  }

  /** Place all boxes anew: another graph, another module opened, another shape of the window. */
  arrange() {
    const { model, open } = this.app;
    this.view = folded(model, open);
    this.takeSize();
    this.across = this.isAcross();
    const sizes = this.view.boxes.map((box) => (box.group === null ? BOX : GROUP));
    const edges = this.view.lines.map((line) => [line.a, line.b]);
    const found = layered(this.view.boxes.length, edges, sizes, this.distances());
    this.view.boxes.forEach((box, i) => {
      box.size = sizes[i];
      [box.x, box.y] = [found.centres[i][0] - sizes[i][0] / 2, found.centres[i][1] - sizes[i][1] / 2];
    });
    this.view.lines.forEach((line, i) => (line.way = found.ways[i]));
    this.attach();
    this.measure();
    this.weigh();
  }

  /** What the boxes cost, if that is to be shown. */
  weigh() {
    this.costs = costsOf(this.app.model, this.app.lens, this.view.boxes);
  }

  /** From left to right, but on a narrow window from above. */
  isAcross() {
    return this.size[0] >= 560 || this.view.boxes.length > 400;
  }

  /** Small graphs have room for a label on every line. */
  distances() {
    const few = this.view.boxes.length <= 60;
    const folds = this.view.boxes.some((box) => box.group !== null); // most lines of a model have no label
    const meet = this.app.model.arriving.some((uses) => uses.length > 1); // then labels are longer
    return this.across
      ? { across: true, gap: few && !folds ? (meet ? 140 : 104) : 80, space: 28 }
      : { across: false, gap: few ? 76 : 56, space: 22 };
  }

  /** Where each line leaves and enters: uses of one box side by side, lines between the same boxes apart. */
  attach() {
    const { boxes, lines } = this.view;
    const into = boxes.map(() => []);
    const pairs = new Map();
    for (const line of lines) {
      into[line.b].push(line);
      const key = `${line.a}>${line.b}`;
      pairs.set(key, [...(pairs.get(key) || []), line]);
    }
    const from = (line) =>
      (line.way.length ? line.way[line.way.length - 1] : this.middle(boxes[line.a]))[this.across ? 1 : 0] + line.bow;
    for (const same of pairs.values())
      same.forEach((line, i) => (line.bow = same.length > 1 ? i - (same.length - 1) / 2 : 0));
    for (const side of into)
      side.sort((a, b) => from(a) - from(b)).forEach((line, i) => (line.port = (i + 1) / (side.length + 1)));
  }

  middle(box) {
    return [box.x + box.size[0] / 2, box.y + box.size[1] / 2];
  }

  measure() {
    const { boxes } = this.view;
    const far = (pick, of) => boxes.reduce((best, box) => pick(best, of(box)), of(boxes[0]));
    this.bounds = {
      left: far(Math.min, (box) => box.x) - 20,
      top: far(Math.min, (box) => box.y) - 24,
      right: far(Math.max, (box) => box.x + box.size[0]) + 20,
      bottom: far(Math.max, (box) => box.y + box.size[1]) + 20,
    };
  }

  /** Show everything if it can be read then, else the part around the active or the last box. */
  fit(everything) {
    const [width, height] = this.size;
    const { left, top, right, bottom } = this.bounds;
    const whole = Math.min(width / (right - left), height / (bottom - top), width < 560 ? 1 : 1.25);
    const small = width < 560 ? 0.7 : 0.55; // what is smaller can hardly be read: then rather a part of it, but large
    this.scale = everything || whole >= small ? whole : Math.max(width < 560 ? 0.7 : 0.8, whole);
    this.shift = [width / 2 - ((left + right) / 2) * this.scale, height / 2 - ((top + bottom) / 2) * this.scale];
    if (!everything && whole < this.scale) this.centre(this.focusBox());
    this.draw();
  }

  focusBox() {
    const { model, mode, step, selected } = this.app;
    const active = model.active(mode, step).node;
    const id = active !== null ? active : selected !== null ? selected : mode === "forward" ? 0 : model.root;
    return this.view.boxes[this.view.boxOf[id]];
  }

  /** Bring a box to the middle, but show no emptiness beyond the graph: what fits as a whole is centred as a whole. */
  centre(box) {
    const view = this.size;
    const { left, top, right, bottom } = this.bounds;
    const wanted = this.middle(box);
    this.shift = [
      [left, right],
      [top, bottom],
    ].map(([from, to], axis) => {
      const half = view[axis] / this.scale / 2;
      const inside = Math.max(from + half, Math.min(to - half, wanted[axis]));
      return view[axis] / 2 - (to - from <= 2 * half ? (from + to) / 2 : inside) * this.scale;
    });
  }

  /** Move only if a box is not in sight. */
  reveal(id) {
    const box = this.view.boxes[this.view.boxOf[id]];
    const [width, height] = this.size;
    const [x, y] = [box.x * this.scale + this.shift[0], box.y * this.scale + this.shift[1]];
    const inside =
      x > 4 && y > 4 && x + box.size[0] * this.scale < width - 4 && y + box.size[1] * this.scale < height - 4;
    if (!inside) {
      this.scale = Math.max(this.scale, 0.5);
      this.centre(box);
    }
  }

  zoom(by, x = this.size[0] / 2, y = this.size[1] / 2) {
    const scale = Math.max(0.02, Math.min(3, this.scale * by));
    this.shift = [x - ((x - this.shift[0]) * scale) / this.scale, y - ((y - this.shift[1]) * scale) / this.scale];
    this.scale = scale;
    this.draw(true);
  }

  // --- drawing

  /** Draw at the next frame; `moved`: only the view has changed, so that what is there may serve on. */
  draw(moved = false) {
    if (!this.view) return;
    this.stale = this.stale || !moved;
    if (moved) this.moving();
    this.pending =
      this.pending ||
      requestAnimationFrame(() => {
        this.pending = 0;
        this.layer.setAttribute("transform", `translate(${this.shift[0]},${this.shift[1]}) scale(${this.scale})`);
        if (this.stale || this.outside()) this.paint();
        this.stale = false;
      });
  }

  /** While the view moves, nothing else does: an animation would have everything painted once more. */
  moving() {
    if (!this.settled) this.svg.classList.add("moving");
    clearTimeout(this.settled);
    this.settled = setTimeout(() => {
      this.settled = 0;
      this.svg.classList.remove("moving");
    }, 200);
  }

  /** Whether the view shows more than was drawn, or could show more detail. */
  outside() {
    const [now, drawn] = [this.sight(0), this.drawn];
    const larger = now.left < drawn.left || now.top < drawn.top || now.right > drawn.right || now.bottom > drawn.bottom;
    return larger || (drawn.far && this.scale >= FAR) || this.scale > 2.5 * drawn.scale;
  }

  /** The part of the graph that is in the window, and some of it around. */
  sight(around) {
    const [width, height] = this.size;
    const at = (share, size, axis) => (share * size - this.shift[axis]) / this.scale;
    return {
      left: at(-around, width, 0),
      top: at(-around, height, 1),
      right: at(1 + around, width, 0),
      bottom: at(1 + around, height, 1),
    };
  }

  paint(whole = false) {
    const { model, mode, step } = this.app;
    this.active = model.active(mode, step);
    this.lit = new Set(this.active.edges);
    const seen = whole ? this.bounds : this.sight(0.35);
    const sight = (box) =>
      box.x < seen.right && box.y < seen.bottom && box.x + box.size[0] > seen.left && box.y + box.size[1] > seen.top;
    const boxes = this.view.boxes.filter(sight);
    const far = this.scale < FAR && boxes.length > 150;
    this.drawn = { ...seen, far, scale: this.scale };
    const lines = this.view.lines.filter((line) => sight(this.view.boxes[line.a]) || sight(this.view.boxes[line.b]));
    this.svg.classList.toggle("forward", mode === "forward");
    this.svg.classList.toggle("backward", mode === "backward");
    const kept = this.stale || whole ? new Map() : this.made;
    this.made = new Map();
    const content = far ? [this.blocks(boxes, lines), [], [], [], []] : [[], ...this.detail(boxes, lines, kept)];
    content.forEach((elements, i) => exchange(this.parts[i], elements));
  }

  /** Thousands of boxes: one path for all lines, one for each kind of box. */
  blocks(boxes, lines) {
    const kinds = { idle: [], done: [], "cost-1": [], "cost-2": [], "cost-3": [], bad: [], hit: [], now: [] };
    for (const box of boxes)
      kinds[this.kindFar(box)].push(`M${box.x},${box.y}h${box.size[0]}v${box.size[1]}h${-box.size[0]}z`);
    const ways = lines.map((line) => this.path(line).d).join("");
    return [
      svgEl("path", { d: ways, class: "far-lines" }),
      ...Object.entries(kinds).map(([kind, parts]) => svgEl("path", { d: parts.join(""), class: `far-${kind}` })),
    ];
  }

  kindFar(box) {
    const { model, mode, step, hits } = this.app;
    if (box.members.includes(this.active.node)) return "now";
    if (hits && box.members.some((id) => hits.has(id))) return "hit";
    if (box.members.some((id) => model.badValue(id) || model.badGradient(id))) return "bad";
    if (this.costs) return this.costs.share(box) > 0.02 ? `cost-${Math.ceil(this.costs.share(box) * 3)}` : "idle";
    const last = box.members[box.members.length - 1];
    const done = mode === "forward" ? model.known(last, mode, step) : model.gradient(last, mode, step).state === "done";
    return done ? "done" : "idle";
  }

  /** Lines, lit lines, boxes, labels; what was drawn before and has not changed is taken over. */
  detail(boxes, lines, kept) {
    const drawn = (each, make) => {
      this.made.set(each, kept.get(each) || make.call(this, each));
      return this.made.get(each);
    };
    const ways = lines.map((line) => drawn(line, this.line));
    const labels = ways.map((way) => way.label).filter(Boolean);
    if (labels.length <= CROWD) apart(labels);
    return [
      ways.filter((way) => !way.lit).map((way) => way.shape),
      ways.filter((way) => way.lit).map((way) => way.shape),
      boxes.map((box) => drawn(box, box.group === null ? this.box : this.group)),
      labels.map((label) => label.shape),
    ];
  }

  /** The curve of a line and the point for its label. */
  path(line) {
    const { boxes } = this.view;
    const [a, b] = [boxes[line.a], boxes[line.b]];
    const across = this.across;
    const from = across ? [a.x + a.size[0], a.y + a.size[1] / 2] : [a.x + a.size[0] / 2, a.y + a.size[1]];
    const to = across ? [b.x - 6, b.y + b.size[1] * line.port] : [b.x + b.size[0] * line.port, b.y - 6];
    const bow = line.bow * (across ? 64 : 90);
    const points = [from, ...line.way, to];
    let d = `M${from[0]},${from[1]}`;
    for (let i = 1; i < points.length; i++) {
      const [p, q] = [points[i - 1], points[i]];
      if (i % 2 === 0) {
        d += `L${q[0]},${q[1]}`; // past the boxes of a layer
        continue;
      }
      const half = across ? (q[0] - p[0]) / 2 : (q[1] - p[1]) / 2;
      d += across
        ? `C${p[0] + half},${p[1] + bow} ${q[0] - half},${q[1] + bow} ${q[0]},${q[1]}`
        : `C${p[0] + bow},${p[1] + half} ${q[0] + bow},${q[1] - half} ${q[0]},${q[1]}`;
    }
    const [p, q] = points; // the label stands near the box that the gradient comes to
    const middle = [(p[0] + q[0]) / 2 + (across ? 0 : bow * 0.6), (p[1] + q[1]) / 2 + (across ? bow * 0.75 : 0)];
    return { d, middle, side: Math.sign(bow || q[0] - p[0]) };
  }

  line(line) {
    const { model, mode, step, hits } = this.app;
    const { d, middle, side } = this.path(line);
    const lit = line.edges.some((edge) => this.lit.has(edge));
    const carries = line.edges.some((edge) => edge.norm !== null);
    const delivered = mode === "backward" && line.edges.some((edge) => edge.step !== undefined && edge.step <= step);
    const classes = [
      "line",
      lit ? "lit" : "",
      carries ? "" : "cut",
      delivered ? "delivered" : "",
      hits ? "faded" : "",
    ].join(" ");
    const marker =
      lit && mode === "backward"
        ? { "marker-start": "url(#head-back)" }
        : { "marker-end": lit ? "url(#head-lit)" : "url(#head)" };
    const shape = svgEl("path", { d, class: classes, "stroke-width": this.width(line, lit), ...marker });
    return { shape, lit, label: this.lineLabel(line, middle, side, lit, delivered) };
  }

  /** Thicker where more gradient flows, on a logarithmic scale. */
  width(line, lit) {
    if (this.app.mode === "forward") return lit ? 3 : 1.6;
    const most = Math.max(...line.edges.map((edge) => (Number.isFinite(edge.norm) ? edge.norm || 0 : 1)));
    const thick = most > 0 ? Math.max(0, Math.min(3, (Math.log10(most) + 4) / 2)) : 0;
    return 1.2 + thick * 0.6 + (lit ? 1.4 : 0);
  }

  lineLabel(line, [middle, y], side, lit, delivered) {
    const crowded = this.view.boxes.length > CROWD && line.edges[0].from !== this.app.selected;
    if (this.app.mode !== "backward" || line.edges.length > 1 || !(lit || (delivered && !crowded))) return null;
    const text = edgeLabel(this.app.model, line.edges[0], lit);
    const uses = this.app.model.arriving[line.edges[0].from];
    if (!text) return null;
    const turn = uses.indexOf(line.edges[0]) - (uses.length - 1) / 2; // from above, labels of one box would lie side by side
    const [wide, base] = [text.length * 6.9 + 8, y + (this.across ? -6 : 4 + 17 * turn)];
    const x = this.across || uses.length < 2 ? middle : this.beside(middle, side, wide);
    const shape = svgEl(
      "g",
      { class: `line-label${lit ? " lit" : ""}` },
      svgEl("rect", { x: x - wide / 2, y: base - 12, width: wide, height: 16, rx: 5 }),
      svgEl("text", { x, y: base, text }),
    );
    return { shape, x, y: base, wide };
  }

  /** From above, a label stands on the outer side of its line, away from those of the other lines of its box. */
  beside(middle, side, wide) {
    const { left, right } = this.bounds;
    const wanted = middle + side * (wide / 2 - 14);
    return Math.max(left + wide / 2 + 4, Math.min(right - wide / 2 - 4, wanted));
  }

  box(box) {
    const { model, mode, step, selected, hits } = this.app;
    const node = model.nodes[box.node];
    const gradient = model.gradient(node.id, mode, step);
    const known = model.known(node.id, mode, step);
    const bad =
      (known && model.badValue(node.id)) ||
      (mode === "backward" && gradient.state !== "waiting" && model.badGradient(node.id));
    const classes = [
      "box",
      model.isLeaf(node.id) ? "leaf" : "op",
      this.active.node === node.id ? "now" : "",
      selected === node.id ? "selected" : "",
      this.receives(node.id) ? "receiving" : "",
      bad ? "bad" : "",
      known ? "" : "unknown",
      hits && !hits.has(node.id) ? "faded" : "",
    ];
    const [width, height] = box.size;
    const group = svgEl("g", {
      class: classes.join(" "),
      transform: `translate(${box.x},${box.y})`,
      "data-node": node.id,
    });
    group.append(svgEl("rect", { width, height, rx: model.isLeaf(node.id) ? 18 : 8 }), ...heading(node, width));
    this.numbers(group, node, known, gradient);
    const source = this.costs ? "" : sourceLine(model, node);
    const mark = this.costs && costMark(this.costs, box);
    if (mark) group.append(mark);
    if (source)
      group.append(svgEl("text", { x: 11, y: height - 12, class: "source", text: clip(source, LONGEST_SOURCE) }));
    if (node.symbol)
      group.append(
        svgEl("text", {
          x: width / 2,
          y: height + 17,
          class: "symbol",
          "text-anchor": "middle",
          text: clip(node.symbol, 32),
        }),
      );
    if (node.badge) group.append(badge(node.badge, width));
    if (bad) group.append(svgEl("text", { x: width - 12, y: 50, "text-anchor": "end", class: "warning", text: "⚠" }));
    group.append(svgEl("title", { text: tooltip(model, node, mode, step) }));
    return group;
  }

  numbers(group, node, known, gradient) {
    const { model } = this.app;
    const value = known ? (model.values[node.id] !== null ? model.single(node.id) : arrayText(node.value)) : "?";
    group.append(
      svgEl("text", {
        x: 11,
        y: 49,
        class: known && model.values[node.id] === null ? "value array" : "value",
        text: clip(value, 12),
      }),
      svgEl("text", {
        x: 11,
        y: 73,
        class: `grad ${gradient.state}`,
        text: clip(gradientText(model, node, gradient), 18),
      }),
    );
    if (known && node.value && model.values[node.id] === null && value.length <= 9) {
      const picture = thumbnail(node.value, BOX[0] - 57, 32, 46, 20);
      if (picture) group.append(picture);
    }
  }

  receives(id) {
    return this.app.mode === "backward" && this.active.edges.some((edge) => edge.from === id);
  }

  group(box) {
    const { model, hits } = this.app;
    const group = model.snapshot.groups[box.group];
    const operations = box.members.filter((id) => !model.isLeaf(id));
    const last = operations[operations.length - 1];
    const now = box.members.includes(this.active.node);
    const bad = box.members.some((id) => model.badValue(id) || model.badGradient(id));
    const faded = hits && !box.members.some((id) => hits.has(id));
    const [width, height] = box.size;
    const size = model.size(last);
    return svgEl(
      "g",
      {
        class: `box module${now ? " now" : ""}${bad ? " bad" : ""}${faded ? " faded" : ""}`,
        transform: `translate(${box.x},${box.y})`,
        "data-group": box.group,
      },
      svgEl("rect", { x: 5, y: -5, width, height, rx: 8, class: "behind" }),
      svgEl("rect", { width, height, rx: 8 }),
      svgEl("text", {
        x: 12,
        y: 23,
        class: "name",
        text: nameEnd(group.path, 11),
      }),
      svgEl("text", { x: width - 12, y: 23, class: "op-name", "text-anchor": "end", text: "open +" }),
      svgEl("text", {
        x: 12,
        y: 47,
        class: "count",
        text: `${operations.length} operation${operations.length === 1 ? "" : "s"}${bad ? "  ⚠" : ""}`,
      }),
      svgEl("text", {
        x: 12,
        y: 70,
        class: "grad done",
        text: size === null || this.costs || this.app.mode === "forward" ? "" : `‖grad‖ ${brieflyShown(size)}`,
      }),
      this.costs && costMark(this.costs, box),
      svgEl("title", { text: `Module ${group.path}: click to open` }),
    );
  }
}

/** Labels that would lie on one another are moved down, one below the other. */
function apart(labels) {
  const placed = [];
  for (const { shape, x, y, wide } of [...labels].sort((a, b) => a.y - b.y)) {
    let at = y;
    for (const other of placed)
      if (Math.abs(other.x - x) < (other.wide + wide) / 2 && Math.abs(other.y - at) < 15) at = other.y + 16;
    placed.push({ x, y: at, wide });
    shape.setAttribute("transform", `translate(0,${at - y})`);
  }
}

/** Let a part have these children: those that are there already stay untouched. */
function exchange(part, elements) {
  const wanted = new Set(elements);
  for (const child of [...part.children]) if (!wanted.has(child)) child.remove();
  for (const element of elements) if (element.parentNode !== part) part.append(element);
}
