// The page: what is shown, and what every button and key does.

const PACE = 1400; // milliseconds a step while playing

class App {
  constructor(data, place) {
    this.examples = data.examples;
    this.title = data.title;
    this.asks = data.asks; // whom this page can ask: "server", "notebook" or nobody
    this.quiz = data.quiz;
    this.predicting = false;
    this.query = "";
    this.theme = this.lens = "";
    this.build(place);
    this.keys();
    const asked = readAddress();
    const named = this.examples.findIndex((example, i) => (example.id || String(i)) === asked.example);
    if (asked.theme === "dark" || asked.theme === "light") this.setTheme(asked.theme);
    this.load(Math.max(0, named), asked);
    if (asked.quiz && this.quizPanel) this.quizPanel.toggle(asked.quiz);
    addEventListener("resize", () => this.resized());
    addEventListener("hashchange", () => this.reload(readAddress()));
  }

  // --- the parts

  build(place) {
    this.drawing = new Drawing(this);
    this.predictor = new Predictor(this);
    this.quizPanel = this.quiz ? new QuizPanel(this, this.quiz) : null;
    this.caption = el("p", { class: "caption", "aria-live": "polite", role: "status" });
    this.side = el("aside", { class: "side", "aria-label": "Details" });
    this.below = el("div", { class: "below" });
    this.lensBar = el("div", { class: "lens-bar" });
    const bar = el("div", { class: "canvas-bar" }, this.lensBar, zoomBarOf(this));
    this.crumbs = el("div", { class: "crumbs" });
    this.notes = el("div", { class: "notes" });
    place.append(
      headOf(this),
      el(
        "main",
        {},
        el(
          "div",
          { class: "stage" },
          this.asks === "server" ? playground(this) : null,
          this.notes,
          this.crumbs,
          el("div", { class: "canvas" }, this.drawing.frame, bar),
          this.caption,
          this.predictor.section,
          transportOf(this),
          this.below,
        ),
        this.side,
      ),
    );
  }

  /** Add a graph to the picker and show it. */
  add(snapshot) {
    this.examples.push(snapshot);
    this.picker.append(el("option", { value: this.examples.length - 1, text: snapshot.title }));
    this.load(this.examples.length - 1, {});
  }

  // --- another graph, another state

  load(index, asked) {
    this.stop();
    if (this.trainingView) this.trainingView.stop();
    this.index = index;
    this.snapshot = this.examples[index];
    this.model = new Model(this.snapshot, this.asks);
    this.open = firstOpen(this.model);
    this.hits = null;
    this.query = this.searchField.value = "";
    this.picker.value = index;
    this.inputs = inputsPanel(this);
    this.tree = treePanel(this);
    this.trainingView = this.snapshot.training ? new TrainingView(this, this.snapshot.training) : null;
    this.below.replaceChildren(...(this.trainingView ? [this.trainingView.section] : []));
    this.lens = lensesOf(this.model).includes(asked.lens) ? asked.lens : "";
    this.lensBar.replaceChildren(...lensPicker(this));
    this.sideParts = { costs: el("div"), node: el("div"), code: el("div") };
    this.side.replaceChildren(
      ...[
        this.quizPanel && this.quizPanel.section,
        this.sideParts.costs,
        this.inputs.section,
        this.sideParts.node,
        this.sideParts.code,
        this.tree.section,
      ].filter(Boolean),
    );
    const said = [this.snapshot.note, ...(this.snapshot.notes || [])].filter(Boolean);
    this.notes.replaceChildren(...said.map((text) => el("p", { text })));
    this.apply(asked);
    this.drawing.arrange();
    this.drawing.fit(false);
    this.refresh();
  }

  /** The state that an address asks for, or the one a snapshot starts with. */
  apply(asked) {
    const start = this.snapshot.start || {};
    const mode = asked.mode || start.mode;
    this.mode = mode === "forward" || !this.model.backward.length ? "forward" : "backward";
    const step = Number(
      asked.step === undefined ? (start.step === undefined ? this.model.steps(this.mode) : start.step) : asked.step,
    );
    this.step = Math.max(0, Math.min(this.model.steps(this.mode), Number.isInteger(step) ? step : 0));
    const node = Number(asked.node);
    this.selected = asked.node !== undefined && this.model.nodes[node] ? node : this.firstSelected();
    for (const leaf of this.model.editable()) {
      const value = changeFrom(asked[`v${leaf.id}`], leaf);
      if (value !== null) this.model.change(leaf.id, value);
    }
    if (this.model.changed.size && !this.model.computes) this.askAgain();
    if (asked.search) this.find((this.searchField.value = asked.search));
  }

