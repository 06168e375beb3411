// Graphs of single numbers are computed again in the page when a value is changed. Each row: the value, the local
// derivative for each input, and how that derivative is written.

const sigmoidOf = (x) => 0.5 * (1 + Math.tanh(0.5 * x));

/** The derivative of x ** n as PyTorch has it: zero for n = 0, whatever x is. */
const slopeOfPower = (x, n) => (n === 0 ? 0 : n * Math.pow(x, n - 1));

const comparison = (test) => ({ value: (a, b) => (test(a, b) ? 1 : 0), slopes: [], says: [] });

const share = (a, b, wins) => (a === b ? 0.5 : wins ? 1 : 0);

const ROWS = {
  add: { value: (a, b) => a + b, slopes: [() => 1, () => 1], says: ["1", "1"] },
  sub: { value: (a, b) => a - b, slopes: [() => 1, () => -1], says: ["1", "-1"] },
  rsub_number: { value: (a, b) => b - a, slopes: [() => -1, () => 1], says: ["-1", "1"] },
  mul: { value: (a, b) => a * b, slopes: [(a, b) => b, (a) => a], says: ["the other factor", "the other factor"] },
  div: {
    value: (a, b) => a / b,
    slopes: [(a, b) => 1 / b, (a, b) => -a / (b * b)],
    says: ["1 / divisor", "-dividend / divisor²"],
  },
  pow: {
    value: (a, b) => Math.pow(a, b),
    slopes: [(a, b) => slopeOfPower(a, b), (a, b) => (a === 0 && b >= 0 ? 0 : Math.pow(a, b) * Math.log(a))],
    says: ["exponent · base^(exponent-1)", "result · log(base)"],
  },
  pow_number: {
    value: (a, y, [n]) => Math.pow(a, n),
    slopes: [(a, y, [n]) => slopeOfPower(a, n)],
    says: ["n · x^(n-1)"],
    params: true,
  },
  pow_of_number: {
    value: (a, y, [n]) => Math.pow(n, a),
    slopes: [(a, y, [n]) => y * Math.log(n)],
    says: ["result · log(n)"],
    params: true,
  },
  neg: { value: (a) => -a, slopes: [() => -1], says: ["-1"] },
  reciprocal: { value: (a) => 1 / a, slopes: [(a) => -1 / (a * a)], says: ["-1 / x²"] },
  exp: { value: Math.exp, slopes: [(a) => Math.exp(a)], says: ["exp(x), the result"] },
  expm1: { value: Math.expm1, slopes: [(a) => Math.exp(a)], says: ["exp(x)"] },
  log: { value: Math.log, slopes: [(a) => 1 / a], says: ["1 / x"] },
  log1p: { value: Math.log1p, slopes: [(a) => 1 / (1 + a)], says: ["1 / (1 + x)"] },
  sqrt: { value: Math.sqrt, slopes: [(a) => 1 / (2 * Math.sqrt(a))], says: ["1 / (2 · result)"] },
  square: { value: (a) => a * a, slopes: [(a) => 2 * a], says: ["2x"] },
  abs: { value: Math.abs, slopes: [Math.sign], says: ["the sign of x"] },
  tanh: { value: Math.tanh, slopes: [(a) => 1 - Math.tanh(a) ** 2], says: ["1 - result²"] },
  sigmoid: {
    value: sigmoidOf,
    slopes: [(a) => sigmoidOf(a) * (1 - sigmoidOf(a))],
    says: ["result · (1 - result)"],
  },
  silu: {
    value: (a) => a * sigmoidOf(a),
    slopes: [(a) => sigmoidOf(a) * (1 + a * (1 - sigmoidOf(a)))],
    says: ["σ(x)(1 + x(1 - σ(x)))"],
  },
  softplus: {
    value: (a) => Math.max(a, 0) + Math.log1p(Math.exp(-Math.abs(a))),
    slopes: [sigmoidOf],
    says: ["sigmoid(x)"],
  },
  relu: {
    value: (a) => (a > 0 ? a : a <= 0 ? 0 : NaN),
    slopes: [(a) => (a > 0 ? 1 : 0)],
    says: ["1 if x > 0, else 0"],
  },
  sin: { value: Math.sin, slopes: [Math.cos], says: ["cos(x)"] },
  cos: { value: Math.cos, slopes: [(a) => -Math.sin(a)], says: ["-sin(x)"] },
  tan: { value: Math.tan, slopes: [(a) => 1 + Math.tan(a) ** 2], says: ["1 + result²"] },
  where: {
    value: (c, a, b) => (c ? a : b),
    slopes: [null, (c) => (c ? 1 : 0), (c) => (c ? 0 : 1)],
    says: ["", "1 if chosen, else 0", "1 if chosen, else 0"],
  },
  maximum: {
    value: Math.max,
    slopes: [(a, b) => share(a, b, a > b), (a, b) => share(a, b, b > a)],
    says: ["1 if larger, else 0", "1 if larger, else 0"],
  },
  minimum: {
    value: Math.min,
    slopes: [(a, b) => share(a, b, a < b), (a, b) => share(a, b, b < a)],
    says: ["1 if smaller, else 0", "1 if smaller, else 0"],
  },
  gt: comparison((a, b) => a > b),
  lt: comparison((a, b) => a < b),
  ge: comparison((a, b) => a >= b),
  le: comparison((a, b) => a <= b),
  eq: comparison((a, b) => a === b),
  ne: comparison((a, b) => a !== b),
  clamp: {
    value: (a, y, [low, high]) => Math.min(Math.max(a, low ?? -Infinity), high ?? Infinity),
    slopes: [(a, y, [low, high]) => (a >= (low ?? -Infinity) && a <= (high ?? Infinity) ? 1 : 0)],
    says: ["1 inside the limits, else 0"],
    params: true,
  },
  leaky_relu: {
    value: (a, y, [slope]) => (a > 0 ? a : a * slope),
    slopes: [(a, y, [slope]) => (a > 0 ? 1 : slope)],
    says: ["1 if x > 0, else the small slope"],
    params: true,
  },
  rsqrt: { value: (a) => 1 / Math.sqrt(a), slopes: [(a) => -0.5 * Math.pow(a, -1.5)], says: ["-result³ / 2"] },
  sinh: { value: Math.sinh, slopes: [Math.cosh], says: ["cosh(x)"] },
  cosh: { value: Math.cosh, slopes: [Math.sinh], says: ["sinh(x)"] },
  detach: { value: (a) => a, slopes: [], says: [] },
  clone: { value: (a) => a, slopes: [() => 1], says: ["1"] },
  cast: { value: (a) => a, slopes: [() => 1], says: ["1"] },
  sum_all: { value: (a) => a, slopes: [() => 1], says: ["1"] },
  mean_all: { value: (a) => a, slopes: [() => 1], says: ["1"] },
};

/** The arguments of a row: its inputs; rows with params take (x, result, params). */
function rowArguments(row, inputs, result, params) {
  return row.params ? [inputs[0], result, params] : inputs;
}

function computeValue(node, inputs) {
  const row = ROWS[node.row];
  return row.value(...rowArguments(row, inputs, null, node.params || []));
}

/** The derivative of a node with respect to one of its inputs; null where none goes. */
function computeSlope(node, inputs, result, slot) {
  const row = ROWS[node.row];
  const slope = row.slopes[slot];
  return slope ? slope(...rowArguments(row, inputs, result, node.params || [])) : null;
}

/** How the local derivative of an input is written, for the table. */
function slopeInWords(node, slot) {
  return (Object.hasOwn(ROWS, node.row) && ROWS[node.row].says[slot]) || ""; // a user's operation may have any name
}
