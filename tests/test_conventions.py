"""Trust T7: what PyTorch chose at kinks, ties and singular points, recorded as numbers.

The derivative of a function does not exist there, or two arguments have an equal claim to it; whoever computes one
has chosen. Each case is an expression, its inputs in float64, its value, and the gradients of the inputs when the
elements of the value are weighted 1, 2, 3, ... They were recorded from PyTorch 2.13, so this file needs no PyTorch;
where it is installed, it must still give them.
"""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import pellucid

FUNCTIONAL = pellucid.nn.functional

CASES: list[tuple[str, tuple[Any, ...], Any, tuple[Any, ...]]] = [
    # kinks: the derivative where there is none
    ("torch.relu(a)", ([-1.0, 0.0, -0.0, 2.0],), [0.0, 0.0, -0.0, 2.0], ([0.0, 0.0, 0.0, 4.0],)),
    ("torch.abs(a)", ([-1.0, 0.0, -0.0, 2.0],), [1.0, 0.0, 0.0, 2.0], ([-1.0, 0.0, 0.0, 4.0],)),
    ("torch.sign(a)", ([-2.0, 0.0, 3.0],), [-1.0, 0.0, 1.0], ([0.0, 0.0, 0.0],)),
    ("torch.sgn(a)", ([-2.0, 0.0, 3.0],), [-1.0, 0.0, 1.0], ([0.0, 0.0, 0.0],)),
    ("torch.floor(a)", ([-1.0, 0.0, 1.5],), [-1.0, 0.0, 1.0], ([0.0, 0.0, 0.0],)),
    ("torch.ceil(a)", ([-1.0, 0.0, 1.5],), [-1.0, 0.0, 2.0], ([0.0, 0.0, 0.0],)),
    ("torch.round(a)", ([0.5, 1.5, 2.5, -0.5, -1.5],), [0.0, 2.0, 2.0, -0.0, -2.0], ([0.0, 0.0, 0.0, 0.0, 0.0],)),
    ("torch.trunc(a)", ([-1.5, -1.0, 0.0, 1.5],), [-1.0, -1.0, 0.0, 1.0], ([0.0, 0.0, 0.0, 0.0],)),
    ("torch.frac(a)", ([-1.5, -1.0, 0.0, 1.5],), [-0.5, 0.0, 0.0, 0.5], ([1.0, 2.0, 3.0, 4.0],)),
    ("F.leaky_relu(a)", ([-1.0, 0.0, 2.0],), [-0.01, 0.0, 2.0], ([0.01, 0.02, 3.0],)),
    ("F.elu(a)", ([-1.0, 0.0, 2.0],), [-0.6321205588285577, 0.0, 2.0], ([0.36787944117144233, 2.0, 3.0],)),
    ("F.silu(a)", ([0.0, -800.0, 800.0],), [0.0, -0.0, 800.0], ([0.5, 0.0, 3.0],)),
    ("F.gelu(a)", ([0.0],), [0.0], ([0.5],)),
    ("torch.heaviside(a, b)", ([-1.0, 0.0, 2.0], [0.5, 0.5, 0.5]), [0.0, 0.5, 1.0], ()),
    ("torch.copysign(a, b)", ([1.0, 1.0, 0.0, -0.0, -3.0], [0.0, -0.0, 2.0, 2.0, -0.0]),
     [1.0, -1.0, 0.0, 0.0, -3.0], ([1.0, -2.0, 0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 0.0, 0.0])),
    ("torch.sinc(a)", ([0.0, 1.0, -1.0],),
     [1.0, 3.8981718325193755e-17, 3.8981718325193755e-17], ([0.0, -2.0, 3.0],)),
    # clamp at its bounds
    ("torch.clamp(a, -1.0, 1.0)", ([-2.0, -1.0, 0.0, 1.0, 2.0],),
     [-1.0, -1.0, 0.0, 1.0, 1.0], ([0.0, 2.0, 3.0, 4.0, 0.0],)),
    ("torch.clamp(a, min=0.0)", ([-1.0, 0.0, 1.0, nan],), [0.0, 0.0, 1.0, nan], ([0.0, 2.0, 3.0, 0.0],)),
    ("torch.clamp(a, max=0.0)", ([-1.0, 0.0, 1.0, nan],), [-1.0, 0.0, 0.0, nan], ([1.0, 2.0, 0.0, 0.0],)),
    ("torch.clamp(a, 2.0, 1.0)", ([0.0, 1.0, 1.5, 2.0, 3.0],),
     [1.0, 1.0, 1.0, 1.0, 1.0], ([0.0, 0.0, 0.0, 0.0, 0.0],)),
    ("torch.clamp(a, b, c)", ([-2.0, -1.0, 0.0, 1.0, 2.0], [-1.0, -1.0, -1.0, -1.0, -1.0], [1.0, 1.0, 1.0, 1.0, 1.0]),
     [-1.0, -1.0, 0.0, 1.0, 1.0], ([0.0, 2.0, 3.0, 4.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 5.0])),
    ("torch.clamp(a, b, c)", ([0.0, 1.0, 1.5, 2.0, 3.0], [2.0, 2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0]),
     [1.0, 1.0, 1.0, 1.0, 1.0], ([0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0])),
    ("torch.clamp(a, min=b)", ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0]),
     [1.0, 1.0, 2.0], ([0.0, 2.0, 3.0], [1.0, 0.0, 0.0])),
    ("torch.clamp(a, max=b)", ([0.0, 1.0, 2.0], [1.0, 1.0, 1.0]),
     [0.0, 1.0, 1.0], ([1.0, 2.0, 0.0], [0.0, 0.0, 3.0])),
    ("torch.clamp(a, b, c)", ([nan, 0.0, 0.0], [0.0, nan, -1.0], [1.0, 1.0, nan]),
     [nan, nan, nan], ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0])),
    ("torch.clamp_min(a, b)", ([1.0, 1.0], [1.0, nan]), [1.0, nan], ([1.0, 0.0], [0.0, 0.0])),
    ("torch.clamp_max(a, b)", ([1.0, 1.0], [1.0, nan]), [1.0, nan], ([1.0, 0.0], [0.0, 0.0])),
    # ties
    ("torch.max(a)", ([1.0, 3.0, 3.0, 2.0],), 3.0, ([0.0, 0.5, 0.5, 0.0],)),
    ("torch.min(a)", ([1.0, 1.0, 3.0, 1.0],),
     1.0, ([0.3333333333333333, 0.3333333333333333, 0.0, 0.3333333333333333],)),
    ("torch.max(a, 0).values", ([1.0, 3.0, 3.0, 2.0],), 3.0, ([0.0, 1.0, 0.0, 0.0],)),
    ("torch.min(a, 0).values", ([1.0, 1.0, 3.0, 1.0],), 1.0, ([1.0, 0.0, 0.0, 0.0],)),
    ("torch.max(a, 1).values", ([[2.0, 2.0], [nan, nan]],), [2.0, nan], ([[1.0, 0.0], [2.0, 0.0]],)),
    ("torch.amax(a, 0)", ([1.0, 3.0, 3.0, 2.0],), 3.0, ([0.0, 0.5, 0.5, 0.0],)),
    ("torch.amin(a, 0)", ([1.0, 1.0, 3.0, 1.0],),
     1.0, ([0.3333333333333333, 0.3333333333333333, 0.0, 0.3333333333333333],)),
    ("torch.amax(a, (0, 1))", ([[2.0, 2.0], [2.0, 0.0]],),
     2.0, ([[0.3333333333333333, 0.3333333333333333], [0.3333333333333333, 0.0]],)),
    ("torch.max(a)", ([1.0, nan, nan],), nan, ([0.0, 0.5, 0.5],)),
    ("torch.aminmax(a).max", ([1.0, 3.0, 3.0],), 3.0, ([0.0, 0.5, 0.5],)),
    ("torch.aminmax(a, dim=0).min", ([1.0, 1.0, 3.0],), 1.0, ([0.5, 0.5, 0.0],)),
    ("torch.maximum(a, b)", ([1.0, 2.0, nan, nan, 0.0], [1.0, 1.0, 1.0, nan, -0.0]),
     [1.0, 2.0, nan, nan, 0.0], ([0.5, 2.0, 3.0, 4.0, 2.5], [0.5, 0.0, 3.0, 4.0, 2.5])),
    ("torch.minimum(a, b)", ([1.0, 2.0, nan, nan, 0.0], [1.0, 1.0, 1.0, nan, -0.0]),
     [1.0, 1.0, nan, nan, 0.0], ([0.5, 0.0, 3.0, 4.0, 2.5], [0.5, 2.0, 3.0, 4.0, 2.5])),
    ("torch.fmax(a, b)", ([1.0, nan, 2.0, nan], [1.0, 1.0, nan, nan]),
     [1.0, 1.0, 2.0, nan], ([1.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 0.0])),
    ("torch.fmin(a, b)", ([1.0, nan, 2.0, nan], [1.0, 1.0, nan, nan]),
     [1.0, 1.0, 2.0, nan], ([1.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 0.0])),
    ("torch.median(a)", ([2.0, 1.0, 2.0, 2.0],),
     2.0, ([0.3333333333333333, 0.0, 0.3333333333333333, 0.3333333333333333],)),
    ("torch.median(a, 0).values", ([2.0, 1.0, 2.0, 2.0],), 2.0, ([1.0, 0.0, 0.0, 0.0],)),
    ("torch.median(a)", ([2.0, nan, 1.0],), nan, ([0.0, 1.0, 0.0],)),
    ("torch.nanmedian(a)", ([2.0, nan, 2.0],), 2.0, ([0.5, 0.0, 0.5],)),
    ("torch.mode(a, 0).values", ([1.0, 2.0, 2.0, 1.0],), 1.0, ([0.0, 0.0, 0.0, 1.0],)),
    ("torch.sort(a, stable=True).values", ([2.0, 1.0, 2.0, 1.0],), [1.0, 1.0, 2.0, 2.0], ([3.0, 1.0, 4.0, 2.0],)),
    ("torch.sort(a, descending=True, stable=True).values", ([2.0, 1.0, 2.0, 1.0],),
     [2.0, 2.0, 1.0, 1.0], ([1.0, 3.0, 2.0, 4.0],)),
    ("torch.sort(a, stable=True).values", ([2.0, nan, -inf, inf, -0.0, 0.0],),
     [-inf, -0.0, 0.0, 2.0, inf, nan], ([4.0, 6.0, 1.0, 5.0, 2.0, 3.0],)),
    ("torch.topk(a, 2).values", ([2.0, 1.0, 2.0, 0.0],), [2.0, 2.0], ([1.0, 0.0, 2.0, 0.0],)),
    ("torch.quantile(a, 0.5)", ([2.0, 1.0, 2.0, 2.0],), 2.0, ([0.5, 0.0, 0.5, 0.0],)),
    ("torch.cummax(a, 0).values", ([1.0, 2.0, 2.0, 1.0],), [1.0, 2.0, 2.0, 2.0], ([1.0, 2.0, 7.0, 0.0],)),
    ("torch.cummin(a, 0).values", ([2.0, 1.0, 1.0, 3.0],), [2.0, 1.0, 1.0, 1.0], ([1.0, 2.0, 7.0, 0.0],)),
    ("torch.cummax(a, 0).values", ([1.0, nan, 2.0],), [1.0, nan, nan], ([1.0, 5.0, 0.0],)),
    ("torch.where(a > b, a, b)", ([1.0, 2.0, 0.0], [1.0, 1.0, 1.0]),
     [1.0, 2.0, 1.0], ([0.0, 2.0, 0.0], [1.0, 0.0, 3.0])),
    ("torch.where(a > 0, a.log(), a)", ([1.0, 0.0, -1.0],), [0.0, 0.0, -1.0], ([1.0, nan, 3.0],)),
    ("torch.dist(a, b)", ([1.0, 2.0], [1.0, 2.0]), 0.0, ([0.0, 0.0], [0.0, 0.0])),
    # roots and powers at zero
    ("torch.sqrt(a)", ([0.0, -0.0, -1.0, inf],), [0.0, -0.0, nan, inf], ([inf, -inf, nan, 0.0],)),
    ("torch.rsqrt(a)", ([0.0, -0.0, -1.0, inf],), [inf, -inf, nan, 0.0], ([-inf, inf, nan, 0.0],)),
    ("torch.reciprocal(a)", ([0.0, -0.0, inf],), [inf, -inf, 0.0], ([-inf, -inf, 0.0],)),
    ("a / b", ([0.0, 1.0, -1.0], [0.0, 0.0, 0.0]), [nan, inf, -inf], ([inf, inf, inf], [nan, -inf, inf])),
    ("torch.pow(a, 0)", ([0.0, 2.0, inf, nan],), [1.0, 1.0, 1.0, 1.0], ([0.0, 0.0, 0.0, 0.0],)),
    ("torch.pow(a, 0.0)", ([0.0, -2.0, nan],), [1.0, 1.0, 1.0], ([0.0, 0.0, 0.0],)),
    ("torch.pow(a, 1)", ([0.0, -2.0],), [0.0, -2.0], ([1.0, 2.0],)),
    ("torch.pow(a, 2)", ([0.0, -2.0],), [0.0, 4.0], ([0.0, -8.0],)),
    ("torch.pow(a, 0.5)", ([0.0, 4.0, -1.0],), [0.0, 2.0, nan], ([inf, 0.5, nan],)),
    ("torch.pow(a, -1)", ([0.0, 2.0],), [inf, 0.5], ([-inf, -0.5],)),
    ("torch.pow(a, 3.0)", ([0.0, -2.0],), [0.0, -8.0], ([0.0, 24.0],)),
    ("torch.pow(0.0, b)", ([0.0], [0.0, 1.0, -1.0, 2.0]), [1.0, 0.0, inf, 0.0], (None, [0.0, 0.0, -inf, 0.0])),
    ("torch.pow(2.0, b)", ([0.0], [0.0, -inf, inf]), [1.0, 0.0, inf], (None, [0.6931471805599453, 0.0, inf])),
    ("torch.pow(a, b)", ([0.0, 0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, -1.0, 0.0]),
     [1.0, 0.0, 0.0, inf, 1.0], ([0.0, 2.0, 0.0, -inf, 0.0], [0.0, 0.0, 0.0, -inf, 3.4657359027997265])),
    ("torch.pow(a, b)", ([-2.0, -2.0, -0.0, 1.0], [2.0, 0.5, 3.0, inf]),
     [4.0, nan, -0.0, 1.0], ([-4.0, nan, 0.0, inf], [nan, nan, 0.0, 0.0])),
    ("torch.float_power(a, 2)", ([0.0, -1.0],), [0.0, 1.0], ([0.0, -4.0],)),
    ("torch.square(a)", ([0.0, -0.0],), [0.0, 0.0], ([0.0, 0.0],)),
    ("torch.hypot(a, b)", ([0.0, 0.0, 3.0, inf], [0.0, 2.0, 4.0, nan]),
     [0.0, 2.0, 5.0, inf], ([nan, 0.0, 1.8, nan], [nan, 2.0, 2.4, nan])),
    ("torch.norm(a)", ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    ("torch.norm(a, 1)", ([0.0, -1.0, 2.0],), 3.0, ([0.0, -1.0, 1.0],)),
    ("torch.norm(a, 2)", ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    ("torch.norm(a, 3)", ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    ("torch.norm(a, 0.5)", ([0.0, 1.0],), 1.0, ([0.0, 1.0],)),
    ("torch.norm(a, 0)", ([0.0, 1.0],), 1.0, (None,)),
    ("torch.norm(a, inf)", ([0.0, 0.0],), 0.0, ([0.0, 0.0],)),
    ("torch.norm(a, inf)", ([2.0, -2.0, 1.0],), 2.0, ([0.5, -0.5, 0.0],)),
    ("torch.norm(a, -inf)", ([1.0, -1.0, 2.0],), 1.0, ([0.5, -0.5, 0.0],)),
    ("torch.norm(a, 2, 1)", ([[0.0, 0.0], [3.0, 4.0]],), [0.0, 5.0], ([[0.0, 0.0], [1.2, 1.6]],)),
    # logarithms
    ("torch.log(a)", ([0.0, -0.0, -1.0, inf],), [-inf, -inf, nan, inf], ([inf, -inf, -3.0, 0.0],)),
    ("torch.log2(a)", ([0.0, inf],), [-inf, inf], ([inf, 0.0],)),
    ("torch.log10(a)", ([0.0, inf],), [-inf, inf], ([inf, 0.0],)),
    ("torch.log1p(a)", ([-1.0, 0.0, -2.0, inf],), [-inf, 0.0, nan, inf], ([inf, 2.0, -3.0, 0.0],)),
    ("torch.xlogy(a, b)", ([0.0, 0.0, 0.0, 1.0, 2.0], [0.0, nan, 1.0, 0.0, -1.0]),
     [0.0, nan, 0.0, -inf, nan], ([0.0, nan, 0.0, -inf, nan], [nan, nan, 0.0, inf, -10.0])),
    ("torch.logaddexp(a, b)", ([-inf, -inf, inf, 0.0], [-inf, 0.0, inf, 0.0]),
     [-inf, 0.0, inf, 0.6931471805599453], ([nan, 0.0, nan, 2.0], [nan, 2.0, nan, 2.0])),
    ("torch.logaddexp2(a, b)", ([-inf, -inf, inf, 0.0], [-inf, 0.0, inf, 0.0]),
     [-inf, 0.0, inf, 1.0], ([nan, 0.0, nan, 2.0], [nan, 2.0, nan, 2.0])),
    ("torch.logsumexp(a, 0)", ([-inf, 1.0],), 1.0, ([0.0, 1.0],)),
    ("torch.logsumexp(a, 0)", ([inf, 1.0],), inf, ([nan, 0.0],)),
    ("torch.softmax(a, 0)", ([-inf, 0.0, 1.0],),
     [0.0, 0.26894142136999516, 0.7310585786300049], ([0.0, -0.19661193324148196, 0.1966119332414816],)),
    ("torch.softmax(a, 0)", (0.0,), 1.0, (0.0,)),
    ("torch.softmax(a, 0)", ([-inf, -inf],), [nan, nan], ([nan, nan],)),
    ("torch.log_softmax(a, 0)", ([-inf, 0.0, 1.0],),
     [-inf, -1.3132616875182228, -0.31326168751822286], ([1.0, 0.3863514717800294, -1.3863514717800294],)),
    ("torch.log_softmax(a, 0)", ([-inf, -inf],), [nan, nan], ([nan, nan],)),
    ("torch.logcumsumexp(a, 0)", ([1000.0, 1000.0, -3.0],),
     [1000.0, 1000.6931471805599, 1000.6931471805599], ([3.5000000000001243, 2.500000000000251, 0.0],)),
    ("torch.logit(a)", ([0.0, 1.0, 0.5],), [-inf, inf, 0.0], ([inf, inf, 12.0],)),
    ("torch.logit(a, 0.1)", ([0.0, 0.1, 0.5, 0.9, 1.0],),
     [-2.197224577336219, -2.197224577336219, 0.0, 2.1972245773362196, 2.1972245773362196],
     ([0.0, 22.222222222222218, 12.0, 44.44444444444445, 0.0],)),
    # edges of a domain
    ("torch.asin(a)", ([-1.0, 1.0, 2.0],), [-1.5707963267948966, 1.5707963267948966, nan], ([inf, inf, nan],)),
    ("torch.acos(a)", ([-1.0, 1.0, 2.0],), [3.141592653589793, 0.0, nan], ([-inf, -inf, nan],)),
    ("torch.atanh(a)", ([-1.0, 1.0, 2.0],), [-inf, inf, nan], ([inf, inf, -1.0],)),
    ("torch.acosh(a)", ([1.0, 0.5],), [0.0, nan], ([inf, nan],)),
    ("torch.erfinv(a)", ([-1.0, 0.0, 1.0],), [-inf, 0.0, inf], ([inf, 1.7724538509055159, inf],)),
    ("torch.atan2(a, b)", ([0.0, -0.0, 0.0, 1.0], [0.0, 0.0, -1.0, 0.0]),
     [0.0, -0.0, 3.141592653589793, 1.5707963267948966], ([0.0, 0.0, -3.0, 0.0], [0.0, 0.0, 0.0, -4.0])),
    ("torch.lgamma(a)", ([0.0, 1.0, -1.0],), [inf, 0.0, inf], ([-inf, -1.1544313298030655, nan],)),
    ("torch.tanh(a)", ([inf, -inf, 100.0],), [1.0, -1.0, 1.0], ([0.0, 0.0, 0.0],)),
    ("torch.sigmoid(a)", ([inf, -inf, -800.0],), [1.0, 0.0, 0.0], ([0.0, 0.0, 0.0],)),
    ("torch.exp(a)", ([-inf, inf, 800.0],), [0.0, inf, inf], ([0.0, inf, inf],)),
    ("torch.expm1(a)", ([-inf, 0.0],), [-1.0, 0.0], ([0.0, 2.0],)),
    # division and remainders at multiples
    ("torch.remainder(a, b)", ([4.0, -4.0, 5.0, -5.0], [2.0, 2.0, -3.0, 3.0]),
     [0.0, -0.0, -1.0, 1.0], ([1.0, 2.0, 3.0, 4.0], [-2.0, 4.0, 6.0, 8.0])),
    ("torch.fmod(a, b)", ([4.0, -4.0, 5.0, -5.0], [2.0, 2.0, -3.0, 3.0]),
     [0.0, -0.0, 2.0, -2.0], ([1.0, 2.0, 3.0, 4.0], [-2.0, 4.0, 3.0, 4.0])),
    ("torch.remainder(a, b)", ([1.0, inf, 2.0], [0.0, 2.0, inf]),
     [nan, nan, 2.0], ([1.0, 2.0, 3.0], [-inf, nan, 0.0])),
    ("torch.fmod(a, b)", ([1.0, inf, 2.0], [0.0, 2.0, inf]), [nan, nan, 2.0], ([1.0, 2.0, 3.0], [-inf, -inf, 0.0])),
    ("torch.floor_divide(a, b)", ([4.0, -5.0], [2.0, 2.0]), [2.0, -3.0], ()),
    ("torch.div(a, b, rounding_mode='trunc')", ([4.0, -5.0], [2.0, 2.0]), [2.0, -2.0], ([0.0, 0.0], [0.0, 0.0])),
    ("torch.div(a, b, rounding_mode='floor')", ([4.0, -5.0], [2.0, 2.0]), [2.0, -3.0], ([0.0, 0.0], [0.0, 0.0])),
    ("torch.nan_to_num(a)", ([nan, inf, -inf, 1.0],),
     [0.0, 1.7976931348623157e+308, -1.7976931348623157e+308, 1.0], ([0.0, 0.0, 0.0, 4.0],)),
    ("torch.nan_to_num(a, 7.0, 8.0, 9.0)", ([nan, inf, -inf, 1.0],), [7.0, 8.0, 9.0, 1.0], ([0.0, 0.0, 0.0, 4.0],)),
    # products, and statistics of too little
    ("torch.prod(a)", ([2.0, 0.0, 3.0],), 0.0, ([0.0, 6.0, 0.0],)),
    ("torch.prod(a)", ([0.0, 0.0, 3.0],), 0.0, ([0.0, 0.0, 0.0],)),
    ("torch.prod(a, 1)", ([[2.0, 0.0], [0.0, 0.0]],), [0.0, 0.0], ([[0.0, 2.0], [0.0, 0.0]],)),
    ("torch.cumprod(a, 0)", ([2.0, 0.0, 3.0, 4.0],), [2.0, 0.0, 0.0, 0.0], ([1.0, 118.0, 0.0, 0.0],)),
    ("torch.cumprod(a, 0)", ([0.0, 2.0, 0.0, 3.0],), [0.0, 0.0, 0.0, 0.0], ([5.0, 0.0, 0.0, 0.0],)),
    ("torch.var(a)", ([1.0],), nan, ([nan],)),
    ("torch.var(a, correction=0)", ([1.0],), 0.0, ([0.0],)),
    ("torch.std(a)", ([2.0, 2.0, 2.0],), 0.0, ([0.0, 0.0, 0.0],)),
    ("torch.std(a)", ([1.0],), nan, ([nan],)),
    ("torch.std(a, correction=0)", ([1.0],), 0.0, ([0.0],)),
    ("torch.std(a, 1)", ([[1.0, 1.0], [1.0, 3.0]],),
     [0.0, 1.4142135623730951], ([[0.0, 0.0], [-1.414213562373095, 1.414213562373095]],)),
    ("torch.mean(a)", ([],), nan, ([],)),
    ("torch.nanmean(a)", ([nan, 1.0, 3.0],), 2.0, ([0.0, 0.5, 0.5],)),
    ("torch.nanmean(a)", ([nan],), nan, ([nan],)),
    ("torch.nansum(a)", ([nan, 1.0],), 1.0, ([0.0, 1.0],)),
    ("torch.sum(a)", ([],), 0.0, ([],)),
    ("torch.lerp(a, b, 0.5)", ([1.0, -inf], [1.0, inf]), [1.0, nan], ([0.5, 1.0], [0.5, 1.0])),
    ("torch.addcdiv(a, b, c)", ([1.0], [0.0], [0.0]), [nan], ([1.0], [inf], [nan])),
    ("torch.erf(a)", ([inf, -inf, 0.0],), [1.0, -1.0, 0.0], ([0.0, 0.0, 3.385137501286538],)),
    ("torch.scatter_reduce(a, 0, torch.tensor([0, 0]), b, 'amax')", ([2.0, 1.0], [2.0, 2.0]),
     [2.0, 1.0], ([0.3333333333333333, 2.0], [0.3333333333333333, 0.3333333333333333])),
    ("torch.scatter_reduce(a, 0, torch.tensor([0, 0]), b, 'prod')", ([2.0, 1.0], [0.0, 0.0]),
     [0.0, 1.0], ([0.0, 2.0], [0.0, 0.0])),
    ("torch.masked_fill(a, a == 0, 5.0)", ([0.0, 1.0],), [5.0, 1.0], ([0.0, 2.0],)),
    ("torch.cross(a, b, 0)", ([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]),
     [0.0, 0.0, 0.0], ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])),
]  # fmt: skip

