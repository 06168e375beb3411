// The same content as a list, for screen readers and for those who like text.

const MOST_LISTED = 400;

function treePanel(app) {
  const { model } = app;
  const details = el("details", { class: "tree" });
  const list = el("ul");
  details.append(el("summary", { text: `All ${model.nodes.length} nodes as text` }), list);
  details.open = model.nodes.length <= 12;
  const items = [];
  const update = () => {
    if (!details.open || app.model !== model) return; // its event may come when another graph is shown already
    if (!items.length) fillTree(app, list, items);
    for (const { node, button, kept } of items) {
      const text = nodeAsText(app, node);
      if (kept.text !== text) button.textContent = kept.text = text;
      if (app.selected === node.id) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  };
  details.addEventListener("toggle", update);
  return { section: details, update };
}

function fillTree(app, list, items) {
  for (const node of app.model.nodes.slice(0, MOST_LISTED)) {
    const button = el("button", { type: "button", class: "link", onclick: () => app.select(node.id, true) });
    items.push({ node, button, kept: {} });
    list.append(el("li", {}, button));
  }
  const more = app.model.nodes.length - MOST_LISTED;
  if (more > 0) list.append(el("li", { class: "quiet", text: `${more} more: search for them above.` }));
}

/** One line that says what a box shows. */
function nodeAsText(app, node) {
  const { model, mode, step } = app;
  const known = model.known(node.id, mode, step);
  const gradient = model.gradient(node.id, mode, step);
  const equation = node.formula ? (node.name ? `${node.name} = ${node.formula}` : node.formula) : node.called;
  const bad =
    (known && model.badValue(node.id)) ||
    (gradient.state === "done" && mode === "backward" && model.badGradient(node.id));
  return [
    `${equation}: value ${known ? model.brief(node.id) : "not computed yet"}`,
    gradient.state === "waiting"
      ? "gradient not there yet"
      : gradientText(model, node, gradient)
          .replace("‖grad‖", "gradient of norm")
          .replace(/^grad /, "gradient "),
    node.badge,
    bad ? "not finite!" : "",
  ]
    .filter(Boolean)
    .join(", ");
}
