"""Distances between vectors: all pairs of two sets (cdist) or of one (pdist), row by row, and by angle.

Where two points are equal their distance has no derivative; the gradient there is zero. The kernel of all pairs is
SciPy's, which needs no room for the differences. Many points at 2-norm are measured by one matrix product instead:
|a - b|² = |a|² + |b|² - 2 a·b, as PyTorch does from 26 points on.
"""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import add_up, general
from pellucid.core.record import bind
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.axes import permute_row
from pellucid.ops.compare import isnan, sign
from pellucid.ops.complex_numbers import abs
from pellucid.ops.convert import as_type
from pellucid.ops.expand import broadcast_shapes, expand_row
from pellucid.ops.join import cat_row
from pellucid.ops.linalg.matrices import each_matrix, expect_wide, paired
from pellucid.ops.matmul import swap
from pellucid.ops.norm import norming, vector_norm
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import sum as total
from pellucid.ops.reduce import sum_all_row, sum_row
from pellucid.ops.select import clamp_min, drop, where_row
from pellucid.ops.shape import reshape_row, zeros_like_row
from pellucid.ops.slicing import slice_row

# --- all pairs

METRICS = {0: "hamming", 1: "cityblock", 2: "euclidean", math.inf: "chebyshev"}  # SciPy's names
MANY = 25  # points: more are measured by a matrix product
ROOM = 1 << 19  # numbers: how many differences backward works on at a time


def _cdist(a: np.ndarray, b: np.ndarray, p: float, own: bool) -> np.ndarray:
    """The distances of all pairs; `own` says that `b` are the same points, of which each is at 0 from itself."""
    from scipy.spatial.distance import cdist  # late: importing it takes longer than importing all of Pellucid

    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.zeros((*batch, a.shape[-2], b.shape[-2]), a.dtype)
    if not y.size or not a.shape[-1]:
        return y
    metric = METRICS.get(p, "minkowski")
    options = {} if p in METRICS else {"p": p}
    for index, (one, two) in each_matrix(a, b):
        y[index] = cdist(one, two, metric, **options)
        if p in (0, math.inf) and not (np.isfinite(one).all() and np.isfinite(two).all()):
            y[index][np.isnan(cdist(one, two, "cityblock"))] = np.nan  # SciPy's count and maximum pass over NaN
    if own:
        y[..., np.arange(a.shape[-2]), np.arange(a.shape[-2])] = 0  # also at infinity, where inf - inf is NaN
    return y * a.shape[-1] if p == 0 else y  # SciPy gives the share of elements that differ


def _slope(difference: Any, distance: Any, p: float, own: bool) -> Any:
    """How the distance changes with each element of the difference; 0 where the points are equal."""
    if own:
        difference = drop(difference, distance == 0)
    if p == 0:
        return zeros_like_row(difference)
    if p == 1:
        return where_row(isnan(difference), difference, sign(difference))
    if p == math.inf:
        reached = sign(difference) * (abs(difference) == distance)
        return where_row(isnan(distance), distance, reached)
    distance = distance + (distance == 0)
    if p == 2:
        return difference / distance
    if p < 2:
        return sign(difference) * (abs(difference) + (difference == 0)) ** (p - 1) / distance ** (p - 1)
    share = difference / distance  # first: powers of very large and very small numbers are inf and 0
    return share * abs(share) ** (p - 2)


def _differences(a: Any, b: Any) -> Any:
    """Every vector of `a` minus every vector of `b`."""
    (n, width), m = a.shape[-2:], b.shape[-2]
    return reshape_row(a, (*a.shape[:-2], n, 1, width)) - reshape_row(b, (*b.shape[:-2], 1, m, width))


def _deep(a: Any) -> Any:
    return reshape_row(a, (*a.shape, 1))


def _pulled(g: Any, a: Any, b: Any, y: Any, p: float, own: bool) -> tuple[Any, Any]:
    """The gradients of `a` and `b` from all differences at once: for each point a row of g times a matrix of slopes."""
    slopes = _slope(_differences(a, b), _deep(y), p, own)
    last = slopes.ndim - 1
    turned = permute_row(slopes, (*range(last - 2), last - 1, last - 2, last))
    return _flat(_rows(g) @ slopes), -_flat(_rows(swap(g)) @ turned)


def _rows(g: Any) -> Any:
    """Every row of a matrix as a matrix of one row."""
    return reshape_row(g, (*g.shape[:-1], 1, g.shape[-1]))


def _flat(a: Any) -> Any:
    """Matrices of one row as the rows of a matrix."""
    return reshape_row(a, (*a.shape[:-2], a.shape[-1]))


