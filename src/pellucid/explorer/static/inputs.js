// The numbers that can be changed: a slider and a field for a single number, a field for each element of a small array,
// a factor for a large one. The parts are made once and then kept, so that the keyboard stays where it is. What changes
// beside them is no live region: the caption alone speaks up.

const MOST_LEAVES = 8; // that are listed; of more, one is picked
const MOST_FIELDS = 64;
const MOST_OPEN = 40; // numbers in all leaves; with more, arrays are folded away at first
const FIXED =
  "The numbers are fixed on this page, since nobody behind it can compute them again. " +
  "They can be changed where Pellucid runs: pellucid explore script.py, or explore(...) in a notebook.";

function inputsPanel(app) {
  const leaves = app.model.editable();
  const trouble = el("output", { class: "trouble", role: "alert" });
  const head = el("div", { class: "section-head" }, el("h2", { text: "Change a value" }));
  const section = el("section", { class: "inputs", "aria-label": "Change a value" }, head);
  if (!leaves.length) {
    section.append(el("p", { class: "quiet", text: FIXED }));
    return { section, update: () => {}, trouble };
  }
  head.append(el("button", { type: "button", class: "small", text: "Reset", onclick: () => app.resetValues() }));
  const { parts, update } = leaves.length > MOST_LEAVES ? pickedInput(app, leaves) : everyInput(app, leaves);
  section.append(...parts, trouble);
  return { section, update, trouble };
}

function everyInput(app, leaves) {
  const rows = leaves.map((node) => inputOf(app, node));
  return { parts: rows.map((row) => row.element), update: () => rows.forEach((row) => row.update()) };
}

/** Of many leaves one at a time: that of the picker, or the one that is selected in the graph. */
function pickedInput(app, leaves) {
  const place = el("div");
  let [shownLeaf, row, last] = [null, null, null];
  const show = (id) => {
    if (id === shownLeaf) return;
    shownLeaf = id;
    picker.value = id;
    row = inputOf(app, app.model.nodes[id]);
    if (row.element.tagName === "DETAILS") row.element.open = true;
    place.replaceChildren(row.element);
  };
  const picker = el(
    "select",
    { "aria-label": "Which value to change", onchange: () => show(Number(picker.value)) },
    ...leaves.map((leaf) => el("option", { value: leaf.id, text: `${leaf.called} (${leaf.shape.join("×")})` })),
  );
  const update = () => {
    const chosen = app.selected !== last && leaves.find((leaf) => leaf.id === app.selected);
    last = app.selected;
    show(chosen ? chosen.id : shownLeaf === null ? leaves[0].id : shownLeaf);
    row.update();
  };
  return { parts: [picker, place], update };
}

function inputOf(app, node) {
  if (app.model.values[node.id] !== null) return numberInput(app, node);
  const few = node.value.numbers && node.value.numbers.length <= MOST_FIELDS;
  return few ? new ArrayInput(app, node) : scaleInput(app, node);
}

const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));

/** How far a slider reaches: what an example asks for, else some way to both sides. */
function reachOf(numbers) {
  const finite = numbers.filter(Number.isFinite).map(Math.abs);
  const reach = Math.max(5, Math.ceil(2 * Math.max(0, ...finite)));
  return { min: -reach, max: reach, step: numbers.every((x) => Number.isInteger(x * 2)) ? 0.5 : 0.1 };
}

/** The gradient beside an input, as far as the pass has come. */
function inputGradient(app, node) {
  const gradient = app.model.gradient(node.id, app.mode, app.step);
  return gradientText(app.model, node, gradient);
}

function numberInput(app, node) {
  const { model } = app;
  const range = (model.snapshot.controls || {})[node.id] || reachOf([model.values[node.id]]);
  const label = `Value of ${node.called}`;
  const set = (text) => isNumber(text) && app.changeValue(node.id, Number(text));
  const slider = el("input", {
    type: "range",
    ...range,
    "aria-label": `${label}, slider`,
    "data-leaf": node.id,
    oninput: () => set(slider.value),
  });
  const field = el("input", {
    type: "number",
    step: "any",
    "aria-label": label,
    "data-leaf-number": node.id,
    oninput: () => set(field.value),
  });
  const gradient = el("span", { class: "input-grad" });
  const update = () => {
    slider.value = model.values[node.id];
    slider.setAttribute("aria-valuetext", shown(model.values[node.id]));
    if (document.activeElement !== field) field.value = shown(model.values[node.id]);
    gradient.textContent = inputGradient(app, node);
  };
  update();
  const name = el("button", {
    type: "button",
    class: "link input-name",
    text: node.called,
    title: `Show how ${node.called} gets its gradient`,
    onclick: () => app.select(node.id, true),
  });
  return { element: el("div", { class: "input-row" }, name, slider, field, gradient), update };
}

