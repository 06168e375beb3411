"""Trust T8: NaN, infinities, denormals, signed zeros and the largest numbers through every operation, as in PyTorch.

Elementwise operations get all special values, and all pairs of them; the others get their own samples with special
values put among the ordinary ones, a few at a time, so that a NaN does not hide everything else. Forward and gradient
must be PyTorch's, in every floating dtype. EXPLAINED lists where they are not, and why; an entry that is no longer
needed is a failure too.

Kernels that sum many products have as many answers as orders of summing: for them an entry says which elements alone
may differ, and how (`ours_is_nan`, `theirs_is_nan`), or that PyTorch's own answer in float64 is as good ("rounding").
"""

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pellucid
from pellucid.core import backward
from pellucid.core.tensor import wrap
from pellucid.ops.operation import Operation, Sample, binary_samples, call, pair_samples, unary_samples
from pellucid.testing import claims
from pellucid.testing.claims import oracle
from pellucid.testing.claims.samples import leaves
from pellucid.transforms.differences import reals

DISTINCT = claims.distinct_operations()
# About two units in the last place of a half; wider types allow for another order of operations.
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
FILLS = ("nan", "inf", "-inf", "infinities", "zeros", "denormal", "max", "min", "mixed")
SAMPLES = 3  # of each operation that is not elementwise
WEIGHTS = np.array([1.0, 2.0, -1.0, 0.5])


def limits(name: str):
    return ml_dtypes.finfo(getattr(pellucid, name).numpy)


def every_special_value(name: str) -> list[float]:
    info = limits(name)
    tiny = float(info.smallest_subnormal)
    edges = [tiny, -3 * tiny, float(info.smallest_normal), float(info.max), float(info.min)]
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, *edges, 1.0, -1.0, 0.625]


def palette(fill: str, name: str) -> list[float | None]:
    """The values that a fill puts into an array, over and over; None leaves the sample's own value."""
    info = limits(name)
    tiny = float(info.smallest_subnormal)
    denormal = [tiny, -3 * tiny, 0.0, -0.0, float(info.smallest_normal)]
    return {
        "nan": [np.nan, None, None],
        "inf": [np.inf, None, None, None],
        "-inf": [-np.inf, None, None, None],
        "infinities": [np.inf, -np.inf, None],
        "zeros": [0.0, -0.0, None],
        "denormal": denormal,
        "max": [float(info.max)],
        "min": [float(info.min)],
        "mixed": [np.nan, np.inf, -np.inf, tiny, -0.0, None, -tiny, 0.0, 1.0, -1.0],
        "ordinary": [None],
    }[fill]


