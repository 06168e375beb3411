"""An operation's samples: calls as trees of arguments, their tensors replaced, run and differentiated."""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import pellucid
from pellucid import dtypes
from pellucid.core import backward, modes
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops import load_families
from pellucid.ops.operation import OPERATIONS, Draw, Operation, Sample
from pellucid.transforms.differences import from_reals, reals


def samples_of(operation: Operation) -> list[Sample]:
    """The operation's samples, the same ones every time."""
    draw = Draw(zlib.crc32(operation.name.encode()) % 1000, operation.domain)
    return list(operation.samples(draw))


def distinct_operations() -> dict[str, Operation]:
    """Every operation once, under its first name: an alias is the same function and needs no test of its own."""
    load_families()
    seen: set[int] = set()
    result = {}
    for name, operation in OPERATIONS.items():
        if id(operation.shared) not in seen:
            seen.add(id(operation.shared))
            result[name] = operation
    return result


def mapped(tree: Any, function: Callable[[Any], Any]) -> Any:
    """The same tree of lists, tuples and dictionaries with every leaf replaced."""
    if isinstance(tree, dict):
        return {key: mapped(value, function) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(mapped(value, function) for value in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree in order; a namedtuple counts as a tuple."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    if isinstance(tree, (list, tuple)) and not isinstance(tree, dtypes.Size):
        return [leaf for value in tree for leaf in leaves(value)]
    return [tree]


def describe(sample: Sample) -> str:
    """A sample as one reads a call."""
    parts = [_shown(value) for value in sample.args]
    parts += [f"{key}={_shown(value)}" for key, value in sample.kwargs.items()]
    return ", ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{dtypes.from_numpy_dtype(value.array.dtype)}{list(value.array.shape)}".removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_shown(v) for v in value)}]"
    return repr(value)


def replaced(sample: Sample, function: Callable[[Tensor], Tensor]) -> Sample:
    """The sample with every tensor replaced; one that occurs twice is replaced by one new tensor."""
    known: dict[int, Tensor] = {}

    def new(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = function(value)
        return known[id(value)]

    return Sample(mapped(sample.args, new), mapped(sample.kwargs, new))


def fresh(tensor: Tensor, array: np.ndarray | None = None) -> Tensor:
    """A leaf with other values (or a copy of its own) that requires grad if the original does."""
    out = wrap(np.array(tensor.array, order="K") if array is None else np.asarray(array))
    return out.requires_grad_() if current_node(tensor) is not None else out  # type: ignore[attr-defined]


def tensors_in(sample: Sample) -> list[Tensor]:
    """Every tensor of a sample, each once."""
    found = [value for value in leaves((sample.args, sample.kwargs)) if isinstance(value, Tensor)]
    return list({id(value): value for value in found}.values())


def variables_in(sample: Sample) -> list[Tensor]:
    """The tensors of a sample that require grad."""
    return [tensor for tensor in tensors_in(sample) if current_node(tensor) is not None]


def run(operation: Operation, sample: Sample) -> list[Any]:
    """Call the operation with its random numbers seeded; the results as a flat list."""
    pellucid.manual_seed(0)
    return leaves(operation.function(*sample.args, **sample.kwargs))


def as_function(operation: Operation, sample: Sample, tensors: Sequence[Tensor]) -> Callable[..., list[Any]]:
    """The operation as a function of some of its sample's tensors; the others stay as they are."""

    def function(*values: Tensor) -> list[Any]:
        given = {id(x): value for x, value in zip(tensors, values, strict=True)}
        return run(operation, replaced(sample, lambda tensor: given.get(id(tensor), tensor)))

    return function


def differentiable(results: Sequence[Any]) -> list[Tensor]:
    """The results that carry a graph."""
    return [y for y in results if isinstance(y, Tensor) and current_node(y) is not None]


def all_finite(results: Sequence[Any]) -> bool:
    """Whether there is a derivative to speak of: the mean of nothing is NaN and has none."""
    return all(np.all(np.isfinite(reals(y.array))) for y in differentiable(results))


def weights_for(arrays: Sequence[np.ndarray], seed: int = 7) -> list[np.ndarray]:
    """Fixed random numbers, one array like each given one: gradients of results, or directions to move in."""
    random = np.random.default_rng(seed)
    return [
        from_reals(random.uniform(0.5, 1.5, reals(a).size) * random.choice([-1, 1], reals(a).size), a) for a in arrays
    ]


def gradients(
    operation: Operation, sample: Sample, create_graph: bool = False
) -> tuple[list[Any], list[Tensor], list[Tensor | None]]:
    """Run the operation and pull fixed weights back: the results, the variables, their gradients."""
    results, variables = run(operation, sample), variables_in(sample)
    outputs = differentiable(results)
    if not outputs or not variables:
        return results, variables, [None] * len(variables)
    seeds = [wrap(weight) for weight in weights_for([y.array for y in outputs])]
    return results, variables, backward.gradients(outputs, seeds, variables, create_graph, create_graph)


def inner(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The real inner product of two lists of arrays; None counts as zero."""
    return math.fsum(float(reals(x) @ reals(y)) for x, y in zip(a, b, strict=True) if x is not None and y is not None)


def arrays_of(tensors: Sequence[Any]) -> list[Any]:
    """The arrays of tensors, None where there is none."""
    return [None if tensor is None else tensor.array for tensor in tensors]


@dataclass
class Seen:
    """An observer that remembers which primitives ran."""

    forward: set[str]

    def operation(self, p: Any, tensors: Any, params: Any, outs: Any) -> None:
        self.forward.add(p.name)

    def write(self, target: Any, name: str) -> None:
        pass


@contextmanager
def watched() -> Iterator[Seen]:
    """Remember every primitive that runs in a block."""
    seen = Seen(set())
    with modes.switched(observers=(*modes.current().observers, seen)):
        yield seen
