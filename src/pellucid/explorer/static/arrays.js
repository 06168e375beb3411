// Small arrays are computed again in the page when a number is changed: the rows of interpreter.js on every element,
// and the rows here. An array is { shape, data }.

const sizeOf = (shape) => shape.reduce((many, size) => many * size, 1);
const array = (shape, data) => ({ shape, data: data || new Float64Array(sizeOf(shape)) });
const reshaped = (a, shape) => array(shape, a.data);

/** The shape that arrays have together. */
function common(shapes) {
  const deep = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: deep }, (_, axis) =>
    shapes.reduce((size, shape) => {
      const own = shape[axis - deep + shape.length];
      return own === undefined || own === 1 ? size : own;
    }, 1),
  );
}

/** Which element of an array of shape `from` stands at each place of the shape `to` that it is repeated to. */
function places(from, to) {
  const ahead = to.length - from.length;
  const stride = new Array(to.length).fill(0);
  for (let axis = to.length - 1, step = 1; axis >= ahead; axis--) {
    stride[axis] = from[axis - ahead] === 1 ? 0 : step;
    step *= from[axis - ahead];
  }
  return walked(to, stride);
}

/** The positions that steps of these strides lead to, in the order of a shape. */
function walked(shape, stride) {
  const found = new Int32Array(sizeOf(shape));
  for (let i = 0; i < found.length; i++) {
    for (let axis = shape.length - 1, rest = i; axis >= 0; axis--) {
      found[i] += (rest % shape[axis]) * stride[axis];
      rest = Math.floor(rest / shape[axis]);
    }
  }
  return found;
}

/** A function of numbers on every element. */
function mapped(of, arrays) {
  const shape = common(arrays.map((a) => a.shape));
  const at = arrays.map((a) => places(a.shape, shape));
  const result = array(shape);
  for (let i = 0; i < result.data.length; i++) result.data[i] = of(...arrays.map((a, k) => a.data[at[k][i]]));
  return result;
}

/** What was repeated is added up again. */
function gathered(g, shape) {
  const result = array(shape);
  places(shape, g.shape).forEach((place, i) => (result.data[place] += g.data[i]));
  return result;
}

const repeated = (a, shape) => mapped((x) => x, [a, array(shape)]);
const without = (shape, axes) => shape.map((size, axis) => (axes.includes(axis) ? 1 : size));

/** Rows times columns; an array of one axis is a row before, and a column behind. */
function times(a, b) {
  const [rows, inner, columns] = [a.shape[0], a.shape[1], b.shape[1]];
  const result = array([rows, columns]);
  for (let r = 0; r < rows; r++)
    for (let k = 0; k < inner; k++)
      for (let c = 0; c < columns; c++) result.data[r * columns + c] += a.data[r * inner + k] * b.data[k * columns + c];
  return result;
}

function permuted(a, order) {
  const stride = a.shape.map((_, axis) => sizeOf(a.shape.slice(axis + 1)));
  const shape = order.map((axis) => a.shape[axis]);
  const at = walked(
    shape,
    order.map((axis) => stride[axis]),
  );
  return array(
    shape,
    Float64Array.from(at, (place) => a.data[place]),
  );
}

const turned = (a) => permuted(a, [1, 0]);
const row = (a) => reshaped(a, [1, sizeOf(a.shape)]);
const column = (a) => reshaped(a, [sizeOf(a.shape), 1]);
const flat = (a) => {
  const inner = a.shape[a.shape.length - 1];
  return reshaped(a, [sizeOf(a.shape) / inner, inner]);
};

/** A product of two factors, each first seen as a matrix. */
const product = (left, right) => ({
  value: ([a, b], _, shape) => reshaped(times(left(a), right(b)), shape),
  pulls: [
    (g, [a, b]) => reshaped(times(grid(g, left(a), right(b)), turned(right(b))), a.shape),
    (g, [a, b]) => reshaped(times(turned(left(a)), grid(g, left(a), right(b))), b.shape),
  ],
});
const grid = (g, a, b) => reshaped(g, [a.shape[0], b.shape[1]]);

const added = (a, axes) => gathered(a, without(a.shape, axes));
const every = (a) => a.shape.map((_, axis) => axis);
const among = (a, axes) => axes.reduce((many, axis) => many * a.shape[axis], 1);