def _cdist_back(g: Any, a: Any, b: Any, y: Any, p: float, own: bool) -> tuple[Any, Any]:
    """Some points of `a` after the other, so that their differences from all of `b` stay in the processor's cache."""
    if p == 0:
        nothing = zeros_like_row(sum_all_row(g))
        return nothing + zeros_like_row(a), nothing + zeros_like_row(b)
    g, points = drop(g, y == 0), a.shape[-2]  # equal points have no direction
    step = max(ROOM * points // max(math.prod(y.shape) * a.shape[-1], 1), 1)
    if step >= points:
        return _pulled(g, a, b, y, p, own)
    cuts = [(..., slice(start, start + step), slice(None)) for start in range(0, points, step)]
    parts = [_pulled(slice_row(g, cut), slice_row(a, cut), b, slice_row(y, cut), p, own) for cut in cuts]
    of_a, of_b = zip(*parts, strict=True)
    return cat_row(of_a, of_a[0].ndim - 2), add_up(of_b)


def _cdist_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (a, b), (of_a, of_b) = inputs, tangents
    moved = _differences(zeros_like_row(a) if of_a is None else of_a, zeros_like_row(b) if of_b is None else of_b)
    along = moved * _slope(_differences(a, b), _deep(y), *params)
    return sum_row(along, (along.ndim - 1,), False)


cdist_row = bind(
    general(
        "cdist", _cdist, None, None, pullback=_cdist_back, jvp=_cdist_jvp, dtypes="equal", batch=paired,
    )
)  # fmt: skip


# --- many pairs at 2-norm, by a matrix product


def _euclidean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = [np.add.reduce(x * x, -1) for x in (a, b)]
    y = np.matmul(-2 * a, b.swapaxes(-1, -2))
    y = y + squares[0][..., :, None]
    y += squares[1][..., None, :]
    return np.sqrt(np.maximum(y, 0, out=y), out=y)


def _per_distance(g: Any, y: Any) -> Any:
    still = y == 0
    return drop(g / (y + still), still)


def _euclidean_back(g: Any, a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    weights = _per_distance(g, y)
    rank = weights.ndim
    of_a = a * sum_row(weights, (rank - 1,), True) - weights @ b
    of_b = b * swap(sum_row(weights, (rank - 2,), True)) - swap(weights) @ a
    return of_a, of_b


def _euclidean_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (a, b), (of_a, of_b) = inputs, tangents
    terms = []
    if of_a is not None:
        terms.append(sum_row(a * of_a, (a.ndim - 1,), True) - of_a @ swap(b))
    if of_b is not None:
        terms.append(swap(sum_row(b * of_b, (b.ndim - 1,), True)) - a @ swap(of_b))
    return _per_distance(add_up(terms), y)


euclidean_row = bind(
    general(
        "euclidean_dist", _euclidean, None, None, pullback=_euclidean_back, jvp=_euclidean_jvp, dtypes="equal",
        batch=paired,
    )
)  # fmt: skip

BY_PRODUCT = {  # of each compute_mode: whether n and m points are measured by a product
    None: lambda n, m: n > MANY or m > MANY,
    "use_mm_for_euclid_dist_if_necessary": lambda n, m: n > MANY or m > MANY,
    "use_mm_for_euclid_dist": lambda n, m: True,
    "donot_use_mm_for_euclid_dist": lambda n, m: False,
}


@operation(
    samples=lambda draw: [
        *(call(draw(3, 2), draw(4, 2), p) for p in (2, 1, 0, 3, 1.5, 0.5, math.inf)),
        call(draw(2, 3, 2), draw(2, 2, 2)), call(draw(2, 1, 2, 3), draw(3, 2, 3), p=1.0),
        call(draw(0, 2), draw(3, 2)), call(draw(3, 0), draw(2, 0)),
        call(draw(3, 2), draw(2, 2), compute_mode="use_mm_for_euclid_dist"), call(draw(1, 2), draw(27, 2)),
    ],
    methods=(),
)  # fmt: skip
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    """The p-norm distance between every row of one matrix and every row of another, for each of a batch.

    >>> import pellucid as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 0.0]]))
    tensor([[0.],
            [5.]])
    """
    if compute_mode not in BY_PRODUCT:
        raise refusal(ValueError, f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        expect(x.array.dtype.kind not in "biuc", f"cdist only supports floating-point dtypes, {name} got: {name_of(x)}")
        expect(x.ndim >= 2, f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    expect(x1.dtype == x2.dtype, f"expected scalar type {name_of(x1)} but found {name_of(x2)}")
    expect_wide("cdist", x1, "cdist")
    (n, width), (m, other) = x1.shape[-2:], x2.shape[-2:]
    expect(width == other, f"X1 and X2 must have the same number of columns. X1: {width} X2: {other}")
    expect(p >= 0, "cdist only supports non-negative p values")
    broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))  # says so if they do not fit
    by_product = p == 2 and BY_PRODUCT[compute_mode](n, m) and n and m and width
    return euclidean_row(x1, x2) if by_product else cdist_row(x1, x2, p, False)


@operation(
    samples=lambda draw: [
        *(call(draw(4, 3), p) for p in (2, 1, 0, 3, 1.5, math.inf)), call(draw(1, 2)), call(draw(3, 0)),
        call(draw(5, 2)),
    ],
    module="torch.nn.functional", aliases=("torch.pdist",), unclaimed=COMPOSED,
)  # fmt: skip
def pdist(input: Any, p: float = 2) -> Any:
    """The p-norm distances between the rows of a matrix: each pair once, in the order (0, 1), (0, 2), ..., (1, 2), ...

    >>> import pellucid as torch
    >>> torch.nn.functional.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    expect(input.ndim == 2, f"pdist only supports 2D tensors, got: {input.ndim}D")
    expect(input.array.dtype.kind not in "biuc", "pdist only supports floating-point dtypes")
    expect_wide("pdist", input, "pdist")
    expect(p >= 0, "pdist only supports non-negative p values")
    return cdist_row(input, input, p, True)[np.triu_indices(input.shape[0], 1)]


# --- one pair per row

pairwise_row = norming("pairwise_distance", grad_name="NormBackward1")


def _pairs(draw: Draw) -> list[Sample]:
    shapes = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1, 3), (4, 3)), ((2, 0), (2, 0)), ((0, 3), (1, 3))]
    return [call(draw(*one), draw(*two)) for one, two in shapes]


@operation(
    samples=lambda draw: [
        *_pairs(draw), *(call(draw(2, 3), draw(2, 3), p) for p in (1, 3, 0.5, math.inf)), call(draw(3), draw(3)),
        call(draw(2, 3), draw(2, 3), eps=0.1, keepdim=True), call(draw.complex(2, 3), draw.complex(2, 3)),
    ],
    module="torch.nn.functional", aliases=("torch.pairwise_distance",),
    tensors=2,
)  # fmt: skip
def pairwise_distance(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """The p-norm of x1 - x2 + eps along the last dimension.

    >>> import pellucid as torch
    >>> torch.nn.functional.pairwise_distance(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0]]), eps=0)
    tensor([5.])
    """
    return vector_norm(x1 - x2 + float(eps), p, -1, keepdim, pairwise_row)


@operation(
    samples=lambda draw: [
        *_pairs(draw), call(draw(2, 3), draw(2, 3), 0), call(draw(3), draw(3), dim=0),
        call(draw(2, 3), draw(2, 3), -1, 0.01), call(draw(2, 3, 2), draw(3, 2), dim=1, eps=0.1),
    ],
    module="torch.nn.functional", aliases=("torch.cosine_similarity",),
)  # fmt: skip
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along a dimension; their norms count as at least `eps`.

    >>> import pellucid as torch
    >>> torch.nn.functional.cosine_similarity(torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 0.0]]))
    tensor([0.7071])
    """
    common = dtypes.result_type(x1.array, x2.array)
    label = dtypes.scalar_name(common)
    expect(common.is_floating_point, f"expected common dtype to be floating point, yet common dtype is {label}")
    expect(eps >= 0, f"cosine_similarity: eps must be non-negative, got {eps}")
    shape = tuple(broadcast_shapes(tuple(x1.shape), tuple(x2.shape)))
    first, second = (expand_row(as_type(x, common), shape) for x in (x1, x2))
    return total(_unit(first, dim, eps) * _unit(second, dim, eps), dim)


def _unit(x: Any, dim: int, eps: float) -> Any:
    """x divided by its norm, or by eps if that is larger; the gradient is that of the norm in both cases."""
    size = vector_norm(x, 2, dim, True)
    return x / (size + clamp_min(eps - size, 0).detach())  # a norm that is inf stays so


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3), 1.0), call(draw(2, 3), dim=0), call(draw(3), 3.0, 0),
        call(draw(2, 3, 2), dim=(1, 2)), call(draw(2, 0)), call(draw(2, 3), eps=9.0), call(draw(2, 3), p=math.inf),
        call(draw.complex(2, 3)),
    ],
    module="torch.nn.functional",
    out="cast",
)  # fmt: skip
def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Vectors along a dimension divided by their p-norm (by `eps` if that is larger), so that their norm is 1.

    >>> import pellucid as torch
    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / expand_row(clamp_min(vector_norm(input, p, dim, True), eps), tuple(input.shape))
