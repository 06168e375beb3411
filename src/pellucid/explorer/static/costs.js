// What the operations cost, on the same graph: milliseconds, and bytes that are kept for backward. One lens at a time;
// every box then shows its share, folded modules the sum of theirs.

const LENSES = {
  time: { title: "Time", text: milliseconds, of: (node) => (node.ms ? node.ms[0] + node.ms[1] : 0) }, // null counts as 0
  memory: { title: "Memory kept", text: bytes, of: (node) => node.saved || 0 },
};
const MEASURED =
  "Forward: each operation run again on the recorded values, the shortest of three times. " +
  "Backward: its rules, likewise; rules and hooks of your own run once.";
const COUNTED = "An array that two operations keep counts for both.";
const MOST_COSTS = 8;

function milliseconds(many) {
  return `${brieflyShown(Number(many.toPrecision(3)))} ms`;
}

function bytes(many) {
  const unit = many < 1e3 ? 0 : many < 1e6 ? 1 : many < 1e9 ? 2 : 3;
  return `${shown(Number((many / 1e3 ** unit).toPrecision(3)))} ${["bytes", "kB", "MB", "GB"][unit]}`;
}

const LEAST = { time: 0, memory: 1000 }; // the few bytes of single numbers are not worth a picture

/** The lenses that this graph has anything to show for. */
function lensesOf(model) {
  const total = (lens) => model.nodes.reduce((sum, node) => sum + LENSES[lens].of(node), 0);
  return Object.keys(LENSES).filter((lens) => total(lens) > LEAST[lens]);
}

/** What each of the boxes costs, seen through a lens; null without one. */
function costsOf(model, lens, boxes) {
  if (!lens) return null;
  const { of, text } = LENSES[lens];
  const each = boxes.map((box) => box.members.reduce((sum, id) => sum + of(model.nodes[id]), 0));
  const total = model.nodes.reduce((sum, node) => sum + of(node), 0);
  const most = each.reduce((a, b) => Math.max(a, b), 0) || 1;
  const found = new Map(boxes.map((box, i) => [box, each[i]]));
  return {
    share: (box) => found.get(box) / most,
    text: (box) => `${text(found.get(box))} · ${percent(found.get(box), total)}`,
  };
}

function percent(part, whole) {
  return `${shown(Number(((100 * part) / (whole || 1)).toPrecision(2)))} %`;
}

/** At the foot of a box: what it costs, and a bar as long as that is large. */
function costMark(costs, box) {
  const [width, height] = box.size;
  const share = costs.share(box);
  if (!share) return null;
  const bar = (long, name) => svgEl("rect", { x: 6, y: height - 9, width: long, height: 5, rx: 2.5, class: name });
  return svgEl(
    "g",
    {},
    bar(width - 12, "cost-track"),
    bar((width - 12) * share, "cost-bar"),
    svgEl("text", { x: 11, y: height - 14, class: "cost", text: costs.text(box) }),
  );
}

/** Which of the lenses is in use. */
function lensPicker(app) {
  const lenses = lensesOf(app.model);
  if (!lenses.length) return [];
  const picker = el(
    "select",
    { "aria-label": "What the boxes show at their foot", onchange: () => app.setLens(picker.value) },
    el("option", { value: "", text: "Show: code" }),
    ...lenses.map((lens) => el("option", { value: lens, text: `Show: ${LENSES[lens].title.toLowerCase()}` })),
  );
  picker.value = app.lens;
  return [picker];
}

/** Beside the graph: the total, and the operations that cost most. */
function costPanel(app) {
  const { model, lens } = app;
  if (!lens) return null;
  const { title, of, text } = LENSES[lens];
  const costly = model.nodes.filter((node) => of(node) > 0).sort((a, b) => of(b) - of(a));
  const total = costly.reduce((sum, node) => sum + of(node), 0);
  const columns = lens === "time" ? ["forward", "backward"] : ["kept"];
  const head = ["operation", ...columns, "share"].map((text) => el("th", { scope: "col", text }));
  const row = (node) => {
    const link = el("button", {
      type: "button",
      class: "link",
      text: node.called.replace(/[.:]/g, "$&\u200b"), // a long path may break where its parts meet
      onclick: () => app.select(node.id, true),
    });
    const numbers = lens === "time" ? node.ms.map((each) => (each === null ? "?" : text(each))) : [text(of(node))];
    const cells = [...numbers, percent(of(node), total)].map((text) => el("td", { text }));
    return el("tr", {}, el("td", {}, link), ...cells);
  };
  const more = costly.length - MOST_COSTS;
  return el(
    "section",
    { class: "costs", "aria-label": title },
    el("h2", { text: `${title}: ${text(total)} in ${costly.length} operation${costly.length === 1 ? "" : "s"}` }),
    el("table", { class: "paths" }, el("tr", {}, ...head), ...costly.slice(0, MOST_COSTS).map(row)),
    more > 0 ? el("p", { class: "quiet", text: `and ${more} more that cost less` }) : null,
    el("p", { class: "quiet", text: lens === "time" ? MEASURED : COUNTED }),
  );
}

/** How long an operation takes, forward and backward apart. */
function timeText(node) {
  const [ahead, back] = node.ms || [null, null];
  return [ahead === null ? "" : `${milliseconds(ahead)} forward`, back === null ? "" : `${milliseconds(back)} backward`]
    .filter(Boolean)
    .join(", ");
}
