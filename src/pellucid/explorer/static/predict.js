// Pause and predict: before the next step the learner says what it will give; then it is shown, with the reason.

class Predictor {
  constructor(app) {
    this.app = app;
    this.right = this.asked = 0;
    this.button = el("button", {
      type: "button",
      class: "predict-button",
      "aria-pressed": "false",
      text: "Predict",
      title: "Say what the next step gives before it is shown",
      onclick: () => this.toggle(),
    });
    this.question = el("label", { for: "prediction" });
    this.field = el("input", {
      id: "prediction",
      type: "text",
      inputmode: "decimal",
      autocomplete: "off",
      "aria-label": "Your prediction",
    });
    this.said = el("output", { class: "predict-said", role: "status" });
    this.form = el(
      "form",
      { onsubmit: (event) => this.check(event) },
      this.question,
      this.field,
      el("button", { type: "submit", text: "Check" }),
      el("button", { type: "button", text: "Show me", onclick: () => this.show() }),
    );
    this.section = el("section", { class: "predict", "aria-label": "Predict the next step" }, this.form, this.said);
    this.section.hidden = true;
  }

  toggle() {
    const { app } = this;
    app.predicting = !app.predicting;
    this.button.setAttribute("aria-pressed", String(app.predicting));
    this.section.hidden = !app.predicting;
    this.said.textContent = "";
    this.right = this.asked = 0;
    if (app.predicting && app.atEnd()) app.setMode(app.model.backward.length ? "backward" : "forward");
    else app.refresh();
    if (app.predicting && !this.form.hidden) this.field.focus();
  }

  /** What the next step gives as a single number: for which node, and how it is written. */
  next() {
    const { model, mode, step } = this.app;
    if (step >= model.steps(mode)) return null;
    if (mode === "forward") {
      const node = model.nodes[model.forward[step]];
      const asked = node.name ? `${node.name} = ${node.formula}` : node.formula;
      return model.values[node.id] === null ? null : { node, value: model.values[node.id], asked };
    }
    const edges = model.backward[step + 1].edges.map((index) => model.edges[index]);
    for (const edge of [...edges].reverse()) {
      const { value } = model.gradient(edge.from, mode, step + 1);
      const node = model.nodes[edge.from];
      if (value !== null) return { node, value, asked: `∂${model.nodes[model.root].called}/∂${node.called}`, edges };
    }
    return null;
  }

  update() {
    if (!this.app.predicting) return;
    const { model, mode, step } = this.app;
    const next = this.next();
    this.form.hidden = !next;
    if (next) {
      this.question.textContent = `The next step gives ${next.asked} =`;
      this.field.setAttribute("aria-label", this.question.textContent);
    }
    if (!next && step >= model.steps(mode))
      this.said.textContent = `${this.said.textContent} That was the last step: ${this.right} of ${this.asked} right.`;
    else if (!next) this.said.textContent = "The next step gives an array, too large to guess: go on with the arrow.";
  }

  check(event) {
    event.preventDefault();
    const given = Number(this.field.value.trim().replace(",", "."));
    if (this.field.value.trim() === "" || Number.isNaN(given)) {
      this.said.textContent = "Type a number.";
      return;
    }
    const next = this.next();
    const right = isClose(given, next.value, 0.006);
    this.asked += 1;
    this.right += right ? 1 : 0;
    const verdict = right ? "Right." : `Not ${shown(given)}. ${this.reason(given, next)}`;
    this.reveal(`${verdict} ${next.asked} = ${shown(next.value)}.`);
  }

  /** What may have gone wrong. */
  reason(given, { node, value, edges }) {
    if (isClose(-given, value, 0.006)) return "The size is right, the sign is not:";
    const uses = this.app.model.arriving[node.id];
    const alone = uses.findIndex((edge) => edge.sent !== null && isClose(given, edge.sent, 0.006));
    if (edges && uses.length > 1 && alone >= 0) return `That is path ${alone + 1} alone; the paths add up:`;
    const local = (edges || []).find((edge) => edge.from === node.id && edge.local !== null);
    if (local && isClose(given, local.local, 0.006))
      return `That is the local derivative; it is multiplied by what comes from above, ${shown(this.app.model.grads[local.to])}:`;
    return "";
  }

  show() {
    const next = this.next();
    this.reveal(next ? `${next.asked} = ${shown(next.value)}.` : "");
  }

  reveal(text) {
    this.said.textContent = text;
    this.field.value = "";
    this.app.advance(1);
    if (!this.form.hidden) this.field.focus();
  }
}

function isClose(given, wanted, tolerance) {
  return Math.abs(given - wanted) <= tolerance * Math.max(Math.abs(wanted), Math.abs(given)) + 1e-9;
}