def filled(tensor, fill: str, name: str, turn: int):
    """A tensor of the dtype with special values; `turn` shifts them, so that two inputs do not meet in step."""
    if tensor.array.dtype.kind != "f":
        return claims.fresh(tensor)
    flat = tensor.array.astype(getattr(pellucid, name).numpy).reshape(-1)
    values = palette(fill, name)
    if fill in ("max", "min"):
        # One alone: whether a sum of several overflows depends on the order of the additions.
        if turn == 0:
            flat[-1] = values[0]
    else:
        for i in range(flat.size):
            value = values[(i + 2 * turn + i // len(values)) % len(values)]
            flat[i] = flat[i] if value is None else value
    return claims.fresh(tensor, flat.reshape(tensor.array.shape))


def is_real(sample: Sample) -> bool:
    tensors, variables = claims.tensors_in(sample), claims.variables_in(sample)
    real = all(tensor.array.dtype.kind != "c" for tensor in tensors)
    return bool(variables) and real and all(tensor.array.size for tensor in variables)


def largest_size(sample: Sample) -> int:
    return max(tensor.array.size for tensor in claims.variables_in(sample))


def plain_samples(operation: Operation) -> list[Sample]:
    """The first small samples; where all are large (pooling), the smallest of them."""
    real = [sample for sample in claims.samples_of(operation) if is_real(sample)]
    small = [sample for sample in real if largest_size(sample) <= 24]
    return (small or sorted(real, key=largest_size))[:SAMPLES]


def leaf(values: list[float], name: str):
    return pellucid.tensor(np.array(values).astype(getattr(pellucid, name).numpy), requires_grad=True)


def special_samples(path: str) -> Iterator[tuple[str, str, Sample]]:
    """(dtype, fill, sample) for one operation."""
    operation = DISTINCT[path]
    for name in TOLERANCE:
        values = every_special_value(name)
        if operation.samples is unary_samples:
            yield name, "grid", call(leaf(values, name))
        elif operation.samples in (binary_samples, pair_samples):
            yield name, "grid", call(leaf([[value] for value in values], name), leaf(values, name))
        for sample in plain_samples(operation):
            for fill in FILLS:
                yield name, fill, with_fill(sample, fill, name, 1 if path in PLACES and loses(sample, name) else 100)


def with_fill(sample: Sample, fill: str, name: str, count: int) -> Sample:
    """The sample with special values in the first `count` tensors."""
    turn = iter(range(100))

    def new(tensor: Any) -> Any:
        number = next(turn)
        return filled(tensor, fill if number < count else "ordinary", name, number)

    return claims.replaced(sample, new)


# A grid names places; where PyTorch makes integers of NaN and infinities, they name any: its forward and its backward
# take different ones, one and two dimensions do, and under reflection its backward may end the process.
PLACES = {"grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "nn.functional.grid_sample"}
BY_COMPARISON = ("bilinear", "zeros"), ("bilinear", "border"), (0, 0), (0, 1), (2, 1)


def loses(sample: Sample, name: str) -> bool:
    """Whether PyTorch has no one answer to places that are not finite."""
    volume = sample.args[0].ndim == 5
    return name in ("float16", "bfloat16") or sample.args[2:4] not in (((0, 0),) if volume else BY_COMPARISON)


# --- running both, and comparing


def attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, type(error).__name__


def weights_of(y, place: int | None) -> np.ndarray:
    """The gradient that is given to a result, with a NaN at one place if one is named."""
    weights = WEIGHTS[np.arange(int(np.prod(y.shape))) % 4]
    if place is not None and weights.size:
        weights[place % weights.size] = np.nan
    return weights.reshape(tuple(y.shape))


def our_gradients(results, variables, place: int | None = None):
    outputs = claims.differentiable(results)
    seeds = [wrap(weights_of(y, place).astype(y.array.dtype)) for y in outputs]
    return backward.gradients(outputs, seeds, variables, False, False) if outputs else [None] * len(variables)


def their_gradients(results, variables, place: int | None = None):
    torch = claims.torch()
    outputs = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
    seeds = [torch.tensor(weights_of(y, place)).to(y.dtype) for y in outputs]
    if not outputs:
        return [None] * len(variables)
    return torch.autograd.grad(outputs, variables, seeds, allow_unused=True)


def compared(ours: np.ndarray, theirs: np.ndarray, name: str, gradient: bool) -> tuple[Any, Any, Any]:
    """Both as float64 numbers, and which of them differ; NaN equals NaN, and 0 equals -0."""
    kind = np.complex128 if theirs.dtype.kind == "c" else np.float64
    a, b = reals(ours.astype(kind)), reals(theirs.astype(kind))
    largest = min(float(np.abs(b[np.isfinite(b)]).max(initial=0)), 8.0)
    rtol = TOLERANCE[name]
    # A gradient is a sum of terms of the size of the weights; a value may be as small as its inputs.
    atol = rtol * max(largest, 1.0) if gradient else rtol / 5 * largest + 4 * float(limits(name).smallest_subnormal)
    with np.errstate(all="ignore"):
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= rtol * np.abs(b) + atol)
    return a, b, ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)


def told(kind: str, ours: np.ndarray, theirs: list[np.ndarray], name: str) -> Iterator[tuple[str, Any, Any]]:
    """(kind, our numbers, theirs) where we differ from PyTorch's array and from those of its other ways to compute it.

    Where only the first differs the kind is "rounding".
    """
    if ours.shape != theirs[0].shape:
        yield kind, f"shape {ours.shape}", f"shape {theirs[0].shape}"
        return
    a, b, wrong = compared(ours, theirs[0], name, kind == "gradient")
    settled = np.zeros_like(wrong)
    for other in theirs[1:]:
        settled |= wrong & ~compared(ours, other, name, kind == "gradient")[2]
    for label, mask in ((kind, wrong & ~settled), ("rounding", settled)):
        if mask.any():
            yield label, a[mask], b[mask]


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's function, computed in float64 from the same numbers."""
    torch = claims.torch()

    def widened(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return lambda *args, **kwargs: function(
        *[widened(value) for value in args], **{key: widened(value) for key, value in kwargs.items()}
    )


def run_oracles(operation: str, sample: Sample) -> list[tuple[list[Any], list[Any]]]:
    """(results, variables) of PyTorch, and in float64 too if the operation has an entry for rounding."""
    found = [claims.run_torch(DISTINCT[operation], sample)]
    if any(operation in entry[0].split() and entry[1].startswith("rounding") for entry in EXPLAINED):
        converted, variables = oracle.in_torch(sample)
        results = in_float64(claims.torch_function(DISTINCT[operation]))(*converted.args, **converted.kwargs)
        pairs = zip(oracle.leaves_of_torch(results), found[0][0], strict=True)
        found.append(([y.to(e.dtype) if isinstance(y, claims.torch().Tensor) else y for y, e in pairs], variables))
    return found


def differences(operation: str, name: str, sample: Sample) -> Iterator[tuple[str, Any, Any]]:
    """What differs between our results and PyTorch's: its kind (forward, index, gradient, error), ours and theirs."""
    ours, our_error = attempt(lambda: claims.run(DISTINCT[operation], sample))
    oracles, their_error = attempt(lambda: run_oracles(operation, sample))
    if our_error or their_error:
        if our_error != their_error:
            yield "error", our_error, their_error
        return
    torch = claims.torch()
    for y, *expected in zip(ours, *(results for results, _ in oracles), strict=True):
        e = expected[0]
        if isinstance(e, torch.Tensor):
            kind = "forward" if e.is_floating_point() or e.is_complex() else "index"
            if claims.dtype_name(y) == claims.dtype_name(e):
                yield from told(kind, y.array, [claims.plain(each) for each in expected], name)
            else:
                yield kind, y.dtype, e.dtype
    yield from gradient_differences(name, sample, ours, oracles)


def gradient_differences(name, sample, ours, oracles) -> Iterator[tuple[str, Any, Any]]:
    found, our_error = attempt(lambda: our_gradients(ours, claims.variables_in(sample)))
    expected, their_error = attempt(lambda: [their_gradients(*found) for found in oracles])
    if our_error or their_error:
        if our_error != their_error:
            yield "gradient", our_error, their_error
        return
    for g, *wanted in zip(found, *expected, strict=True):
        if g is not None or wanted[0] is not None:
            shape = tuple((wanted[0] if g is None else g).shape)
            theirs = [np.zeros(shape) if e is None else claims.plain(e) for e in wanted]
            yield from told("gradient", np.zeros(shape) if g is None else g.array, theirs, name)


# --- where we differ from PyTorch, and why: (operations, what fails as "kind dtype fill", reason), and perhaps a
# condition that every pair of numbers that differ must meet


def theirs_is_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isnan(b)


def ours_is_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isnan(a)


def ours_is_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == 0) & np.isnan(b)


def both_are_finite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isfinite(a) & np.isfinite(b)


BESSELS = (
    "special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.spherical_bessel_j0 "
    "special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1 "
    "special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.airy_ai"
)
POLYNOMIALS = (
    " ".join(f"special.{shifted}chebyshev_polynomial_{kind}" for kind in "tuvw" for shifted in ("", "shifted_"))
    + " special.hermite_polynomial_h special.hermite_polynomial_he"
    " special.laguerre_polynomial_l special.legendre_polynomial_p"
)
CONVOLUTIONS = "nn.functional.conv1d " + " ".join(f"nn.functional.conv_transpose{rank}d" for rank in (1, 2, 3))
BATCH_NORMS = "batch_norm nn.functional.batch_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update"
GROUP_NORMS = "group_norm nn.functional.group_norm native_group_norm"
INSTANCE_NORMS = "instance_norm nn.functional.instance_norm"
LAYER_NORMS = "layer_norm nn.functional.layer_norm native_layer_norm"
EXPLAINED: list[tuple[Any, ...]] = [
    # PyTorch's formula overflows, underflows or divides on the way to a number that exists
    ("atan2", r"gradient \w+ (max|min)", "PyTorch's squares overflow: 0 becomes NaN"),
    ("hypot", r"gradient \w+ (max|min|denormal)", "PyTorch multiplies before it divides: 2 becomes inf"),
    ("prod cumprod", r"gradient \w+ ", "PyTorch divides the product by the element: inf / inf; ours never divides"),
    ("trapezoid", r"forward \w+ ", "PyTorch subtracts the ends from the sum of all: inf - inf"),
    ("var_mean std_mean", r"forward \w+ -?inf", "PyTorch's running mean is NaN after an infinity"),
    ("std std_mean", r"(forward|gradient) (float32|bfloat16) (denormal|max|min)",
     "PyTorch sums the squares of float32 in float64; in float64 both underflow and overflow alike"),
    ("logcumsumexp", r"gradient \w+ (-inf|infinities|mixed)", "the weight of -inf is 0; PyTorch's -inf - -inf is NaN"),
    ("logcumsumexp", r"gradient \w+ max", "PyTorch adds log(weight) to the largest number, which swallows it"),
    ("erf", r"forward bfloat16 denormal", "PyTorch flushes these to 0, unlike those of float32"),
    ("remainder fmod", r"forward float64 grid", "PyTorch's float64 loop divides max by a denormal, its others do not"),
    ("nn.functional.bilinear", r"\w+ \w+ ", "a product of three: which of them meet first decides what overflows"),
    ("addbmm", r"forward float16 (max|min)", "PyTorch rounds to a half after every product; ours after their sum"),
    ("histc", r"forward \w+ (denormal|mixed|max|min)", "PyTorch rounds -1e-323 up to 0; its max - min overflows"),
    # points where a convention is needed and PyTorch's follows from its formula, not from a choice
    ("amax amin aminmax", r"gradient \w+ (nan|mixed)", "NaNs share it, as in PyTorch's max(); its amax is 0 / 0"),
    ("digamma", r"gradient \w+ ", "PyTorch's trigamma is right to 1e-9, and NaN or 1e32 at poles; ours is inf there"),
    ("polygamma", r"\w+ \w+ ", "PyTorch's trigamma is right to 1e-9, and NaN or 1e32 at poles and infinities"),
    ("polar", r"gradient \w+ ", "the slope is cos(angle); PyTorch divides by a size of 0 or inf to find it"),
    ("mode", r"\w+ \w+ (nan|mixed)", "NaN breaks the order that PyTorch sorts by; ours counts NaNs as the largest"),
    ("topk kthvalue", r"(index|gradient) \w+ (nan|inf|-inf|infinities|zeros|denormal|mixed)",
     "which of equal elements is met is left to PyTorch's partial sort; ours takes the first"),
    # not a difference of special values
    ("signbit copysign", r"\w+ bfloat16 (grid|nan|mixed)", "PyTorch's conversion of NaN to bfloat16 sets the sign"),
    ("searchsorted bucketize", r"index \w+ ", "the filled boundaries are not sorted; see the test below"),
    ("complex", r"(forward float16|error bfloat16) ", "there is no complex32: halves give complex64"),
    ("view_as_complex", r"error float16 ", "there is no complex32"),
    ("polar", r"error (float16|bfloat16) ", "halves give complex64 where PyTorch refuses them"),
    # activations
    ("nn.functional.gelu", r"forward \w+ (-inf|infinities|mixed)", "the limit, 0; PyTorch's -inf times 0 is NaN"),
    ("nn.functional.mish", r"gradient \w+ (grid|inf|infinities|mixed)",
     "the slope is 1 at inf; PyTorch's inf * 0 is NaN"),
    ("nn.functional.hardswish", r"forward \w+ (grid|max)",
     "PyTorch multiplies by 6 before it divides by 6: max becomes inf"),
    ("nn.functional.elu nn.functional.celu nn.functional.hardswish", r"gradient \w+ (grid|nan|mixed)",
     "NaN has the slope NaN; in PyTorch it has 1, or NaN where its loop is vectorised"),
    ("nn.functional.selu nn.functional.relu6", r"gradient float64 grid",
     "PyTorch's vectorised loop says otherwise than its plain one"),
    ("nn.functional.hardsigmoid", r"gradient float64 ", "PyTorch multiplies by a sixth rounded to float32"),
    # losses and recurrent layers
    ("nn.functional.binary_cross_entropy", r"gradient \w+ (denormal|zeros)",
     "the logarithms of the forward stop at -100, so the slope of the target stops at 100; PyTorch's goes on to inf"),
    ("nn.functional.binary_cross_entropy_with_logits", r"forward float16 min",
     "one element's loss, 71268, is too large for a half; ours is rounded after the mean, 11880"),
    ("nn.functional.nll_loss", r"forward float16 (nan|-?inf|max|min)",
     "three ordinary numbers that nearly cancel: ours is their sum, 0.3389; PyTorch rounds every sum on the way"),
    ("nn.functional.nll_loss", r"gradient \w+ denormal",
     "a weight divided by the sum of weights; PyTorch divides 1 by the sum first: inf"),
    ("nn.functional.cross_entropy", r"gradient \w+ mixed",
     "a weight divided by the sum of weights; PyTorch divides 1 by the sum first: inf"),
    ("nn.functional.cross_entropy", r"forward \w+ min", "weights are divided by their sum first; PyTorch's sum is inf"),
    ("nn.functional.gaussian_nll_loss", r"gradient \w+ (max|min)",
     "the slope of the square, 2 * max, is inf in PyTorch before the variance and the mean divide it"),
    ("nn.functional.multi_margin_loss", r"(forward|gradient) \w+ (nan|infinities|mixed)",
     "a margin of NaN (or inf - inf) makes the loss NaN; PyTorch takes it for one that is kept"),
    ("nn.functional.multilabel_margin_loss", r"(forward|gradient) \w+ (nan|mixed)", "as of multi_margin_loss"),
    ("nn.functional.soft_margin_loss", r"gradient \w+ (-?inf|max|min)",
     "PyTorch's slope is exp(z) / (1 + exp(z)): inf / inf where ours is a sigmoid"),
    ("nn.functional.kl_div", r"gradient \w+ denormal",
     "the slope of t log t is log t + 1; PyTorch loses the 1 at the smallest t"),
    ("nn.functional.local_response_norm nn.functional.avg_pool3d nn.functional.lp_pool3d", r"error (float16|bfloat16) ",
     "halves are computed in float32 where PyTorch refuses them"),
    ("rnn_tanh lstm", r"forward bfloat16 (max|min)",
     "the ordinary elements: ours are 2 to 5 times nearer to float64's; PyTorch rounds every step to bfloat16"),
    ("gru", r"forward bfloat16 min", "as of rnn_tanh"),
    ("gru_cell", r"forward float16 min", "as of rnn_tanh, in halves"),
    # convolutions
    (CONVOLUTIONS, r"rounding float32 (nan|-?inf|infinities|mixed)",
     "the zeros around the elements times an infinite weight are NaN, as in PyTorch's float64; its float32 skips them"),
    ("nn.functional.conv_transpose1d", r"rounding bfloat16 (max|min)", "PyTorch rounds every product to bfloat16"),
    ("conv_tbc", r"forward \w+ (nan|-?inf|infinities|mixed)",
     "as of conv1d, which it is: the zeros around the elements are multiplied; PyTorch skips them", ours_is_nan),
    # normalisation
    ("native_layer_norm native_group_norm", r"forward \w+ (-?inf|infinities)",
     "PyTorch's running mean is NaN after an infinity", theirs_is_nan),
    (f"{BATCH_NORMS} {GROUP_NORMS} {INSTANCE_NORMS}", r"forward \w+ (-?inf|mixed)",
     "an infinite weight: (x - mean) * inf is inf; PyTorch multiplies out: x * inf - mean * inf", theirs_is_nan),
    (f"{BATCH_NORMS} {GROUP_NORMS} {INSTANCE_NORMS}", r"gradient \w+ (-?inf|mixed)",
     "an infinite weight: the gradient is multiplied by it before its mean is taken off; PyTorch's after", ours_is_nan),
    (LAYER_NORMS, r"gradient \w+ (-?inf|mixed)",
     "an infinite weight: PyTorch multiplies out, and adds infinities in another order", theirs_is_nan),
    (f"{LAYER_NORMS} {GROUP_NORMS}", r"(forward|gradient) \w+ (max|min)",
     "squares that overflow: the variance is inf, as in PyTorch's batch_norm; its running moments become NaN",
     theirs_is_nan),
    ("nn.functional.rms_norm", r"gradient \w+ (max|min)",
     "squares that overflow: divided by inf the slope is 0; PyTorch multiplies inf by it", ours_is_zero),
    ("nn.functional.layer_norm", r"forward (float64|float32) denormal",
     "a mean of half the smallest number, which rounds up or down", both_are_finite),
    (f"batch_norm nn.functional.batch_norm native_batch_norm {GROUP_NORMS} {INSTANCE_NORMS}",
     r"rounding \w+ (max|min|denormal|zeros)",
     "PyTorch rounds the moments to halves, and its 1 / std ** 3 overflows there; ours are of float32"),
    ("_weight_norm", r"gradient \w+ denormal", "the norm of these is 0: a sum of 0 / 0 and infinities", ours_is_nan),
    # attention
    ("nn.functional.scaled_dot_product_attention", r"gradient float32 (max|min)",
     "what rounding leaves of the slope of a weight of 1 (1e-7), times the largest number", both_are_finite),
    # sampling
    ("grid_sampler_2d grid_sampler_3d", r"gradient \w+ (nan|-?inf|infinities|mixed)",
     "beyond the border no gradient passes; PyTorch multiplies what passes by 0", ours_is_zero),
    ("grid_sampler_2d", r"gradient \w+ (-?inf|infinities)",
     "cubic: 16 products of infinities, summed along one dimension before the other", ours_is_nan),
    ("grid_sampler_2d", r"gradient (float16|bfloat16) (max|min|zeros)",
     "cubic: the slope of the weights, a difference of halves, is rough in both", both_are_finite),
    # distances of all pairs
    ("cdist nn.functional.pdist", r"rounding float32 (denormal|max|min)",
     "squares that leave float32: ours are summed in float64, so the distance and its slope are those of float64"),
    ("cdist", r"gradient float32 denormal",
     "as above, but the slope divides by a distance of 3.16 smallest numbers, which float32 rounds to 3",
     both_are_finite),
    ("cdist nn.functional.pdist", r"gradient float64 (max|min)",
     "a distance that overflows: divided by inf the slope is 0; PyTorch multiplies by the gradient first: inf / inf",
     theirs_is_nan),
    # segments and parts of numbers
    ("segment_reduce", r"(forward|gradient) \w+ (max|min)",
     "the initial value is multiplied by last: the product of the others overflows"),
    ("segment_reduce", r"gradient \w+ (nan|mixed)", "as of prod: the product is divided by the element", ours_is_nan),
    ("frexp", r"gradient float64 (grid|denormal)", "the slope 2 ** -exponent, of which PyTorch's is inf too early"),
    # alignments
    ("ctc_loss nn.functional.ctc_loss", r"forward \w+ inf",
     "no logarithm of a probability is above 0; infinitely probable is a loss of -inf", theirs_is_nan),
    ("ctc_loss nn.functional.ctc_loss", r"gradient \w+ max",
     "no logarithm of a probability is above 0; the sum over the labels makes all of the frame NaN", ours_is_nan),
    # special functions
    (BESSELS, r"error (float16|bfloat16) ", "halves are computed in float32 where PyTorch refuses them"),
    (POLYNOMIALS, r"error (float16|bfloat16) ", "halves are computed in float32 where PyTorch refuses them"),
    ("special.zeta special.ndtri special.log_ndtr special.erfcx", r"error (float16|bfloat16) ",
     "halves are computed in float32 where PyTorch refuses them"),
    ("special.i1 special.i1e", r"gradient (float16|bfloat16) ", "PyTorch has no derivative for halves"),
    ("special.i1 special.i1e", r"gradient \w+ (grid|nan|mixed)",
     "NaN has the slope NaN; PyTorch takes it for a number near 0"),
    ("special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1", r"forward \w+ ",
     "PyTorch's is right to 1e-6 only between 2 and 15"),
    ("special.airy_ai", r"forward \w+ ", "PyTorch's is right to 1e-8 only; at inf it is NaN, where Ai is 0"),
    ("special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1",
     r"forward float32 (denormal|grid|mixed)", "PyTorch's series underflows at denormal numbers"),
    ("special.zeta", r"(forward|gradient) \w+ inf", "the sum vanishes at inf; PyTorch's is inf * 0"),
    ("special.log_ndtr", r"gradient \w+ (-inf|grid|infinities|min|mixed)",
     "the slope grows as -x; PyTorch's is NaN at -inf"),
    ("special.xlog1py", r"gradient \w+ (max|min)", "PyTorch multiplies before it divides: max becomes inf"),
    ("mvlgamma", r"forward float16 (denormal|mixed)",
     "computed in float32 throughout; PyTorch rounds every term to a half"),
    (POLYNOMIALS, r"forward \w+ ",
     "PyTorch's value for NaN is what its register held; at inf and beyond the largest number inf - inf decides"),
    # with masks: the reasons of the operations without
    ("masked.prod masked.cumprod", r"gradient \w+ ",
     "PyTorch divides the product by the element: inf / inf; ours never divides"),
    ("masked.amax masked.amin", r"gradient \w+ (nan|mixed)", "NaNs share it, as in PyTorch's max(); its amax is 0 / 0"),
    ("masked.median", r"gradient float16 zeros",
     "which of two equal zeros is the middle one is left to PyTorch's partial sort"),
    ("as_strided_scatter", r"gradient \w+ ",
     "PyTorch gives the tensor the gradient of what was overwritten (its gradcheck fails)"),
]  # fmt: skip


def explanation(operation: str, text: str, a: Any, b: Any) -> int | None:
    """The entry of EXPLAINED that speaks of a failure."""
    for number, (operations, pattern, _, *condition) in enumerate(EXPLAINED):
        speaks = operation in operations.split() and re.match(pattern, text)
        if speaks and (not condition or (isinstance(a, np.ndarray) and condition[0](a, b).all())):
            return number
    return None


@pytest.fixture(autouse=True)
def quiet_oracle():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


SPREADING = ("pellucid.ops.linalg", "pellucid.ops.fft")
DRAWN = "pellucid.ops.rare.draws"


def has_oracle(operation: Operation) -> bool:
    return claims.torch_function(operation) is not None


@pytest.mark.torch
@pytest.mark.parametrize("operation", DISTINCT)
def test_special_values_are_pytorchs(operation: str) -> None:
    unexplained, used = [], set()
    if not has_oracle(DISTINCT[operation]):
        pytest.skip("PyTorch has no such function")
    if DISTINCT[operation].home.startswith(SPREADING):
        pytest.skip("a factorisation or transform spreads NaN in its own way; PyTorch's may even end the process")
    if DISTINCT[operation].home == DRAWN:
        pytest.skip("a draw is repeated until it is accepted: PyTorch repeats one with a count of NaN for ever")
    for name, fill, sample in special_samples(operation):
        for kind, ours, theirs in differences(operation, name, sample):
            number = explanation(operation, f"{kind} {name} {fill}", ours, theirs)
            used.add(number)
            if number is None:
                ours, theirs = (claims.short(x) if isinstance(x, np.ndarray) else x for x in (ours, theirs))
                inputs = [claims.short(tensor.array) for tensor in claims.tensors_in(sample)]
                call = f"{kind} {name} {fill}: {operation}({claims.describe(sample)})"
                unexplained.append(f"{call}\n    {ours}, expected {theirs}\n    of {inputs}")
    assert not unexplained, f"{len(unexplained)} differ from PyTorch\n" + "\n".join(unexplained[:8])
    stale = [e for n, e in enumerate(EXPLAINED) if operation in e[0].split() and n not in used]
    assert not stale, f"no longer needed: {stale}"


# --- gradients that are NaN: where one element of a gradient is, an element that had no part in it must not be

# (operations, reason): where NaN reaches less far, or further, than in PyTorch
FARTHER = {
    "logcumsumexp": "PyTorch splits a gradient by its sign, and NaN has none: it is lost there",
    "prod": "PyTorch leaves the gradient out where two factors are zero; here it is multiplied by zero",
    "cumprod": "as for prod",
    "masked.cumprod": "as for prod",
    "topk": "which of equal elements is meant is left to PyTorch's partial sort",
    "kthvalue": "as for topk",
    "conv_tbc": "the padding is multiplied too, as in PyTorch's other convolutions",
    "as_strided_scatter": "PyTorch gives the tensor the gradient of what was overwritten (its gradcheck fails)",
}


def nan_gradients(operation: Operation, sample: Sample, place: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Our gradient and PyTorch's of every input, when the result's gradient is NaN at a place."""
    ours, our_error = attempt(lambda: claims.run(operation, sample))
    theirs, their_error = attempt(lambda: claims.run_torch(operation, sample))
    if our_error or their_error:
        return
    found, our_error = attempt(lambda: our_gradients(ours, claims.variables_in(sample), place))
    wanted, their_error = attempt(lambda: their_gradients(*theirs, place))
    if our_error or their_error:
        return
    for mine, its in zip(found, wanted, strict=True):
        if mine is not None and its is not None:
            yield mine.array, claims.plain(its)


@pytest.mark.torch
@pytest.mark.parametrize("operation", DISTINCT)
def test_a_gradient_that_is_nan_reaches_no_farther_than_in_pytorch(operation: str) -> None:
    row = DISTINCT[operation]
    if not has_oracle(row) or row.home.startswith(SPREADING) or row.home == DRAWN:
        pytest.skip("PyTorch has no such function, or none with one answer")
    farther = []
    for sample in plain_samples(row):
        for fill in ("ordinary", "zeros"):
            filled_sample = with_fill(sample, fill, "float64", 100)
            for place in (0, -1):
                for mine, its in nan_gradients(row, filled_sample, place):
                    if (np.isnan(mine) & np.isfinite(its)).any():
                        farther.append(f"{fill} {claims.describe(sample)} at {place}: {mine}, expected {its}")
    if operation in FARTHER:
        assert farther, f"no longer needed: {FARTHER[operation]}"
    else:
        assert not farther, f"{len(farther)} reach farther than in PyTorch\n" + "\n".join(farther[:4])


def pushed(lib: Any, function: Callable[..., Any], sample: Sample, variables: list[Any], place: int) -> list[Any]:
    """The tangents of the results as arrays, when that of every input is NaN at a place and 1 elsewhere."""
    forward_ad = lib.autograd.forward_ad
    with forward_ad.dual_level():
        duals = {}
        for variable in variables:
            tangent = np.ones(tuple(variable.shape))
            tangent.reshape(-1)[place % max(tangent.size, 1)] = np.nan
            duals[id(variable)] = forward_ad.make_dual(variable.detach(), lib.tensor(tangent, dtype=variable.dtype))
        new = lambda value: duals.get(id(value), value)
        result = function(*claims.mapped(sample.args, new), **claims.mapped(sample.kwargs, new))
        results = [part for part in leaves(result) if hasattr(part, "dtype") and part.dtype.is_floating_point]
        return [forward_ad.unpack_dual(part).tangent for part in results]


@pytest.mark.torch
@pytest.mark.parametrize("operation", DISTINCT)
def test_a_tangent_that_is_nan_reaches_no_farther_than_in_pytorch(operation: str) -> None:
    row = DISTINCT[operation]
    theirs = oracle.torch_function(row)
    if not has_oracle(row) or row.home.startswith(SPREADING) or row.home == DRAWN:
        pytest.skip("PyTorch has no such function, or none with one answer")
    if "draws" in str(row.unclaimed):
        pytest.skip("it draws random numbers")
    farther = []
    for sample in plain_samples(row):
        for place in (0, 3):
            wanted, their_error = attempt(partial(pushed, oracle.torch(), theirs, *oracle.in_torch(sample), place))
            assert their_error in (None, "RuntimeError", "NotImplementedError"), their_error
            if their_error is None:
                found = pushed(pellucid, row.function, sample, claims.variables_in(sample), place)
                for mine, its in zip(found, wanted, strict=True):
                    if (
                        mine is not None
                        and its is not None
                        and (np.isnan(mine.numpy()) & np.isfinite(claims.plain(its))).any()
                    ):
                        farther.append(f"{claims.describe(sample)} at {place}: {mine}, expected {its}")
    assert not farther, f"{len(farther)} reach farther than in PyTorch\n" + "\n".join(farther[:4])


def comparisons(operation: Operation) -> int:
    grid = operation.samples in (unary_samples, binary_samples, pair_samples)
    return len(TOLERANCE) * (grid + len(FILLS) * len(plain_samples(operation)))


def test_there_are_enough_comparisons() -> None:
    counts = {name: comparisons(operation) for name, operation in DISTINCT.items()}
    assert sum(counts.values()) >= 5_000
    constants = [name for name, count in counts.items() if not count]
    assert len(constants) <= len(counts) / 5, constants  # no small floating input: bitwise, indices, complex numbers


@pytest.mark.torch
@pytest.mark.parametrize("name", TOLERANCE)
def test_searching_for_special_values(name: str) -> None:
    """Sorted boundaries with infinities at the ends, and every special value looked for among them."""
    torch = claims.torch()
    boundaries, values = [-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], every_special_value(name)
    for right in (False, True):
        ours, theirs = (
            library.bucketize(
                library.tensor(values, dtype=getattr(library, name)),
                library.tensor(boundaries, dtype=getattr(library, name)),
                right=right,
            )
            for library in (pellucid, torch)
        )
        assert ours.tolist() == theirs.tolist()


@pytest.mark.torch
def test_directions_of_infinite_complex_numbers() -> None:
    torch = claims.torch()
    parts = [0.0, -1.0, -np.inf, np.inf, np.nan, 5.0, -0.5, 1e30]  # 64 pairs: PyTorch's vectors leave no rest
    values = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    ours, theirs = pellucid.sgn(pellucid.tensor(values)), torch.sgn(torch.tensor(values))
    assert not list(told("forward", ours.numpy(), [theirs.numpy()], "float32"))


@pytest.mark.torch
def test_the_smallest_divisor_of_binary_cross_entropy_is_pytorchs() -> None:
    """1e-12 as a float32 has it, whatever the dtype."""

    def slope(library) -> float:
        x = library.tensor([0.0], dtype=library.float64, requires_grad=True)
        loss = library.nn.functional.binary_cross_entropy(x, library.tensor([0.5], dtype=library.float64))
        return library.autograd.grad(loss, x)[0].item()

    assert slope(pellucid) == slope(claims.torch())


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(4, 3, 5), (64, 3, 7), (40, 3, 300)])  # by formula, by BLAS, by native loops
def test_squares_that_overflow_leave_the_bias(shape: tuple[int, ...]) -> None:
    def batch_norm(library) -> np.ndarray:
        x = library.ones(shape)
        x[0, 0, 0] = 3e38
        bias = library.tensor([1.0, 2.0, 3.0])
        return library.nn.functional.batch_norm(x, None, None, None, bias, True).numpy()

    assert (batch_norm(pellucid) == batch_norm(claims.torch())).all()


@pytest.mark.torch
def test_zeros_around_an_image_are_not_multiplied_where_pytorch_has_none() -> None:
    """A transposed convolution adds kernels: an infinite weight reaches no element that it does not touch."""

    def gradient(library) -> np.ndarray:
        x = library.ones(1, 1, 4, 4, dtype=library.float64, requires_grad=True)
        weight = library.ones(1, 1, 3, 3, dtype=library.float64)
        weight[0, 0, 0, 0] = float("inf")
        library.nn.functional.conv2d(x, weight).sum().backward()
        return x.grad.numpy()

    assert (gradient(pellucid) == gradient(claims.torch())).all()


@pytest.mark.torch
def test_the_largest_difference_does_not_pass_over_nan() -> None:
    """As in PyTorch's pdist; its cdist drops NaN, for the maximum of C++ keeps what it has."""
    points = [[np.nan, 1.0], [0.0, -np.inf], [3.0, 5.0], [2.0, -np.inf], [0.5, 0.0]]

    def distances(library) -> tuple[np.ndarray, np.ndarray]:
        x = library.tensor(points, requires_grad=True)
        y = library.pdist(x, np.inf)
        y.sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    (ours, slopes), (theirs, their_slopes) = distances(pellucid), distances(claims.torch())
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(slopes, their_slopes)
    x = pellucid.tensor(points)
    np.testing.assert_array_equal(pellucid.cdist(x, x, np.inf).numpy()[np.triu_indices(5, 1)], theirs)


@pytest.mark.torch
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_slopes_of_distances_whose_powers_leave_float32(scale: float) -> None:
    def slopes(library, dtype) -> np.ndarray:
        x = library.tensor([[0.0, 0.0], [3 * scale, scale], [scale, -scale]], dtype=dtype, requires_grad=True)
        library.cdist(x, library.zeros(1, 2, dtype=dtype), 3).sum().backward()
        return x.grad.numpy()

    torch = claims.torch()
    np.testing.assert_allclose(slopes(pellucid, pellucid.float32), slopes(torch, torch.float64), 1e-5)


def test_a_binomial_of_what_is_no_number_ends() -> None:
    nan, inf = float("nan"), float("inf")
    drawn = pellucid.binomial(pellucid.tensor([nan, 3.0, inf, -inf]), pellucid.tensor([0.5, nan, 0.5, 0.5]))
    np.testing.assert_array_equal(drawn.numpy(), [nan, nan, nan, 0.0])


def test_a_kaiser_window_narrower_than_float32_can_count() -> None:
    """i0(100) is 1e42, which PyTorch's window divides inf by; the window itself is ordinary."""
    narrow = pellucid.kaiser_window(7, True, 100.0)
    wide = pellucid.kaiser_window(7, True, 100.0, dtype=pellucid.float64)
    np.testing.assert_allclose(narrow.numpy(), wide.numpy(), 2e-5, 1e-40)


# --- the comparison itself


def test_the_comparison_sees_what_it_should() -> None:
    def differ(a: float, b: float) -> bool:
        return bool(list(told("forward", np.array([a]), [np.array([b])], "float64")))

    assert not differ(np.nan, np.nan)
    assert not differ(0.0, -0.0)
    assert differ(np.nan, 0.0)
    assert differ(np.inf, -np.inf)
    assert differ(1e300, np.inf)
    assert differ(1.0, 1.0 + 1e-9)
    assert differ(0.0, 1e-310)  # a denormal that was flushed
