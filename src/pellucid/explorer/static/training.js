// A training run: loss and norms as curves, parameters and their gradients as pictures, played over the steps.

class TrainingView {
  constructor(app, training) {
    this.training = training;
    this.loss = training.loss.map(num);
    this.step = 0;
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
    this.section = el(
      "section",
      { class: "training", "aria-label": "Training" },
      el("div", { class: "training-bar" }, el("h2", { text: "Training" }), this.button, this.slider),
      this.said,
      el("div", { class: "training-body" }, this.picture, this.frames),
    );
    this.show(0);
  }

  play() {
    if (this.timer) return this.stop();
    if (this.step >= this.loss.length - 1) this.show(0);
    this.button.textContent = "Pause training";
    const stride = Math.max(1, Math.round(this.loss.length / 100));
    this.timer = setInterval(() => {
      if (this.step >= this.loss.length - 1) return this.stop();
      this.show(Math.min(this.loss.length - 1, this.step + stride));
    }, 60);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.button.textContent = "Play training";
  }

  show(step) {
    this.step = step;
    this.slider.value = step;
    const frame = this.training.frames.filter((each) => each.step <= step).pop() || this.training.frames[0];
    this.said.textContent = `Step ${step} of ${this.loss.length - 1}: loss ${shown(this.loss[step])}${frame && frame.note ? `; predictions ${frame.note}` : ""}`;
    const slopes = Object.entries(this.training.gradients)
      .slice(0, 6)
      .map(([name, values]) => ({ name, values: values.map(num) }));
    this.picture.replaceChildren(
      el("h3", { text: "Loss" }),
      curves([{ values: this.loss }], step, "loss over the steps"),
      el("h3", { text: "Gradient norms" }),
      legend(slopes),
      curves(slopes, step, "gradient norms over the steps"),
    );
    this.frames.replaceChildren(
      ...Object.entries(frame ? frame.parameters : {})
        .slice(0, 12)
        .map(([name, each]) => parameterPicture(name, each)),
    );
  }
}

function legend(series) {
  return el(
    "ul",
    { class: "legend" },
    ...series.map((each, which) => el("li", { class: `key-${which % 6}`, text: each.name })),
  );
}

function parameterPicture(name, { value, grad }) {
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
  return el("figure", {}, el("figcaption", { text: name }), side("value", value), side("gradient", grad));
}
