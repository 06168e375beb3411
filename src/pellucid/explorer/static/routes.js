// Whole routes of a gradient, from the result back to a box: the product of the local derivatives along each, and
// their sum. Only the strongest are listed; how many there are is counted exactly.

const MOST_ROUTES = 6;

/** The routes to a node, strongest first; `count` is the number of all of them. */
function routesTo(model, id) {
  const leads = leadingTo(model, id);
  const best = new Map([[model.root, [{ strength: 0, edge: null, before: null }]]]);
  const counts = new Map([[model.root, 1]]);
  for (let node = model.root; node >= 0; node--) {
    if (node === id || !best.has(node) || !leads.has(node)) continue;
    const arrivals = strongest(best.get(node));
    for (const edge of model.into[node]) {
      if (edge.step === undefined || !leads.has(edge.from)) continue;
      counts.set(edge.from, (counts.get(edge.from) || 0) + counts.get(node));
      const gain = Math.log(Math.abs(gainOf(model, edge)));
      const onward = arrivals.map((before) => ({ strength: plus(before.strength, gain), edge, before }));
      best.set(edge.from, strongest([...(best.get(edge.from) || []), ...onward]));
    }
  }
  const arrived = id === model.root ? [] : best.get(id) || [];
  return { count: counts.get(id) || 0, routes: arrived.map((arrival) => retraced(model, arrival)) };
}

/** The nodes from which a gradient can come to this one. */
function leadingTo(model, id) {
  const found = new Set([id]);
  const waiting = [id];
  while (waiting.length)
    for (const edge of model.out[waiting.pop()])
      if (edge.step !== undefined && !found.has(edge.to)) {
        found.add(edge.to);
        waiting.push(edge.to);
      }
  return found;
}

/** By what a gradient changes along an edge: the local derivative, for arrays how much its norm grows. */
function gainOf(model, edge) {
  if (edge.local !== null) return edge.local;
  const before = model.size(edge.to);
  return before ? edge.norm / before : edge.norm ? Infinity : 0;
}

/** Logarithms of sizes; 0 × ∞ is worth seeing. */
const plus = (a, b) => (Number.isNaN(a + b) ? Infinity : a + b);

const strongest = (arrivals) => arrivals.sort((a, b) => b.strength - a.strength).slice(0, MOST_ROUTES);

function retraced(model, arrival) {
  const edges = [];
  for (let at = arrival; at.edge; at = at.before) edges.unshift(at.edge);
  const start = model.grads[model.root] === null ? model.size(model.root) : model.grads[model.root];
  const factors = edges.map((edge) => gainOf(model, edge));
  const exact = edges.every((edge) => edge.local !== null);
  return { edges, start, factors, exact, product: factors.reduce((so, each) => so * each, start) };
}

/** `c ← sum ← b`; of a long route only its ends. */
function routeNames(model, route) {
  const names = [model.nodes[model.root].called, ...route.edges.map((edge) => model.nodes[edge.from].called)];
  return shortened(names, (many) => `… ${many} more …`).join(" ← ");
}

/** `1 × 3 × 1 = 3`. */
function routeNumbers(route) {
  const factors = [shown(route.start), ...route.factors.map(factor)];
  const written = shortened(factors, (many) => `… ${many} more …`).join(" × ");
  return `${written} = ${route.exact ? "" : "norm about "}${shown(route.exact ? route.product : Math.abs(route.product))}`;
}

function shortened(parts, between) {
  return parts.length <= 9 ? parts : [...parts.slice(0, 4), between(parts.length - 8), ...parts.slice(-4)];
}

/** How the routes add up: all of them, or the listed ones and the rest. */
function routeSum(model, id, { count, routes }) {
  if (!routes.every((route) => route.exact))
    return routes.length < 2
      ? ""
      : "Along a route of arrays the norms are followed; parts that point in other directions need not add up.";
  const terms = routes.map((route, i) => (i ? factor(route.product) : shown(route.product))).join(" + ");
  const total = shown(model.grads[id]);
  if (count <= routes.length) return routes.length > 1 ? `${countWord(count)} routes: ${terms} = ${total}` : "";
  const rest = model.grads[id] - routes.reduce((sum, route) => sum + route.product, 0);
  return `${terms} + ${factor(rest)} (${shown(count - routes.length)} more routes) = ${total}`;
}

