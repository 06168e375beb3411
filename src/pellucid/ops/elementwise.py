"""Elementwise arithmetic and mathematics: one row each, the derivative written once.

In a rule `g` is the gradient of the result, `y` the result, `a` and `b` the inputs.
"""

import numpy as np

from pellucid.core.primitive import same
from pellucid.ops.operation import binary, unary

add = binary(
    "add", np.add, same, same,
    lower="fadd", operators=("__add__",), methods=(), inplace=False,
    doc="""Sum of two tensors.

    >>> import pellucid as torch
    >>> torch.add(torch.tensor([1.0, 2.0]), 10)
    tensor([11., 12.])
    """,
)  # fmt: skip
sub = binary(
    "sub", np.subtract, same, lambda g: -g,
    lower="fsub", operators=("__sub__",), methods=(), inplace=False, doc="Difference of two tensors.",
)  # fmt: skip
mul = binary(
    "mul", np.multiply, lambda g, b: g * b, lambda g, a: g * a,
    lower="fmul", operators=("__mul__",), aliases=("multiply",), doc="Product of two tensors.",
)  # fmt: skip
neg = unary(
    "neg", np.negative, lambda g: -g, lower="fneg", dtypes="promote", operators=("__neg__",), aliases=("negative",),
    doc="Each element with the other sign.",
)  # fmt: skip
exp = unary("exp", np.exp, lambda g, y: g * y, lower="llvm.exp", doc="e to the power of each element.")
log = unary("log", np.log, lambda g, a: g / a, lower="llvm.log", domain=(0.1, 3.0), doc="Natural logarithm.")
sin = unary("sin", np.sin, lambda g, a: g * cos(a), lower="llvm.sin", doc="Sine.")
cos = unary("cos", np.cos, lambda g, a: -g * sin(a), lower="llvm.cos", doc="Cosine.")
