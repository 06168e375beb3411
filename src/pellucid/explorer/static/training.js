// A training run: loss and norms as curves, each parameter in a row of small curves and in pictures, played over the
// steps. With a second run beside it: both curves, both numbers, and the difference of the parameters.

const MOST_PARAMETERS = 12;
const MEASURES = [
  ["norms", "size ‖w‖"],
  ["gradients", "gradient ‖∇w‖"],
  ["updates", "update ‖Δw‖/‖w‖"],
];

class TrainingView {
  constructor(app, training) {
    Object.assign(this, { app, training, other: training.other, step: 0 });
    this.loss = training.loss.map(num);
    this.otherLoss = this.other ? this.other.loss.map(num) : null;
    this.names = Object.keys(training.norms).slice(0, MOST_PARAMETERS);
    this.rows = this.names.map((name) => new ParameterRow(this, name));
    this.picture = el("div", { class: "training-curves" });
    this.frames = el("div", { class: "training-frames" });
    this.said = el("p", { class: "training-said", role: "status" });
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: this.loss.length - 1,
      value: 0,
      "aria-label": "Training step",
      oninput: () => this.show(Number(this.slider.value)),
    });
    this.button = el("button", {
      type: "button",
      class: "play-training",
      text: "Play training",
      onclick: () => this.play(),
    });
    this.section = this.build();
    this.show(0);
  }

  build() {
    return el(
      "section",
      { class: "training", "aria-label": "Training" },
      el("div", { class: "training-bar" }, el("h2", { text: "Training" }), this.button, this.slider),
      this.said,
      this.other ? el("p", { class: "quiet", text: this.compared() }) : null,
      el(
        "div",
        { class: "training-body" },
        el("div", {}, this.picture, el("h3", { text: "Every parameter over the steps" }), parameterTable(this.rows)),
        this.frames,
      ),
    );
  }

  /** Where two runs part, and how they end. */
  compared() {
    const [mine, theirs] = [this.runName(this.training, 0), this.runName(this.other, 1)];
    const many = Math.min(this.loss.length, this.otherLoss.length);
    const parted = this.loss.findIndex((value, i) => i < many && !Object.is(value, this.otherLoss[i]));
    if (parted < 0) return `${mine} and ${theirs} have the same loss at all ${many} steps.`;
    const ends = `they end at ${shown(this.loss.at(-1))} and ${shown(this.otherLoss.at(-1))}`;
    return `${mine} against ${theirs}: the losses first differ at step ${parted}; ${ends}.`;
  }

  runName(run, place) {
    return run.name || ["this run", "the other run"][place];
  }

  play() {
    if (this.timer) return this.stop();
    if (this.step >= this.loss.length - 1) this.show(0);
    this.button.textContent = "Pause training";
    const stride = Math.max(1, Math.round(this.loss.length / 100));
    this.said.setAttribute("aria-live", "off"); // a screen reader would stumble over a hundred sentences
    this.timer = setInterval(() => {
      if (this.step >= this.loss.length - 1) return this.stop();
      this.show(Math.min(this.loss.length - 1, this.step + stride));
    }, 60);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.said.removeAttribute("aria-live");
    this.button.textContent = "Play training";
  }

  show(step) {
    this.step = step;
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", `step ${step} of ${this.loss.length - 1}`);
    const frame = frameAt(this.training, step);
    this.said.textContent = this.sentence(step, frame);
    const slopes = this.names.slice(0, 6).map((name) => ({ name, values: this.training.gradients[name].map(num) }));
    const losses = [{ name: this.runName(this.training, 0), values: this.loss }];
    if (this.other) losses.push({ name: this.runName(this.other, 1), values: this.otherLoss });
    this.picture.replaceChildren(
      el("h3", { text: "Loss" }),
      ...(this.other ? [legend(losses)] : []),
      curves(losses, step, "loss over the steps"),
      el("h3", { text: "Gradient norms" }),
      legend(slopes),
      curves(slopes, step, "gradient norms over the steps"),
    );
    const beside = this.other ? frameAt(this.other, step) : null;
    this.frames.replaceChildren(
      ...(frame ? this.names : []).map((name) =>
        parameterPicture(name, frame.parameters[name], beside && beside.parameters[name]),
      ),
    );
    this.rows.forEach((row) => row.show(step));
  }

  sentence(step, frame) {
    const there = this.other && step < this.otherLoss.length;
    const beside = there ? ` (${this.runName(this.other, 1)}: ${shown(this.otherLoss[step])})` : "";
    const said = frame && frame.note ? `; predictions ${frame.note}` : "";
    return `Step ${step} of ${this.loss.length - 1}: loss ${shown(this.loss[step])}${beside}${said}`;
  }
}