# Where PyTorch's number follows from its formula (0 / 0, inf - inf, a partial sort) and not from a choice, ours is
# the limit of the derivative, or what PyTorch itself gives elsewhere.
OURS: list[tuple[str, tuple[Any, ...], Any, tuple[Any, ...]]] = [
    # NaNs share the gradient, as in PyTorch's max(a)
    ("torch.amax(a, 0)", ([1.0, nan, nan],), nan, ([0.0, 0.5, 0.5],)),
    # of nothing but -inf no element has any weight, as in PyTorch's logaddexp(-inf, 0)
    ("torch.logsumexp(a, 0)", ([-inf, -inf],), -inf, ([0.0, 0.0],)),
    ("torch.logcumsumexp(a, 0)", ([-inf, -inf, 1.0],), [-inf, -inf, 1.0], ([0.0, 0.0, 3.0],)),
    # the first of equal elements in the order of a stable sort
    ("torch.kthvalue(a, 2, 0).values", ([2.0, 2.0, 2.0],), 2.0, ([0.0, 1.0, 0.0],)),
    # at its poles trigamma is infinite
    ("torch.digamma(a)", ([0.0, -1.0],), [-inf, nan], ([inf, inf],)),
]  # fmt: skip


def evaluate(library: Any, functional: Any, expression: str, inputs: tuple[Any, ...], slopes: bool) -> tuple[Any, Any]:
    """The value of an expression, and the gradients of its inputs if they are wanted."""
    leaves = [library.tensor(values, dtype=library.float64, requires_grad=slopes) for values in inputs]
    names = {"torch": library, "F": functional, "inf": inf, "nan": nan, **dict(zip("abc", leaves, strict=False))}
    y = eval(expression, names)
    if slopes:
        y.backward(library.arange(1, y.numel() + 1, dtype=library.float64).reshape(y.shape))
    return y.tolist(), [None if leaf.grad is None else (leaf.grad + 0).tolist() for leaf in leaves if slopes]


