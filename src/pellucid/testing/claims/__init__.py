"""What every operation claims, checked from its own samples: values, gradients, second order, layouts, dtypes.

A claim is a function of an operation and one of its samples; it raises AssertionError when it does not hold.
`CLAIMS` is the list of them, and a row of a user's own is checked the same way:

    from pellucid.testing import claims
    claims.check(OPERATIONS["my_operation"])

Where PyTorch is installed it is the oracle for values and gradients; without it the claims that need it are left
out and the rest (finite differences, adjoints, layouts) still hold the operation to its word.

    registry.py      the list, and `check`
    samples.py       samples: replaced, run, differentiated
    oracle.py        the same in PyTorch
    comparing.py     nearly equal
    derivatives.py   claims about values, gradients, second order and forward mode
    arrays.py        claims about single precision and layouts
    spellings.py     claims about capture, the in-place form, the method, out= and vmap
"""

from pellucid.testing.claims import arrays, derivatives, spellings  # each enlists its claims
from pellucid.testing.claims.arrays import laid_out
from pellucid.testing.claims.comparing import short
from pellucid.testing.claims.oracle import HAS_TORCH, dtype_name, node_name, plain, run_torch, torch, torch_function
from pellucid.testing.claims.registry import CLAIMS, NEEDS, can_check, check, check_claim
from pellucid.testing.claims.samples import (
    describe,
    differentiable,
    distinct_operations,
    fresh,
    gradients,
    mapped,
    replaced,
    run,
    samples_of,
    tensors_in,
    variables_in,
    watched,
)

__all__ = [
    "CLAIMS", "HAS_TORCH", "NEEDS", "arrays", "can_check", "check", "check_claim", "derivatives", "describe",
    "differentiable", "distinct_operations", "dtype_name", "fresh", "gradients", "laid_out", "mapped", "node_name",
    "plain", "replaced", "run", "run_torch", "samples_of", "short", "spellings", "tensors_in", "torch",
    "torch_function", "variables_in", "watched",
]  # fmt: skip