function routesPart(app, node) {
  const { model } = app;
  if (node.id === model.root || !model.arriving[node.id].length) return [];
  const found = routesTo(model, node.id);
  const all = found.routes.reduce((sum, route) => sum + Math.abs(route.product), 0);
  const rows = found.routes.map((route) => {
    const share = all > 0 && Number.isFinite(all) && found.count > 1 ? Math.abs(route.product) / all : null;
    return el(
      "li",
      {},
      el("span", { class: "route", text: routeNames(model, route) }),
      el("span", { class: "route-numbers", text: routeNumbers(route) }),
      share === null
        ? null
        : el("span", { class: "share", text: ` (${shown(Number((100 * share).toPrecision(3)))} %)` }),
    );
  });
  const said = routeSum(model, node.id, found);
  const title = found.count > found.routes.length ? `Routes: the strongest of ${shown(found.count)}` : "Routes";
  return [
    el("h3", { text: `${title}, from ${model.nodes[model.root].called} back` }),
    el("ol", { class: "routes" }, ...rows),
    said ? el("p", { class: "quiet", text: said }) : null,
    ...whyPart(app, node, found),
  ];
}

// --- why it is zero, tiny, huge or NaN

function whyPart(app, node, found) {
  const said = whyText(app.model, node, found);
  if (!said) return [];
  const go = el("button", {
    type: "button",
    class: "small",
    text: "Go there",
    onclick: () => app.select(said.at, true),
  });
  return [el("p", { class: "why" }, el("strong", { text: `${said.question} ` }), said.text, " ", go)];
}

function whyText(model, node, { routes }) {
  const size = model.size(node.id);
  if (size === null || !routes.length) return null;
  const [route] = routes;
  if (!Number.isFinite(size)) return whyBad(model, node);
  if (size === 0) return whyZero(model, routes);
  const steps = route.factors.length;
  if (steps < 4 || (size > 1e-6 && size < 1e6)) return null;
  const mean = Math.abs(route.product / route.start) ** (1 / steps);
  const extreme = route.factors.indexOf(
    route.factors.reduce((worst, each) => (size < 1 ? Math.min : Math.max)(worst, Math.abs(each)), size < 1 ? 9e99 : 0),
  );
  const at = route.edges[Math.max(0, extreme)].to;
  const text = `${steps} steps, each of which multiplies it by ${shown(Number(mean.toPrecision(3)))} on average.`;
  return { question: size < 1 ? "Why so small?" : "Why so large?", text, at };
}

function whyBad(model, node) {
  const leads = leadingTo(model, node.id);
  for (const move of model.backward) {
    const edge = move.edges.map((index) => model.edges[index]).find((each) => badEdge(each) && leads.has(each.from));
    if (!edge) continue;
    const { called } = model.nodes[edge.to];
    const text = `It starts in ${called}: ${model.product(edge)}.`;
    return { question: "Why not a number?", text, at: edge.to };
  }
  return null;
}

const badEdge = (edge) => edge.norm !== null && !Number.isFinite(edge.sent === null ? edge.norm : edge.sent);

function whyZero(model, routes) {
  const zero = routes[0].edges.find((edge) => gainOf(model, edge) === 0);
  if (!zero || routes.some((route) => route.product !== 0)) return null;
  const target = model.nodes[zero.to];
  const words = slopeInWords(target, zero.slot);
  const where = `in ${target.called}${words ? `, whose local derivative is ${words}` : ""}`;
  const text = `${routes.length > 1 ? "Every route" : "The route"} has a factor 0: ${where}.`;
  return { question: "Why zero?", text, at: zero.to };
}

// --- what if it moved

/** The result as a curve over one leaf, with the tangent that the gradient is, and the slope by differences. */
function whatIf(app, node) {
  const { model } = app;
  const [x, slope] = [model.values[node.id], model.grads[node.id]];
  if (model.kind !== "numbers" || !model.isLeaf(node.id) || slope === null || model.nodes.length > 400) return [];
  if (!Number.isFinite(x) || !Number.isFinite(slope)) return [];
  const given = (model.snapshot.controls || {})[node.id];
  const half = given ? Math.max(given.max - x, x - given.min, 1) : Math.max(1, Math.abs(x));
  const points = Array.from({ length: 61 }, (_, i) => x + half * (i / 30 - 1));
  const curve = points.map((at) => [at, model.resultAt(node.id, at)]).filter(([, y]) => Number.isFinite(y));
  const here = model.resultAt(node.id, x);
  const h = 1e-4 * Math.max(1, Math.abs(x));
  const difference = (model.resultAt(node.id, x + h) - model.resultAt(node.id, x - h)) / (2 * h);
  const root = model.nodes[model.root].called;
  const unseen = Math.abs(slope) * h < 1e-12 * Math.abs(here) ? " Such a small change is lost in rounding." : "";
  const rate = shown(Number(difference.toPrecision(4)));
  const moved = `Moving ${node.called} by ±${shown(h)} changes ${root} at a rate of ${rate}`;
  const text = `${moved}; the gradient says ${shown(slope)}.${unseen}`;
  return [
    el("h3", { text: `What if ${node.called} moves?` }),
    tangentPicture(curve, x, here, slope, `${root} over ${node.called}, with the gradient as its slope`),
    el("p", { class: "quiet", text }),
  ];
}
