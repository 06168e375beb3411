// Numbers, elements and formulas. Text reaches the page through textContent only.

const SVG = "http://www.w3.org/2000/svg";
const COUNTS = [
  "no",
  "One",
  "Two",
  "Three",
  "Four",
  "Five",
  "Six",
  "Seven",
  "Eight",
  "Nine",
  "Ten",
  "Eleven",
  "Twelve",
];

/** JSON has no NaN and no infinity: they come as text. */
function num(value) {
  return value === null || value === undefined ? null : Number(value);
}

/** Four significant digits; whole numbers up to a million in full. The same as `number` in graph.py. */
function shown(value) {
  if (value === null || value === undefined) return "?";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "-∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value === 0 ? 0 : value);
  const size = Math.abs(value);
  if (size >= 9999.5 || size < 1e-4) {
    const [mantissa, exponent] = value.toExponential(3).split("e");
    return `${Number(mantissa)}e${Number(exponent)}`;
  }
  return String(Number(value.toPrecision(4)));
}

/** Three significant digits, for norms in boxes. */
function brieflyShown(value) {
  if (value === null || !Number.isFinite(value) || value === 0 || Math.abs(value) >= 1e-3)
    return shown(value && Number(value.toPrecision(3)));
  const [mantissa, exponent] = value.toExponential(2).split("e");
  return `${Number(mantissa)}e${Number(exponent)}`;
}

/** A number that follows a × or a +: in parentheses if it is negative. */
function factor(value) {
  const text = shown(value);
  return text.startsWith("-") ? `(${text})` : text;
}

function countWord(many) {
  return COUNTS[many] || String(many);
}

function clip(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function make(namespace, tag, attributes, children) {
  const element = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** An HTML element: attributes, `text`, and handlers such as `onclick`. */
function el(tag, attributes, ...children) {
  return make(null, tag, attributes, children);
}

/** The same for SVG. */
function svgEl(tag, attributes, ...children) {
  return make(SVG, tag, attributes, children);
}

const INFIX = {
  add: "+",
  sub: "-",
  mul: "*",
  div: "/",
  pow: "**",
  matmul: "@",
  mm: "@",
  mv: "@",
  bmm: "@",
  dot: "@",
  gt: ">",
  lt: "<",
  ge: ">=",
  le: "<=",
  eq: "==",
  ne: "!=",
  rsub_number: "-",
};

/** An operation with its arguments written in: `2 * 3`, `7 ** 2`, `tanh(0.5)`. */
function written(node, args) {
  const params = node.params || [];
  if (node.row === "rsub_number") args = [args[1], args[0]];
  if (Object.hasOwn(INFIX, node.row) && args.length === 2) return `${args[0]} ${INFIX[node.row]} ${args[1]}`;
  if (node.row === "neg") return `-${args[0]}`;
  if (node.row === "pow_number") return `${args[0]} ** ${params[0]}`;
  if (node.row === "pow_of_number") return `${params[0]} ** ${args[0]}`;
  if (node.row === "reciprocal") return `1 / ${args[0]}`;
  return `${node.op}(${args.join(", ")})`;
}