def assert_same(found: Any, expected: Any, what: str) -> None:
    """Equal to the last digits; NaN equals NaN, 0 equals -0, and no gradient is as good as zeros."""
    if expected is None or found is None:
        assert not np.any(found or expected or 0), f"{what}: {found}, expected {expected}"
        return
    np.testing.assert_allclose(np.array(found), np.array(expected), 1e-12, 1e-14, err_msg=what)


def check(library: Any, functional: Any, case: tuple[str, tuple[Any, ...], Any, tuple[Any, ...]]) -> None:
    expression, inputs, value, gradients = case
    found, slopes = evaluate(library, functional, expression, inputs, bool(gradients))
    assert_same(found, value, f"value of {expression}")
    for name, slope, expected in zip("abc", slopes, gradients, strict=False):
        assert_same(slope, expected, f"gradient of {name} in {expression}")


def name_of(case: tuple[Any, ...]) -> str:
    return f"{case[0].removeprefix('torch.')} at {case[1]}"


@pytest.mark.parametrize("case", [*CASES, *OURS], ids=name_of)
def test_convention(case: tuple[str, tuple[Any, ...], Any, tuple[Any, ...]]) -> None:
    check(pellucid, FUNCTIONAL, case)


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 60
    assert len({name_of(case) for case in CASES}) == len(CASES)


@pytest.mark.filterwarnings("ignore:var|std:UserWarning")  # of too few elements
def test_pytorch_still_chooses_so(torch: Any) -> None:
    for case in CASES:
        check(torch, torch.nn.functional, case)


def test_pytorch_still_differs(torch: Any) -> None:
    for case in OURS:
        with pytest.raises(AssertionError):
            check(torch, torch.nn.functional, case)
