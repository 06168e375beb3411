// The parts of the drawing: arrow heads, what boxes and lines say.

const GRADIENT_STATES = {
  never: "no gradient goes here",
  waiting: "gradient not there yet",
  partial: "not all paths yet",
  done: "",
};

function arrowHeads() {
  const head = (id, d, refX) =>
    svgEl(
      "marker",
      {
        id,
        viewBox: "0 0 10 10",
        refX,
        refY: 5,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      },
      svgEl("path", { d, class: id }),
    );
  const onward = "M0,0L10,5L0,10z";
  return svgEl(
    "defs",
    {},
    head("head", onward, 4),
    head("head-lit", onward, 4),
    head("head-back", "M10,0L0,5L10,10z", 2),
  );
}

/** What flows along a use: numbered where several paths meet, as a product where it is the step of now. */
function edgeLabel(model, edge, lit) {
  const uses = model.arriving[edge.from];
  const what = edge.sent === null ? `norm ${brieflyShown(edge.norm)}` : shown(edge.sent);
  if (uses.length > 1) return `path ${uses.indexOf(edge) + 1}: ${what.length > 4 ? "" : "grad = "}${what}`;
  if (!lit) return "";
  const product =
    edge.local === null || edge.sent === null
      ? what
      : `${shown(model.grads[edge.to])} × ${factor(edge.local)} = ${what}`;
  return product.length > 14 ? `= ${what}` : product; // longer ones would lie on the boxes
}

/** The name, and the operation beside it where there is room; inside a module the path to it is left out. */
function heading(node, width) {
  const op = clip(opName(node), 10);
  const room = Math.floor((width - 26 - op.length * 6.8) / 9.8);
  const called = nameEnd(node.called, 13);
  const own = called.split(/[.:]/).pop();
  const given = ["input", "constant", "parameter"].includes(op); // then the name needs more
  const beside = !own.startsWith(node.op) && (called.length <= room || !given);
  const text = beside ? nameEnd(called, Math.max(room, 4)) : called;
  const name = svgEl("text", { x: 11, y: 23, class: "name", text });
  return beside
    ? [name, svgEl("text", { x: width - 11, y: 23, class: "op-name", "text-anchor": "end", text: op })]
    : [name];
}

/** As much of the end of a name as there is room for: `0.weight` of `model.0.weight`. */
function nameEnd(name, most) {
  const parts = name.split(/(?<=[\w\]][.:])(?=\w)/);
  while (parts.length > 1 && parts.join("").length > most) parts.shift();
  return clip(parts.join(""), most);
}

function opName(node) {
  return node.op === "leaf" ? (node.badge ? "parameter" : "input") : node.op;
}

function badge(text, width) {
  return svgEl(
    "g",
    { class: "badge", transform: `translate(${width - 72},-11)` },
    svgEl("rect", { width: 68, height: 19, rx: 9.5 }),
    svgEl("text", { x: 34, y: 13.5, "text-anchor": "middle", text: clip(text, 10) }),
  );
}

function arrayText(summary) {
  if (!summary) return "not kept";
  return summary.nan ? `${summary.nan} NaN` : summary.inf ? `${summary.inf} ∞` : `(${summary.shape.join("×")})`;
}

function gradientText(model, node, gradient) {
  if (gradient.state === "never") return "(no grad)";
  if (gradient.state === "waiting") return "grad ?";
  const told = gradient.value !== null ? shown(gradient.value) : node.grad && node.grad.nan ? "NaN" : null;
  if (told === null)
    return `‖grad‖ ${brieflyShown(model.size(node.id))}${gradient.state === "partial" ? ` (${gradient.arrived}/${gradient.of})` : ""}`;
  const short = told.length > 8 ? brieflyShown(gradient.value) : told;
  return gradient.state === "partial" ? `grad ${short} (${gradient.arrived}/${gradient.of})` : `grad ${short}`;
}

function sourceLine(model, node) {
  const source = node.source === undefined ? null : model.snapshot.sources[node.source];
  return source ? `${source.line}: ${source.text}` : node.formula || "";
}

function tooltip(model, node, mode, step) {
  const source = node.source === undefined ? null : model.snapshot.sources[node.source];
  const known = model.known(node.id, mode, step);
  const gradient = model.gradient(node.id, mode, step);
  const parts = [
    node.name && node.formula ? `${node.name} = ${node.formula}` : node.called,
    `value ${known ? model.brief(node.id) : "not computed yet"}`,
    GRADIENT_STATES[gradient.state] || gradientText(model, node, gradient),
  ];
  return [...parts, source ? `${source.file}:${source.line}` : "", node.module ? `module ${node.module}` : ""]
    .filter(Boolean)
    .join("\n");
}