/** `W[1, 2]`: an element of an array by its place. */
function elementName(node, place) {
  const index = [];
  for (let axis = node.shape.length - 1; axis >= 0; axis--) {
    index.unshift(place % node.shape[axis]);
    place = Math.floor(place / node.shape[axis]);
  }
  return `${node.called}[${index.join(", ")}]`;
}

/** A field for every element, and one slider, for the element that was entered last. */
class ArrayInput {
  constructor(app, node) {
    Object.assign(this, { app, node, chosen: 0 });
    this.fields = this.numbers().map((_, place) => this.field(place));
    this.slider = el("input", {
      type: "range",
      ...reachOf(this.numbers()),
      oninput: () => this.set(this.chosen, this.slider.value),
    });
    this.name = el("span", { class: "input-name" });
    this.slope = el("span", { class: "input-grad" });
    this.size = el("span", { class: "input-grad" });
    this.element = this.build();
    this.update();
  }

  numbers() {
    return this.app.model.nodes[this.node.id].value.numbers.map(num);
  }

  field(place) {
    const field = el("input", {
      type: "number",
      step: "any",
      "aria-label": elementName(this.node, place),
      "data-leaf-number": `${this.node.id}.${place}`,
      oninput: () => this.set(place, field.value),
      onfocus: () => {
        this.chosen = place;
        this.update();
      },
    });
    return field;
  }

  build() {
    const { app, node, fields } = this;
    const across = node.shape[node.shape.length - 1];
    const columns = Math.min(8, across > 1 ? across : fields.length); // a column lies on its side, to save room
    const element = el(
      "details",
      { class: "array-input" },
      el("summary", { class: "array-head" }, titleOf(node), this.size),
      el("div", { class: `cells cells-${columns}` }, ...fields),
      el("div", { class: "chooser" }, this.name, this.slider, this.slope),
    );
    element.open = app.model.editable().reduce((many, leaf) => many + sizeOf(leaf.shape), 0) <= MOST_OPEN;
    return element;
  }

  set(place, text) {
    if (!isNumber(text)) return;
    const now = this.numbers();
    now[place] = Number(text);
    this.app.changeValue(this.node.id, now);
  }

  update() {
    const { app, node, chosen } = this;
    const now = this.numbers();
    this.fields.forEach((field, place) => {
      if (document.activeElement !== field) field.value = shown(now[place]);
      field.classList.toggle("chosen", place === chosen);
    });
    this.slider.value = now[chosen];
    this.name.textContent = elementName(node, chosen);
    this.slider.setAttribute("aria-label", `${elementName(node, chosen)}, slider`);
    const { grad } = app.model.nodes[node.id];
    const there = app.model.gradient(node.id, app.mode, app.step).state === "done" && grad && grad.numbers;
    this.slope.textContent = there ? `grad ${shown(num(grad.numbers[chosen]))}` : "";
    this.size.textContent = inputGradient(app, app.model.nodes[node.id]);
  }
}

function titleOf(node) {
  return el("span", { class: "input-name", text: `${node.called} (${node.shape.join("×")})` });
}

/** All elements of a large array times one factor. */
function scaleInput(app, node) {
  const factorNow = () => (app.model.changed.get(node.id) || { times: 1 }).times;
  const slider = el("input", {
    type: "range",
    min: -2,
    max: 2,
    step: 0.05,
    "aria-label": `${node.called} times, slider`,
    "data-leaf-times": node.id,
    oninput: () => app.changeValue(node.id, { times: Number(slider.value) }),
  });
  const times = el("span", { class: "times" });
  const gradient = el("span", { class: "input-grad" });
  const update = () => {
    slider.value = factorNow();
    times.textContent = `× ${shown(factorNow())}`;
    gradient.textContent = inputGradient(app, app.model.nodes[node.id]);
  };
  update();
  const head = el("div", { class: "array-head" }, titleOf(node), gradient);
  const element = el("div", { class: "array-input" }, head, el("div", { class: "chooser" }, times, slider));
  return { element, update };
}