/** Sum or mean over some axes: `share` is what each element counts. */
const reduction = (axesOf, share) => ({
  value: ([a], params, shape) => {
    const axes = axesOf(a, params);
    return reshaped(
      mapped((x) => x * share(a, axes), [added(a, axes)]),
      shape,
    );
  },
  pulls: [
    (g, [a], y, params) => {
      const axes = axesOf(a, params);
      return mapped((x) => x * share(a, axes), [repeated(reshaped(g, without(a.shape, axes)), a.shape)]);
    },
  ],
});

const RESHAPING = ["reshape", "unsafe_view", "unsqueeze", "squeeze0", "squeeze1", "squeeze2"];
const reshaping = {
  value: ([a], _, shape) => reshaped(a, shape),
  pulls: [(g, [a]) => reshaped(g, a.shape)],
};

const permuting = (orderOf) => ({
  value: ([a], params) => permuted(a, orderOf(a, params)),
  pulls: [
    (g, [a], y, params) => {
      const order = orderOf(a, params);
      return permuted(
        g,
        order.map((_, axis) => order.indexOf(axis)),
      );
    },
  ],
});

/** log(sum(exp(a))) along an axis, without overflow. */
function logarithmOfSum(a, axis) {
  const most = array(without(a.shape, [axis]));
  most.data.fill(-Infinity);
  const at = places(most.shape, a.shape);
  at.forEach((place, i) => (most.data[place] = Math.max(most.data[place], a.data[i])));
  const parts = mapped((x, m) => Math.exp(x - m), [a, most]);
  return mapped((sum, m) => Math.log(sum) + m, [added(parts, [axis]), most]);
}

const LINEAR = [(g, [a, w]) => reshaped(times(flat(g), w), a.shape), (g, [a]) => times(turned(flat(g)), flat(a))];

const ARRAY_ROWS = {
  mm: product(
    (a) => a,
    (b) => b,
  ),
  mv: product((a) => a, column),
  dot: product(row, column),
  linear: { value: ([a, w], _, shape) => reshaped(times(flat(a), turned(w)), shape), pulls: LINEAR },
  linear_with_bias: {
    value: ([a, w, b], _, shape) =>
      reshaped(
        mapped((x, y) => x + y, [times(flat(a), turned(w)), b]),
        shape,
      ),
    pulls: [...LINEAR, (g, [a, w, b]) => gathered(g, b.shape)],
  },
  sum_all: reduction(every, () => 1),
  mean_all: reduction(every, (a) => 1 / sizeOf(a.shape)),
  sum: reduction(
    (a, [axes]) => axes,
    () => 1,
  ),
  mean: reduction(
    (a, [axes]) => axes,
    (a, axes) => 1 / among(a, axes),
  ),
  ...Object.fromEntries(RESHAPING.map((name) => [name, reshaping])),
  permute: permuting((a, [order]) => order),
  transpose: permuting((a, [order]) => order),
  t: permuting((a) => every(a).reverse()),
  expand: { value: ([a], [shape]) => repeated(a, shape), pulls: [(g, [a]) => gathered(g, a.shape)] },
  softmax: {
    value: ([a], [axis]) => mapped((x, l) => Math.exp(x - l), [a, logarithmOfSum(a, axis)]),
    pulls: [
      (g, _, y, [axis]) => {
        const weighted = mapped((a, b) => a * b, [g, y]);
        return mapped((w, p, s) => w - p * s, [weighted, y, added(weighted, [axis])]);
      },
    ],
  },
  log_softmax: {
    value: ([a], [axis]) => mapped((x, l) => x - l, [a, logarithmOfSum(a, axis)]),
    pulls: [(g, _, y, [axis]) => mapped((d, l, s) => d - Math.exp(l) * s, [g, y, added(g, [axis])])],
  },
  mse_loss: {
    value: ([a, b], [how]) => {
      const squares = mapped((x, y) => (x - y) ** 2, [a, b]);
      return how === "none" ? squares : array([], [sum(squares) / (how === "mean" ? squares.data.length : 1)]);
    },
    pulls: [
      (g, [a, b], y, [how]) => slopeOfSquares(g, a, b, how),
      (g, [a, b], y, [how]) => slopeOfSquares(g, b, a, how),
    ],
  },
};

const sum = (a) => a.data.reduce((total, x) => total + x, 0);

function slopeOfSquares(g, a, b, how) {
  const many = how === "mean" ? sizeOf(common([a.shape, b.shape])) : 1;
  return gathered(
    mapped((d, x, y) => (2 * d * (x - y)) / many, [g, a, b]),
    a.shape,
  );
}

