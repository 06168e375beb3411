"""Differentiation as PyTorch spells it: `grad`, `backward`, custom functions, modes and hooks.

>>> import pellucid as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> torch.autograd.grad(x * x, x)
(tensor(6.),)
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pellucid.autograd import function, graph
from pellucid.core import backward as engine
from pellucid.core.flags import Truth, received
from pellucid.core.function import Function
from pellucid.core.modes import (
    detect_anomaly,
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
    set_multithreading_enabled,
)
from pellucid.core.primitive import BOUND
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "enforce_grad_layout_policy", "forward_ad",
    "function", "functional", "grad", "grad_mode", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_grad_enabled", "no_grad", "profiler", "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

LATER = {  # imported when first asked for: they need more than the engine
    "functional": "pellucid.autograd.functional",
    "forward_ad": "pellucid.autograd.forward_ad",
    "grad_mode": "pellucid.core.modes",
    "profiler": "pellucid.autograd.profiler",
    "anomaly_mode": "pellucid.autograd.anomaly_mode",
    "variable": "pellucid.autograd",
}


def __getattr__(name: str) -> Any:
    if name in LATER:
        return import_module(LATER[name])
    if name in ("gradcheck", "gradgradcheck"):
        return getattr(import_module("pellucid.transforms.check"), name)
    raise AttributeError(f"module 'pellucid.autograd' has no attribute {name!r}")


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """The tensor itself: PyTorch's old wrapper has had no meaning since 0.4.

    >>> import pellucid as torch
    >>> torch.autograd.Variable(torch.ones(1), requires_grad=True)
    tensor([1.], requires_grad=True)
    """
    tensor = wrap(data.array) if isinstance(data, Tensor) else Tensor.from_data(data)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor  # type: ignore[attr-defined, no-any-return]


def _sequence(value: Any, what: str) -> tuple[Tensor, ...]:
    """One tensor or several, as a tuple; also places in the graph, and those that a dictionary holds."""
    value = value.values() if isinstance(value, dict) else value
    given = (value,) if isinstance(value, (Tensor, graph.GradientEdge)) else tuple(value)
    tensors = tuple([graph.tensor_at(each) if isinstance(each, graph.GradientEdge) else each for each in given])
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} must be Tensors, not {type(tensor).__name__}")
    return tensors


def _matched(gradients: Any, outputs: tuple[Tensor, ...], what: str) -> tuple[Any, ...]:
    """One gradient (or None) per output."""
    if gradients is None:
        return (None,) * len(outputs)
    result = (gradients,) if isinstance(gradients, Tensor) else tuple(gradients)
    if len(result) != len(outputs):
        raise RuntimeError(
            explain(
                f"got {len(outputs)} tensors and {len(result)} gradients", str(here()), try_=f"{what}: one per output"
            )
        )
    return result


@received
def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Truth = None,
    create_graph: Truth = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of one or several tensors to the `.grad` of the leaves they depend on.

    >>> import pellucid as torch
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> torch.autograd.backward([x * 3, x * 4])
    >>> x.grad
    tensor(7.)
    """
    roots = _sequence(tensors, "tensors")
    gradients = _matched(grad_tensors if grad_variables is None else grad_variables, roots, "grad_tensors")
    wanted = None if inputs is None else _sequence(inputs, "inputs")
    engine.backward(roots, gradients, retain_graph, create_graph, wanted)


@received
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: Truth = None,
    create_graph: Truth = False,
    only_inputs: bool = True,
    allow_unused: Truth = None,
    is_grads_batched: Truth = False,
    materialize_grads: Truth = False,
) -> Any:
    """Gradients of outputs with respect to inputs, returned instead of written to `.grad`: a tuple.

    For a dictionary of inputs it is a dictionary with the same keys. `is_grads_batched` takes grad_outputs with one
    more leading dimension and gives gradients with it.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (slope,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> torch.autograd.grad(slope, x)
    (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    roots, wanted = _sequence(outputs, "outputs"), _sequence(inputs, "inputs")
    gradients = _matched(grad_outputs, roots, "grad_outputs")
    if not wanted:
        raise RuntimeError("grad requires non-empty inputs: `inputs` argument to `grad()` cannot be empty.")
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        results = _batched(roots, wanted, gradients, retain, create_graph)
    else:
        results = tuple(engine.gradients(roots, gradients, wanted, retain, create_graph))
    if not (allow_unused or materialize_grads):
        _refuse_unused(results, wanted)
    if materialize_grads:
        results = tuple(_zeros_for(x, create_graph) if g is None else g for g, x in zip(results, wanted, strict=True))
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, dict) else results


def _zeros_for(x: Tensor, create_graph: bool) -> Tensor:
    """The gradient of an input that had no influence; with create_graph it can be differentiated in its turn."""
    zeros = wrap(BOUND["zeros_like"](x.array))
    return zeros.requires_grad_() if create_graph else zeros  # type: ignore[attr-defined, no-any-return]


def _batched(
    roots: tuple[Tensor, ...], wanted: tuple[Tensor, ...], gradients: Sequence[Any], retain: bool, create_graph: bool
) -> tuple[Any, ...]:
    """One walk for a whole batch of output gradients."""
    from pellucid.transforms.batch import batched_seed, unbatch

    for i, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
        if gradient is not None and tuple(gradient.shape[1:]) != tuple(root.shape):
            raise RuntimeError(
                explain(
                    "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                    "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                    f"output, but a mismatch was detected: grad_output[{i}] has a shape of {gradient.shape} and "
                    f"output[{i}] has a shape of {root.shape}.",
                    str(here()),
                )
            )
    seeds, size, level = batched_seed(gradients)
    found = engine.gradients(roots, seeds, wanted, retain, create_graph)
    return tuple(unbatch(g, size, level) for g in found)


def _refuse_unused(results: Sequence[Any], inputs: Sequence[Tensor]) -> None:
    """Name the inputs that the outputs do not depend on."""
    unused = [i for i, g in enumerate(results) if g is None]
    if not unused:
        return
    described = []
    for i in unused:
        node = current_node(inputs[i])
        made = "" if node is None else f", made at {node.place}"
        described.append(f"input {i} of shape {tuple(inputs[i].array.shape)}{made}")
    raise RuntimeError(
        explain(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the graph. "
            "Set allow_unused=True if this is the desired behavior.",
            str(here()),
            "no path leads from the outputs to " + "; ".join(described),
            "compute the outputs from it, or pass allow_unused=True (None) or materialize_grads=True (zeros)",
        )
    )
