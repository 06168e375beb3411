// Search: words of the name, operation, module or line; `nan`, `inf`; `grad>1e3`, `value<0`, `saved>1e6`, `ms>0.1`; `line:12`.

/** The nodes that a query finds, or null when it is empty. */
function search(model, query) {
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const tests = words.map((word) => testOf(model, word));
  return new Set(model.nodes.filter((node) => tests.every((test) => test(node))).map((node) => node.id));
}

function testOf(model, word) {
  const compared = word.match(/^(grad|value|saved|ms)(>=|<=|>|<|=)(-?[\d.]+(?:e[+-]?\d+)?)$/);
  if (compared) return comparedTo(model, ...compared.slice(1));
  if (word === "nan") return (node) => hasKind(model, node, "nan", Number.isNaN);
  if (word === "inf") return (node) => hasKind(model, node, "inf", (value) => Math.abs(value) === Infinity);
  const line = word.match(/^(?:line)?:(\d+)$/);
  if (line) return (node) => node.source !== undefined && model.snapshot.sources[node.source].line === Number(line[1]);
  return (node) => textOf(model, node).includes(word);
}

function comparedTo(model, what, sign, number) {
  const limit = Number(number);
  const holds = {
    ">": (a) => a > limit,
    "<": (a) => a < limit,
    ">=": (a) => a >= limit,
    "<=": (a) => a <= limit,
    "=": (a) => a === limit,
  }[sign];
  const value = (node) =>
    model.values[node.id] !== null
      ? model.values[node.id]
      : node.value && node.value.norm !== undefined
        ? num(node.value.norm)
        : null;
  const size = { grad: (node) => model.size(node.id), saved: LENSES.memory.of, ms: LENSES.time.of, value }[what];
  return (node) => size(node) !== null && holds(size(node));
}

function hasKind(model, node, kind, test) {
  const found = (value, summary) => (value !== null ? test(value) : Boolean(summary && summary[kind]));
  return found(model.values[node.id], node.value) || found(model.grads[node.id], node.grad);
}

function textOf(model, node) {
  const source = node.source === undefined ? null : model.snapshot.sources[node.source];
  return [
    node.called,
    node.name,
    node.op,
    node.module,
    node.formula,
    source && `${source.file}:${source.line} ${source.text}`,
  ]
    .filter(Boolean)
    .join(" ")
    .toLowerCase();
}