/** Elements that are only moved: what was filled in instead stays what it was. */
function movedArray(node, inputs) {
  const element = ([input, place], i) => (input === undefined ? num(node.value.numbers[i]) : inputs[input].data[place]);
  return array(node.shape, Float64Array.from(node.moves, element));
}

/** Their gradients go the same way back; those of an element that was used several times add up. */
function movedBack(node, g, shape, slot) {
  const result = array(shape);
  node.moves.forEach(([input, place], i) => {
    if (input === slot) result.data[place] += g.data[i];
  });
  return result;
}

// --- a whole graph

function arrayValue(node, inputs) {
  const params = node.params || [];
  if (node.moves) return movedArray(node, inputs);
  if (Object.hasOwn(ARRAY_ROWS, node.row)) return ARRAY_ROWS[node.row].value(inputs, params, node.shape);
  const each = ROWS[node.row];
  return mapped((...numbers) => each.value(...rowArguments(each, numbers, null, params)), inputs);
}

/** What a node sends to one of its inputs. */
function arrayPull(node, g, inputs, y, slot) {
  const params = node.params || [];
  if (node.moves) return movedBack(node, g, inputs[slot].shape, slot);
  if (Object.hasOwn(ARRAY_ROWS, node.row)) return ARRAY_ROWS[node.row].pulls[slot](g, inputs, y, params);
  const each = ROWS[node.row];
  const slope = each.slopes[slot];
  const at = (d, result, ...numbers) => d * slope(...rowArguments(each, numbers, result, params));
  return gathered(mapped(at, [g, y, ...inputs]), inputs[slot].shape);
}

/** Everything anew, with other numbers in some leaves: the same form in which a server answers. */
function computeArrays(model) {
  const told = model.snapshot;
  const values = [];
  for (const node of told.nodes)
    values.push(model.isLeaf(node.id) ? givenArray(model, node) : arrayValue(node, inputArrays(node, values)));
  const grads = told.nodes.map((node) => (node.grad ? array(node.shape) : null));
  grads[told.root] = array(told.nodes[told.root].shape, told.nodes[told.root].grad.numbers.map(num));
  const edges = told.edges.map((edge) => ({ ...edge }));
  for (const move of told.backward) {
    const node = told.nodes[move.node];
    const inputs = inputArrays(node, values);
    for (const index of move.edges) {
      const edge = edges[index];
      const sent = arrayPull(node, grads[node.id], inputs, values[node.id], edge.slot);
      grads[edge.from] = mapped((a, b) => a + b, [grads[edge.from], reshaped(sent, grads[edge.from].shape)]);
      edge.norm = Math.hypot(...sent.data);
      if (sent.data.length === 1) edge.sent = sent.data[0];
      if (edge.local !== undefined)
        edge.local = arrayPull(node, array(node.shape, [1]), inputs, values[node.id], edge.slot).data[0];
    }
  }
  const nodes = told.nodes.map((node) => ({
    value: summed(values[node.id], node.value.dtype),
    grad: grads[node.id] && summed(grads[node.id], node.grad.dtype),
  }));
  return { nodes, edges };
}

function givenArray(model, node) {
  const changed = model.changed.get(node.id);
  const numbers = changed === undefined ? node.value.numbers.map(num) : [changed].flat();
  return array(node.shape, Float64Array.from(numbers));
}

function inputArrays(node, values) {
  return node.inputs.map((input) => (typeof input === "number" ? values[input] : array([], [num(input.number)])));
}

/** What the page shows of an array: the same as `summary` in summary.py. */
function summed({ shape, data }, dtype) {
  const told = { shape, dtype, numbers: Array.from(data) };
  if (data.length < 2) return told;
  const finite = told.numbers.filter(Number.isFinite);
  const [min, max] = [Math.min(...finite), Math.max(...finite)];
  told.mean = finite.reduce((total, x) => total + x, 0) / finite.length;
  Object.assign(told, { min, max, norm: finite.length === data.length ? Math.hypot(...data) : NaN });
  const nan = told.numbers.filter(Number.isNaN).length;
  if (nan) told.nan = nan;
  if (data.length - finite.length - nan) told.inf = data.length - finite.length - nan;
  if (data.length > 64) told.histogram = counted(finite, min, max);
  return told;
}

function counted(numbers, low, high, bins = 24) {
  const counts = new Array(bins).fill(0);
  for (const x of numbers) counts[high > low ? Math.min(bins - 1, Math.floor(((x - low) / (high - low)) * bins)) : 0]++;
  return counts;
}
