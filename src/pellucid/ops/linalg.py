"""Matrix products."""

import numpy as np

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.shape import permute_row


def swap(a):
    n = a.ndim
    return permute_row(a, (*range(n - 2), n - 1, n - 2))


matmul_row = bind(
    multilinear(
        "matmul", np.matmul, lambda g, b: g @ swap(b), lambda g, a: swap(a) @ g, dtypes="equal", lower="gemm",
        batch=lambda op, a, b: op(a, b), grad_name="MmBackward0",
    ), "__matmul__"
)  # fmt: skip
