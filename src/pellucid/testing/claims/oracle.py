"""PyTorch, the oracle: the same sample run there."""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import PICK, Leaf, Tensor
from pellucid.core.views import current_node
from pellucid.ops.operation import Operation, Sample
from pellucid.testing.claims.samples import (
    differentiable,
    mapped,
    run,
    samples_of,
    variables_in,
    weights_for,
)

HAS_TORCH = importlib.util.find_spec("torch") is not None


def torch() -> Any:
    import torch as oracle

    return oracle


def torch_function(operation: Operation) -> Callable[..., Any] | None:
    """PyTorch's function of the same meaning: by reference, else by module and name, else the method."""
    if operation.reference == "":
        return None
    path = operation.reference or operation.name
    if not path.startswith("torch"):
        path = f"{operation.module}.{path}"
    found: Any = torch()
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
        if found is None:
            return getattr(torch().Tensor, path.split(".")[-1], None)
    return found  # type: ignore[no-any-return]


def in_torch(sample: Sample) -> tuple[Sample, list[Any]]:
    """The sample with PyTorch's tensors and dtypes, and the variables among them."""
    known: dict[int, Any] = {}

    def new(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in known:
                known[id(value)] = _torch_tensor(value)
            return known[id(value)]
        if isinstance(value, dtypes.dtype):
            return getattr(torch(), str(value).removeprefix("torch."))
        if isinstance(value, np.ndarray):
            return torch().from_numpy(value.copy())
        return value

    converted = Sample(mapped(sample.args, new), mapped(sample.kwargs, new))
    return converted, [known[id(tensor)] for tensor in variables_in(sample)]


def _torch_tensor(tensor: Tensor) -> Any:
    array = tensor.array
    if array.dtype == dtypes.bfloat16.numpy:
        made = torch().from_numpy(array.astype(np.float32)).to(torch().bfloat16)
    else:
        made = torch().from_numpy(np.array(array, order="C"))
    return made.requires_grad_() if current_node(tensor) is not None else made


def run_torch(operation: Operation, sample: Sample) -> tuple[list[Any], list[Any]] | None:
    """PyTorch's results and its variables; None when PyTorch has no such function."""
    function = torch_function(operation)
    if function is None:
        return None
    converted, variables = in_torch(sample)
    torch().manual_seed(0)
    return leaves_of_torch(function(*converted.args, **converted.kwargs)), variables


def leaves_of_torch(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)) and not isinstance(result, torch().Size):
        return [leaf for value in result for leaf in leaves_of_torch(value)]
    return [result]


def torch_gradients(results: Sequence[Any], variables: Sequence[Any], create_graph: bool = False) -> list[Any]:
    """What PyTorch's backward gives for the same weights."""
    outputs = [y for y in results if isinstance(y, torch().Tensor) and y.requires_grad]
    if not outputs or not variables:
        return [None] * len(variables)
    weights = weights_for([plain(y) for y in outputs])
    seeds = [torch().tensor(weight).reshape(y.shape) for weight, y in zip(weights, outputs, strict=True)]
    return list(
        torch().autograd.grad(
            outputs, variables, seeds, create_graph=create_graph, retain_graph=True, allow_unused=True
        )
    )


def plain(value: Any) -> np.ndarray:
    """PyTorch's tensor as a NumPy array."""
    value = value.detach()
    return value.float().numpy() if value.dtype == torch().bfloat16 else value.numpy(force=True)


def dtype_name(value: Any) -> str:
    """The dtype of a tensor of either library."""
    return str(value.dtype)


def node_name(operation: Operation) -> tuple[str, str] | None:
    """Our name and PyTorch's for the node of the first sample that has one."""
    for sample in samples_of(operation):
        if not variables_in(sample):
            continue
        theirs = run_torch(operation, sample)
        outputs = differentiable(run(operation, sample))
        if theirs is None or not outputs:
            return None
        expected = next((y for y in theirs[0] if getattr(y, "grad_fn", None) is not None), None)
        node = current_node(outputs[0])
        if expected is None or node is None or isinstance(node, Leaf):
            return None
        return (node.inputs[0] if node.primitive is PICK else node).name(), type(expected.grad_fn).__name__  # type: ignore[union-attr]
    return None
