"""Custom operations: a class with a static forward and a static backward, used through `apply`.

Forward runs unrecorded. Its context then becomes one node, whose pullback calls the user's backward with Tensors:
joined to the graph when a graph of the gradient is asked for, plain otherwise. So a backward written with tensor
operations is itself differentiable. What backward returns is fitted to what forward was given.

    definition.py       Function, and how its forward runs
    context.py          FunctionCtx: what forward hands to backward
    joining.py          the outputs of forward get their node
    pullback.py         the user's backward, run, and what it returns fitted
    wrong_backward.py   what is said when it returns something else
    once.py             once_differentiable
"""

from pellucid.core.function.context import FunctionCtx, alive, no_forward
from pellucid.core.function.definition import Function, context_of, run_forward, run_plainly
from pellucid.core.function.once import once_differentiable
from pellucid.core.function.pullback import fitted

__all__ = [
    "Function", "FunctionCtx", "alive", "context_of", "fitted", "no_forward", "once_differentiable", "run_forward",
    "run_plainly",
]  # fmt: skip
