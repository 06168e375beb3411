// Beside the graph: the selected node with its table and its routes, the code.

/** Everything about the selected node. */
function nodePanel(app) {
  const { model, selected, mode, step } = app;
  const section = el("section", { class: "node", "aria-label": "Selected node" });
  if (selected === null) {
    section.append(
      el("h2", { text: "How it is computed" }),
      el("p", { class: "quiet", text: "Click a box to see how its gradient comes about." }),
    );
    return section;
  }
  const node = model.nodes[selected];
  const known = model.known(selected, mode, step);
  section.append(el("h2", { text: `How it is computed: ${node.called}` }), ...facts(model, node, known));
  if (app.predicting && model.gradient(selected, mode, step).state !== "done") {
    section.append(el("p", { class: "quiet", text: "How its gradient comes about is hidden while you predict." }));
    return section;
  }
  if (known) section.append(...shapesPart(app, node));
  section.append(...gradientTable(app, node), ...routesPart(app, node).filter(Boolean));
  section.append(...whatIf(app, node).filter(Boolean));
  if (known) section.append(...pictureOf(model, node, node.value, "Value"));
  if (mode === "backward") section.append(...pictureOf(model, node, node.grad, "Gradient"));
  return section;
}

function facts(model, node, known) {
  const source = node.source === undefined ? null : model.snapshot.sources[node.source];
  const list = el("dl");
  const add = (term, text) => text && list.append(el("dt", { text: term }), el("dd", { text }));
  add("formula", node.formula ? (node.name ? `${node.name} = ${node.formula}` : node.formula) : "given, not computed");
  const inputs = model.inputsOf(node);
  if (known && node.formula && inputs.length && inputs.every((value) => value !== null))
    add("numbers", `${written(node, inputs.map(factor))} = ${model.brief(node.id)}`);
  else add("value", known ? model.brief(node.id) : "?");
  if (model.values[node.id] === null && node.value)
    add(
      "dtype",
      `${node.value.dtype}, mean ${shown(num(node.value.mean))}, from ${shown(num(node.value.min))} to ${shown(num(node.value.max))}`,
    );
  add("line", source ? `${source.file}:${source.line}` : "");
  add("module", node.module);
  add("symbol", node.symbol);
  add("takes", timeText(node));
  add("beside", besideText(model, node));
  add("keeps", node.saved ? `${bytes(node.saved)} for backward` : "");
  return [list];
}

/** A gradient from elsewhere (real PyTorch's, say), and how far ours is from it; after a change it says nothing. */
function besideText(model, node) {
  if (!node.beside || model.changed.size) return "";
  const { grad, apart } = node.beside;
  const given = single(grad) === null ? describe(grad) : shown(single(grad));
  if (apart === null) return `gradient ${given}, here none`;
  if (num(apart) === 0) return `gradient ${given}, the same`;
  return `gradient ${given}, ours is off by ${brieflyShown(num(apart))} of its size`;
}

/** Each path by which a gradient arrives: upstream × local = contribution; and their sum. */
function gradientTable(app, node) {
  const { model } = app;
  const root = model.nodes[model.root].called;
  const symbol = `∂${root}/∂${node.called}`;
  if (node.id === model.root && node.grad) {
    const start = model.grads[node.id] === null ? "1 everywhere" : shown(model.grads[node.id]);
    return [el("p", { class: "sum", text: `${symbol} = ${start}, where backward starts.` })];
  }
  const uses = model.arriving[node.id];
  if (!uses.length)
    return [
      el("p", {
        class: "quiet",
        text: node.needs ? "No gradient arrives here." : "(no grad): nothing asked for this gradient.",
      }),
    ];
  const numbers = uses.every((edge) => edge.sent !== null && edge.local !== null);
  const head = numbers
    ? ["path", "upstream", "× local derivative", "= sent"]
    : ["path", "what happens", "contribution"];
  const table = el("table", { class: "paths" }, el("tr", {}, ...head.map((text) => el("th", { scope: "col", text }))));
  uses.slice(0, 30).forEach((edge, place) => table.append(pathRow(app, edge, place, numbers)));
  const total = model.grads[node.id] !== null ? shown(model.grads[node.id]) : `norm ${shown(model.size(node.id))}`;
  const said = model.paths(node.id) || "One path";
  return [
    table,
    el("p", {
      class: "sum",
      text:
        numbers || uses.length > 1
          ? `${said}${uses.length > 1 ? ` = ${total}` : `: ${symbol} = ${total}`}`
          : `${symbol}: ${total}`,
    }),
  ];
}

function pathRow(app, edge, place, numbers) {
  const { model } = app;
  const target = model.nodes[edge.to];
  const via = el("button", {
    type: "button",
    class: "link",
    text: `${place + 1}. ${model.way(edge)}`,
    onclick: () => app.select(edge.to),
  });
  const words = slopeInWords(target, edge.slot);
  const cells = numbers
    ? [
        `${shown(model.grads[edge.to])}`,
        `${factor(edge.local)}${words && words !== shown(edge.local) ? `  (${words})` : ""}`,
        shown(edge.sent),
      ]
    : [edge.words || "", edge.sent === null ? `norm ${shown(edge.norm)}` : shown(edge.sent)];
  return el("tr", {}, el("td", {}, via), ...cells.map((text) => el("td", { text })));
}

function pictureOf(model, node, summary, title) {
  if (!summary || (summary.numbers && summary.numbers.length === 1)) return [];
  const parts = [
    numberTable(summary),
    heatMap(summary, `heat map of the ${title.toLowerCase()} of ${node.called}`),
    histogram(summary),
  ].filter(Boolean);
  return parts.length ? [el("h3", { text: `${title} ${describe(summary)}` }), ...parts] : [];
}

/** The lines of code; those of the active and of the selected node are marked, a click selects. */
function codePanel(app) {
  const { model, mode, step, selected } = app;
  const lines = codeLines(model);
  if (!lines.length) return null;
  const now = model.active(mode, step).node;
  const lineOf = (id) => (id === null || model.nodes[id].source === undefined ? null : model.nodes[id].source);
  const list = el("ol", { class: "code" });
  for (const line of lines) {
    const mine = line.source !== undefined && [lineOf(now), lineOf(selected)].includes(line.source);
    const item = el("li", { class: mine ? "mine" : "", value: line.number });
    const target = model.lastOfLine.get(line.source);
    item.append(
      target !== undefined
        ? el("button", {
            type: "button",
            class: "link",
            text: line.text || " ",
            onclick: () => app.select(target, true),
          })
        : el("span", { text: line.text || " " }),
    );
    list.append(item);
  }
  return el("section", { class: "source-code", "aria-label": "Code" }, el("h2", { text: "Code" }), list);
}

function codeLines(model) {
  const { code, sources } = model.snapshot;
  if (code) {
    return code
      .replace(/\n$/, "")
      .split("\n")
      .map((text, i) => ({ number: i + 1, text, source: find(sources, i + 1) }));
  }
  return (sources || [])
    .map((line, source) => ({ number: line.line, text: line.text, source, file: line.file }))
    .sort((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : a.number - b.number))
    .slice(0, 120);
}

function find(sources, line) {
  const index = (sources || []).findIndex((source) => source.line === line && source.file.startsWith("<"));
  return index < 0 ? undefined : index;
}
