// How the elements of an array get to their new places: for each element of a result, where it comes from. Reshape,
// transpose, slices, joins, broadcasting, sums and products, shown element by element with what moves.

const MOST_CELLS = 64;
const HOPS = 550; // milliseconds of a move
const SUMS = ["sum", "mean", "sum_all", "mean_all"];

/** For each element of the result, its sources as [input, element]; null where there is nothing to show. */
function sourcesOf(model, node) {
  const inputs = node.inputs.map((input) => (typeof input === "number" ? model.nodes[input].shape : []));
  const small = [...inputs, node.shape].every((shape) => sizeOf(shape) > 0 && sizeOf(shape) <= MOST_CELLS);
  if (!small || !inputs.length || (sizeOf(node.shape) === 1 && sizeOf(inputs[0]) === 1)) return null;
  if (node.moves) return node.moves.map((from) => (from.length ? [from] : []));
  if (SUMS.includes(node.row)) return sourcesOfSum(node, inputs[0]);
  if (["mm", "mv", "dot", "linear", "linear_with_bias"].includes(node.row)) return sourcesOfProduct(node, inputs);
  const stretched = Object.hasOwn(ROWS, node.row) && inputs.some((shape) => String(shape) !== String(node.shape));
  if (!stretched || inputs.length < 2) return null;
  const at = inputs.map((shape) => places(shape, node.shape));
  return Array.from({ length: sizeOf(node.shape) }, (_, i) => at.map((places, input) => [input, places[i]]));
}

function sourcesOfSum(node, shape) {
  const axes = node.row.endsWith("_all") ? shape.map((_, axis) => axis) : node.params[0];
  const found = Array.from({ length: sizeOf(node.shape) }, () => []);
  places(without(shape, axes), shape).forEach((place, i) => found[place].push([0, i]));
  return found;
}

/** A row of the first factor and a column of the second (of a layer's weight: a row), pair by pair. */
function sourcesOfProduct(node, [a, b, bias]) {
  const inner = a[a.length - 1];
  const layer = node.row.startsWith("linear");
  const columns = layer ? b[0] : b.length > 1 ? b[1] : 1;
  return Array.from({ length: sizeOf(node.shape) }, (_, i) => {
    const [r, c] = [Math.floor(i / columns), i % columns];
    const pair = (k) => [
      [0, r * inner + k],
      [1, layer ? c * inner + k : k * columns + c],
    ];
    const pairs = Array.from({ length: inner }, (_, k) => pair(k)).flat();
    return bias ? [...pairs, [2, c]] : pairs;
  });
}

// --- the picture

/** The part of the panel that shows it; which element is shown is kept, so that a step of the pass does not lose it. */
function shapesPart(app, node) {
  const sources = sourcesOf(app.model, node);
  if (!sources) return [];
  if (!app.shapesAt || app.shapesAt.id !== node.id) app.shapesAt = { id: node.id, place: 0 };
  return new ShapeView(app, node, sources).parts;
}