/** The last picture of the parameters up to a step. */
function frameAt(run, step) {
  return run.frames.filter((each) => each.step <= step).pop() || run.frames[0];
}

function legend(series) {
  return el(
    "ul",
    { class: "legend" },
    ...series.map((each, which) => el("li", { class: `key-${which % 6}`, text: each.name })),
  );
}

// --- a row of small curves for each parameter

function parameterTable(rows) {
  const head = el("tr", {}, el("th", { scope: "col", text: "parameter" }));
  for (const [, title] of MEASURES) head.append(el("th", { scope: "col", text: title }));
  return el("table", { class: "sparks" }, head, ...rows.map((row) => row.element));
}

/** The name of a parameter, which leads to its box, and a small curve with its number for each measure. */
class ParameterRow {
  constructor({ app, training, other }, name) {
    const node = app.model.nodes.find((each) => each.name === name);
    const title = node
      ? el("button", { type: "button", class: "link", text: name, onclick: () => app.select(node.id, true) })
      : el("span", { text: name });
    this.cells = MEASURES.map(([key, what]) => {
      const run = (of) => (of && of[key] && of[key][name] ? of[key][name].map(num) : null);
      return sparkCell(run(training) || [], run(other), training.loss.length, `${what} of ${name}`);
    });
    const cells = this.cells.map((cell) => el("td", {}, cell.picture, cell.number));
    this.element = el("tr", {}, el("th", { scope: "row" }, title), ...cells);
  }

  show(step) {
    this.cells.forEach((cell) => cell.show(step));
  }
}

/** A curve without axes, drawn once; a dot and a number say where it is now. */
function sparkCell(values, others, many, label) {
  const [width, height] = [96, 24];
  const finite = [...values, ...(others || [])].filter(Number.isFinite);
  const positive = finite.filter((value) => value > 0);
  const logarithmic = positive.length && Math.max(...positive) / Math.min(...positive) > 50;
  const scale = (value) => (logarithmic ? Math.log10(Math.max(value, Math.min(...positive))) : value);
  const [low, high] = [scale(Math.min(...finite)), scale(Math.max(...finite))];
  const x = (i) => (2 + (i / Math.max(1, many - 1)) * (width - 4)).toFixed(1);
  const y = (value) => (height - 3 - ((scale(value) - low) / (high - low || 1)) * (height - 6)).toFixed(1);
  const path = (series, which) => svgEl("path", { d: pathThrough(series, x, y), class: `curve curve-${which}` });
  const dot = svgEl("circle", { r: 3, class: "here" });
  const picture = svgEl(
    "svg",
    { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    others ? path(others, 1) : null,
    path(values, 0),
    dot,
  );
  const number = el("span", { class: "spark-number" });
  const show = (step) => {
    const value = values[Math.min(step, values.length - 1)];
    number.textContent = value === undefined ? "" : brieflyShown(value);
    const seen = Number.isFinite(value);
    dot.setAttribute("visibility", seen ? "visible" : "hidden");
    if (!seen) return;
    dot.setAttribute("cx", x(Math.min(step, values.length - 1)));
    dot.setAttribute("cy", y(value));
  };
  return { picture, number, show };
}

// --- pictures

function parameterPicture(name, { value, grad }, beside) {
  const side = (title, summary) => {
    const picture = heatMap(summary, `${title} of ${name}`);
    const number = single(summary);
    return el(
      "div",
      {},
      el("span", { class: "quiet", text: title }),
      picture || el("strong", { text: summary ? (number === null ? describe(summary) : shown(number)) : "none" }),
    );
  };
  const apart = beside ? difference(value, beside.value) : null;
  return el(
    "figure",
    { class: beside ? "compared" : "" },
    el("figcaption", { text: name }),
    side("value", value),
    side("gradient", grad),
    apart ? side("difference", apart) : null,
  );
}

/** One array minus another of the same shape, as far as pictures tell. */
function difference(a, b) {
  if (!a || !b || String(a.shape) !== String(b.shape)) return null;
  const [one, two] = [single(a), single(b)];
  if (one !== null && two !== null) return { shape: a.shape, numbers: [one - two] };
  const [mine, theirs] = [cellsOf(a), cellsOf(b)];
  if (!mine || !theirs || mine.values.length !== theirs.values.length) return null;
  return { shape: [mine.rows, mine.columns], numbers: mine.values.map((value, i) => value - theirs.values[i]) };
}
