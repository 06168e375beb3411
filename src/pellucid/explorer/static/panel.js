// Beside the graph: the values that can be changed, the selected node with its table, the code.

/** A slider and a number field for every leaf of a graph of single numbers; they are made once and then kept. */
function inputsPanel(app) {
  const { model } = app;
  const leaves = model.editable().slice(0, 40);
  if (!leaves.length) return null;
  const rows = leaves.map((node) => inputRow(app, node));
  const reset = el("button", { type: "button", class: "small", text: "Reset", onclick: () => app.resetValues() });
  const section = el(
    "section",
    { class: "inputs", "aria-label": "Change the inputs" },
    el("div", { class: "section-head" }, el("h2", { text: "Change a value" }), reset),
    ...rows.map((row) => row.element),
  );
  return { section, update: () => rows.forEach((row) => row.update()) };
}

function inputRow(app, node) {
  const { model } = app;
  const start = model.values[node.id];
  const given = (model.snapshot.controls || {})[node.id];
  const reach = Math.max(5, Math.ceil(2 * Math.abs(Number.isFinite(start) ? start : 0)));
  const range = given || { min: -reach, max: reach, step: Number.isInteger(start * 2) ? 0.5 : 0.1 };
  const label = `Value of ${node.called}`;
  const set = (text) => text.trim() !== "" && Number.isFinite(Number(text)) && app.changeValue(node.id, Number(text));
  const slider = el("input", {
    type: "range",
    min: range.min,
    max: range.max,
    step: range.step,
    "aria-label": `${label}, slider`,
    "data-leaf": node.id,
    oninput: () => set(slider.value),
  });
  const field = el("input", {
    type: "number",
    step: range.step,
    "aria-label": label,
    "data-leaf-number": node.id,
    oninput: () => set(field.value),
  });
  const gradient = el("output", { class: "input-grad" });
  const update = () => {
    slider.value = model.values[node.id];
    if (document.activeElement !== field) field.value = shown(model.values[node.id]);
    gradient.textContent = model.grads[node.id] === null ? "(no grad)" : `grad ${shown(model.grads[node.id])}`;
  };
  update();
  return {
    element: el(
      "div",
      { class: "input-row" },
      el("span", { class: "input-name", text: node.called }),
      slider,
      field,
      gradient,
    ),
    update,
  };
}

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
  section.append(...gradientTable(app, node));
  if (known) section.append(...pictureOf(model, node, node.value, "Value"));
  if (mode === "backward") section.append(...pictureOf(model, node, node.grad, "Gradient"));
  return section;
}

function facts(model, node, known) {
  const source = node.source === undefined ? null : model.snapshot.sources[node.source];
  const list = el("dl");
  const add = (term, text) => text && list.append(el("dt", { text: term }), el("dd", { text }));
  add("formula", node.formula ? (node.name ? `${node.name} = ${node.formula}` : node.formula) : "given, not computed");
  add("value", known ? model.brief(node.id) : "?");
  if (model.values[node.id] === null && node.value)
    add(
      "dtype",
      `${node.value.dtype}, mean ${shown(num(node.value.mean))}, from ${shown(num(node.value.min))} to ${shown(num(node.value.max))}`,
    );
  add("line", source ? `${source.file}:${source.line}` : "");
  add("module", node.module);
  add("symbol", node.symbol);
  return [list];
}

/** Each path by which a gradient arrives: upstream × local = contribution; and their sum. */
function gradientTable(app, node) {
  const { model } = app;
  const root = model.nodes[model.root].called;
  const symbol = `∂${root}/∂${node.called}`;
  if (node.id === model.root) return [el("p", { class: "sum", text: `${symbol} = 1, where backward starts.` })];
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