class ShapeView {
  constructor(app, node, sources) {
    Object.assign(this, { app, node, sources, state: app.shapesAt });
    this.arrays = node.inputs.map((input) =>
      typeof input === "number"
        ? app.model.nodes[input]
        : { called: shown(num(input.number)), shape: [], value: { numbers: [input.number] } },
    );
    this.grids = this.place();
    this.said = el("p", { class: "shape-said" }); // the slider says the same to a screen reader
    this.button = el("button", { type: "button", class: "small", text: "Play", onclick: () => this.play() });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: sources.length - 1,
      "aria-label": "Element of the result",
      oninput: () => this.show(Number(this.slider.value), true),
    });
    this.picture = this.draw();
    this.parts = [
      el("h3", { text: "Where its elements come from" }),
      this.picture,
      el("div", { class: "shape-bar" }, this.button, this.slider),
      this.said,
    ];
    this.show(this.state.place, false);
  }

  /** The inputs below each other, the result to their right. */
  place() {
    const across = (shape) => shape[shape.length - 1] || 1;
    const widest = Math.max(...this.arrays.map((each) => across(each.shape)));
    this.cell = Math.max(9, Math.min(30, Math.floor(290 / (widest + across(this.node.shape)))));
    let y = 16;
    const grids = this.arrays.map((each) => {
      const grid = new Grid(each, 0, y, this.cell);
      y += grid.height + 24;
      return grid;
    });
    this.result = new Grid(this.node, widest * this.cell + 48, 16, this.cell);
    this.height = Math.max(y - 20, this.result.height + 24);
    this.width = this.result.x + Math.max(this.result.width, this.result.title.length * 6.6) + 4;
    return grids;
  }

  draw() {
    this.ghosts = svgEl("g", { class: "ghosts" });
    const label = `How the elements of ${this.node.called} come from its inputs`;
    const picture = svgEl(
      "svg",
      { class: "shapes", viewBox: `-1 0 ${this.width} ${this.height}`, role: "img", "aria-label": label },
      ...[...this.grids, this.result].map((grid) => grid.element),
      this.ghosts,
    );
    picture.style.width = `${this.width}px`;
    return picture;
  }

  play() {
    if (this.timer) return this.stop();
    if (this.state.place === this.sources.length - 1) this.show(0, true);
    this.button.textContent = "Pause";
    this.timer = setInterval(() => {
      const gone = !this.picture.isConnected || this.state.place >= this.sources.length - 1;
      if (gone) this.stop();
      else this.show(this.state.place + 1, true);
    }, HOPS * 1.5);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.textContent = "Play";
  }

  show(place, moving) {
    this.state.place = place;
    this.slider.value = place;
    const from = this.sources[place];
    this.grids.forEach((grid, input) => grid.mark(from.filter(([which]) => which === input).map(([, at]) => at)));
    this.result.mark([place], place);
    this.said.textContent = this.sentence(place, from);
    this.slider.setAttribute("aria-valuetext", this.said.textContent);
    this.ghosts.replaceChildren();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (moving && !still) from.forEach((each) => this.fly(each, place));
  }

  /** A copy of a source's cell moves to the element it becomes part of. */
  fly([input, at], place) {
    const [from, to] = [this.grids[input].corner(at), this.result.corner(place)];
    const ghost = svgEl("rect", { width: this.cell - 2, height: this.cell - 2, rx: 3 });
    this.ghosts.append(ghost);
    const point = ([x, y]) => ({ transform: `translate(${x}px,${y}px)` });
    const flight = ghost.animate([point(from), point(to)], { duration: HOPS, easing: "ease-in-out", fill: "forwards" });
    flight.onfinish = () => ghost.remove();
  }

  sentence(place, from) {
    const names = from.map((each) => this.nameOf(each));
    const left = this.node.shape.length ? elementName(this.node, place) : this.node.called;
    if (!from.length) return `${left} = ${shown(num(this.node.value.numbers[place]))}, filled in: no gradient goes back.`;
    return `${left} = ${clip(this.formula(this.node.row, names), 120)}${this.repeated(from)}`;
  }

  nameOf([input, at]) {
    const each = this.arrays[input];
    return each.shape.length ? elementName(each, at) : each.called;
  }

  formula(row, names) {
    if (this.node.moves) return names[0];
    const sum = names.join(" + ");
    if (SUMS.includes(row)) return row.startsWith("mean") ? `(${sum}) / ${names.length}` : sum;
    if (Object.hasOwn(ROWS, row)) return written(this.node, names);
    const terms = []; // of a product, in pairs; a bias is left over
    for (let i = 0; i < names.length; i += 2) terms.push(names.slice(i, i + 2).join("·"));
    return terms.join(" + ");
  }

  /** What is used several times gets as many gradients, which add up; what is not used gets none. */
  repeated(from) {
    const often = from.find((each) => this.uses(each) > 1);
    if (often)
      return `. ${this.nameOf(often)} is used ${this.uses(often)} times: backward, as many gradients come together there and add up.`;
    const unused = this.node.moves ? this.unused() : 0;
    const rest = unused ? ` ${unused} element${unused === 1 ? " is" : "s are"} not used: from here they get 0.` : "";
    return `. Backward, its gradient goes the same way back.${rest}`;
  }

  /** How often an element of an input is used. */
  uses([input, at]) {
    return this.sources.flat().filter(([which, place]) => which === input && place === at).length;
  }

  /** How many elements of the inputs that take part in backward come nowhere. */
  unused() {
    const used = new Set(this.sources.flat().map(String));
    const moved = this.arrays.filter((each) => each.needs).reduce((many, each) => many + sizeOf(each.shape), 0);
    return Math.max(0, moved - used.size);
  }
}

/** An array as cells: the last axis across, the others below each other, with a gap between the blocks of a third. */
class Grid {
  constructor(node, x, y, cell) {
    Object.assign(this, { x, y, cell, shape: node.shape });
    this.columns = node.shape[node.shape.length - 1] || 1;
    this.tall = node.shape.length > 2 ? node.shape[node.shape.length - 2] : Infinity;
    const many = sizeOf(node.shape);
    const numbers = node.value && node.value.numbers ? node.value.numbers.map(num) : [];
    this.cells = Array.from({ length: many }, (_, i) => this.cellOf(i, numbers[i]));
    this.width = this.columns * cell;
    this.height = this.corner(many - 1)[1] - y + cell;
    this.title = `${clip(node.called, 16)} (${node.shape.join("×")})`;
    const title = svgEl("text", { x, y: y - 5, class: "grid-name", text: this.title });
    this.element = svgEl("g", {}, title, ...this.cells);
  }

  corner(place) {
    const row = Math.floor(place / this.columns);
    const gap = this.tall === Infinity ? 0 : Math.floor(row / this.tall) * 6;
    return [this.x + (place % this.columns) * this.cell, this.y + row * this.cell + gap];
  }

  cellOf(place, number) {
    const [x, y] = this.corner(place);
    const short = number === undefined || Number.isInteger(number) ? number : Number(number.toPrecision(2));
    const text = short === undefined || this.cell < 20 ? "" : shown(short);
    return svgEl(
      "g",
      { class: "cell", transform: `translate(${x},${y})` },
      svgEl("rect", { width: this.cell - 2, height: this.cell - 2, rx: 3 }),
      text && text.length * 6 < this.cell + 4
        ? svgEl("text", { x: this.cell / 2 - 1, y: this.cell / 2 + 3, "text-anchor": "middle", text })
        : null,
    );
  }

  /** Light these cells; of a result, those behind `until` are not there yet. */
  mark(lit, until = Infinity) {
    const wanted = new Set(lit);
    this.cells.forEach((cell, place) => {
      cell.setAttribute("class", `cell${wanted.has(place) ? " lit" : ""}${place > until ? " later" : ""}`);
    });
  }
}