  /** The address was edited by hand, or a link on the page was followed. */
  reload(asked) {
    const named = this.examples.findIndex((example, i) => (example.id || String(i)) === asked.example);
    this.load(named < 0 ? this.index : named, asked);
  }

  /** Something worth a look: a node where paths meet, or one whose gradient is not an ordinary number; else none. */
  firstSelected() {
    const { model } = this;
    if (model.nodes.length > 60) return null;
    const meeting = model.arriving.findIndex((uses) => uses.length > 1);
    if (meeting >= 0) return meeting;
    const ordinary = (size) => size === null || (size > 1e-6 && size < 1e6);
    const odd = model.nodes.find(({ id }) => !ordinary(model.size(id)));
    return odd ? odd.id : null;
  }

  resized() {
    this.drawing.takeSize();
    if (this.drawing.across !== this.drawing.isAcross()) this.drawing.arrange();
    this.drawing.fit(false);
  }

  /** Show the state as it is now, everywhere. */
  refresh() {
    const steps = this.model.steps(this.mode);
    this.slider.max = steps;
    this.slider.value = this.step;
    this.count.textContent = `${this.step} / ${steps}`;
    this.slider.setAttribute("aria-valuetext", `step ${this.step} of ${steps}`);
    this.modes.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(this.mode === ["forward", "backward"][i])),
    );
    this.modes[1].disabled = !this.model.backward.length;
    this.caption.textContent = this.model.caption(this.mode, this.step);
    this.caption.className = `caption ${this.mode}`;
    this.renew(this.sideParts.costs, costPanel(this));
    this.renew(this.sideParts.node, nodePanel(this));
    this.renew(this.sideParts.code, codePanel(this));
    this.inputs.update();
    this.predictor.update();
    this.tree.update();
    this.showBad();
    this.showCrumbs();
    this.drawing.draw();
    writeAddress(this);
  }

  /** Replace a part; who was inside it with the keyboard is led to its heading. */
  renew(part, content) {
    const inside = part.contains(document.activeElement);
    part.replaceChildren(...(content ? [content] : []));
    const heading = inside ? part.querySelector("h2") : null;
    if (!heading) return;
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }

  // --- steps

  setMode(mode) {
    this.stop();
    this.mode = mode;
    this.goTo(0, true);
  }

  goTo(step, byHand) {
    if (byHand) this.stop();
    this.step = Math.max(0, Math.min(this.model.steps(this.mode), step));
    const { node } = this.model.active(this.mode, this.step);
    if (node !== null) this.drawing.reveal(node);
    this.refresh();
  }

  /** One step on or back; at the end of forward comes backward. */
  advance(by) {
    this.stop();
    this.move(by);
  }

  move(by) {
    if (by > 0 && this.mode === "forward" && this.step === this.model.steps("forward") && this.model.backward.length) {
      this.mode = "backward";
      return this.goTo(0);
    }
    if (by < 0 && this.mode === "backward" && this.step === 0) {
      this.mode = "forward";
      return this.goTo(this.model.steps("forward"));
    }
    this.goTo(this.step + by);
  }

  atEnd() {
    const last = this.model.backward.length ? "backward" : "forward";
    return this.mode === last && this.step === this.model.steps(last);
  }

  play() {
    if (this.timer) return this.stop();
    if (this.atEnd()) {
      this.mode = "forward";
      this.step = 0;
    }
    this.playButton.replaceChildren(icon("pause"));
    this.playButton.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => (this.atEnd() ? this.stop() : this.move(1)), PACE);
    this.refresh();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.playButton.replaceChildren(icon("play"));
    this.playButton.setAttribute("aria-label", "Play");
  }

  // --- values, selection, search

  changeValue(id, value) {
    this.model.change(id, value);
    if (!this.model.computes) return this.askAgain();
    if (this.query) this.hits = search(this.model, this.query);
    this.refresh();
  }

  /** Have the changed numbers computed by Pellucid; while it is busy, only the latest wish counts. */
  async askAgain() {
    this.wished = true;
    if (this.asking) return;
    this.asking = true;
    while (this.wished) {
      this.wished = false;
      await this.askOnce(this.model);
    }
    this.asking = false;
  }

  async askOnce(model) {
    const { inputs } = this;
    try {
      const told = await asked("change", { graph: this.index, values: asPlain(model.changed) });
      if (model !== this.model || !model.changed.size) return;
      model.adopt(told);
      inputs.trouble.textContent = "";
    } catch (error) {
      inputs.trouble.textContent = error.message;
    }
    this.refresh();
  }

  resetValues() {
    this.model.reset();
    this.refresh();
  }

  select(id, reveal) {
    this.selected = id;
    if (id !== null) {
      const closed = groupsAround(this.model, id).filter((group) => !this.open.has(group));
      if (closed.length) {
        closed.forEach((group) => this.open.add(group));
        this.drawing.arrange();
      }
      if (reveal || closed.length) this.drawing.reveal(id);
    }
    this.refresh();
  }

  /** What the boxes show at their foot: their line of code, or what they cost. */
  setLens(lens) {
    this.lens = lens;
    this.drawing.weigh();
    this.refresh();
  }

  toggleGroup(group) {
    if (this.open.has(group)) this.open.delete(group);
    else this.open.add(group);
    this.drawing.arrange();
    this.drawing.fit(false);
    this.refresh();
  }

  showCrumbs() {
    const groups = this.model.snapshot.groups || [];
    const shownGroups = [...this.open].sort((a, b) => a - b).slice(0, 12);
    this.crumbs.replaceChildren(
      ...(groups.length && shownGroups.length
        ? [
            el("span", { class: "quiet", text: "Open modules:" }),
            ...shownGroups.map((id) =>
              el("button", {
                type: "button",
                class: "small",
                text: `${groups[id].path} −`,
                title: "Fold this module",
                onclick: () => this.toggleGroup(id),
              }),
            ),
          ]
        : []),
    );
  }

  find(query) {
    this.query = query;
    this.hits = search(this.model, query);
    this.found.textContent = this.hits ? `${this.hits.size} of ${this.model.nodes.length}` : "";
    this.hit = -1;
    this.drawing.draw();
    if (this.tree) writeAddress(this);
  }

  nextHit() {
    if (!this.hits || !this.hits.size) return;
    this.hit = (this.hit + 1) % this.hits.size;
    this.select([...this.hits][this.hit], true);
  }

  /** Buttons that lead to the first number that is not finite, forward and backward. */
  showBad() {
    const { value, step } = this.model.firstBad();
    const buttons = [];
    if (value !== null) {
      const what = this.model.values[value] !== null ? shown(this.model.values[value]) : "NaN or ∞";
      buttons.push(
        el("button", {
          type: "button",
          class: "alarm",
          text: `⚠ first ${what}: ${clip(this.model.nodes[value].called, 16)}`,
          title: "Go to the first value that is not finite",
          onclick: () => this.goToBadValue(value),
        }),
      );
    }
    if (step !== null)
      buttons.push(
        el("button", {
          type: "button",
          class: "alarm",
          text: "⚠ first NaN gradient",
          title: "Go to the first gradient that is not finite",
          onclick: () => this.goToBadStep(step),
        }),
      );
    this.badButtons.replaceChildren(...buttons);
  }

  goToBadValue(id) {
    this.mode = "forward";
    this.selected = id;
    this.goTo(this.model.isLeaf(id) ? 0 : this.model.order.get(id), true);
  }

  goToBadStep(step) {
    this.mode = "backward";
    const edge = this.model.backward[step].edges
      .map((index) => this.model.edges[index])
      .find((each) => !Number.isFinite(each.sent === null ? each.norm : each.sent));
    this.selected = edge ? edge.from : this.selected;
    this.goTo(step, true);
  }

  // --- light and dark, keys

  isDark() {
    return this.theme ? this.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  setTheme(theme) {
    this.theme = theme;
    document.documentElement.dataset.theme = theme;
    if (this.model) writeAddress(this);
  }

  keys() {
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "Escape" && event.target === this.searchField) {
        this.find((this.searchField.value = ""));
        this.searchField.blur();
      }
      const act = typing ? null : this.keyAction(event);
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  keyAction(event) {
    const pressing = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY";
    return {
      ArrowRight: () => this.advance(1),
      ArrowLeft: () => this.advance(-1),
      Home: () => this.goTo(0, true),
      End: () => this.goTo(this.model.steps(this.mode), true),
      " ": pressing ? null : () => this.play(),
      "/": () => this.searchField.focus(),
      f: () => this.setMode("forward"),
      b: () => this.model.backward.length && this.setMode("backward"),
      "+": () => this.drawing.zoom(1.3),
      "-": () => this.drawing.zoom(1 / 1.3),
      0: () => this.drawing.fit(true),
    }[event.key];
  }
}

const started = performance.now();
const place = document.getElementById("app");
place.explorer = new App(JSON.parse(document.getElementById("data").textContent), place); // to be found from a console
requestAnimationFrame(() =>
  requestAnimationFrame(() => {
    document.documentElement.dataset.ready = Math.round(performance.now() - started); // for tests: the page is drawn
  }),
);
