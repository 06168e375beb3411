"""Run a piece of source and explore what it computes: the examples, and what is typed into the playground."""

import linecache
from collections.abc import Mapping
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.errors import explain, printable
from pellucid.explorer.snapshot import Seen, look
from pellucid.explorer.training import Training
from pellucid.explorer.watch import Watch, watching
from pellucid.scalar.value import Value

__all__ = ["look_source", "run_source", "snapshot_source"]


def run_source(source: str, filename: str, names: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Watch]:
    """Run source as a file of that name, with `torch`, `np`, `Value` and `Training` at hand; what it defined and did.

    It runs with the rights of this process: only for source of the person at the keyboard.

    >>> import pellucid as torch
    >>> from pellucid.explorer import run_source
    >>> found, watch = run_source("x = torch.tensor(3.0, requires_grad=True); y = x * x", "square.py")
    >>> found["y"], len(watch.calls)
    (tensor(9., grad_fn=<MulBackward0>), 1)
    """
    import pellucid

    code = compile(source, filename, "exec")
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    given = {"torch": pellucid, "np": np, "Value": Value, "Training": Training, **(names or {})}
    namespace = dict(given)
    with watching(names=False) as watch:
        exec(code, namespace)
    found = {name: value for name, value in namespace.items() if name not in given and name != "__builtins__"}
    return found, watch


def snapshot_source(source: str, result: str = "", filename: str = "<playground>", **options: Any) -> dict[str, Any]:
    """The snapshot of what a piece of source computes: of the variable `result`, else of the last tensor assigned.

    >>> seen = snapshot_source("x = torch.tensor(3.0, requires_grad=True)\\ny = x * x")
    >>> seen["nodes"][0]["grad"]["numbers"]
    [6]
    """
    return look_source(source, result, filename, **options).data


def look_source(source: str, result: str = "", filename: str = "<playground>", **options: Any) -> Seen:
    """The same together with its program."""
    found, watch = run_source(source, filename)
    y = found.get(result) if result else _last(found)
    if not isinstance(y, (Tensor, Value)):
        raise ValueError(
            explain(
                f"the source does not define a tensor called {result}" if result else "the source assigns no tensor",
                filename,
                try_="end with an assignment such as y = x * x, of tensors with requires_grad=True",
            )
        )
    options.setdefault("training", _runs(found))
    seen = look(y, watch=watch, scope=found, **options)
    return seen._replace(data={**seen.data, "code": printable(source)})


def _runs(found: dict[str, Any]) -> Any:
    """The training run that the source has noted, or the list of two of them."""
    for value in found.values():
        if isinstance(value, Training) or (type(value) is list and value and isinstance(value[0], Training)):
            return value
    return None


def _last(found: dict[str, Any]) -> Any:
    """The last assigned tensor with a graph, else the last tensor."""
    values = [value for value in found.values() if isinstance(value, (Tensor, Value))]
    connected = [value for value in values if isinstance(value, Value) or value.node is not None]
    computed = [value for value in connected if isinstance(value, Value) or value.node.inputs]  # type: ignore[union-attr]
    return next(iter(reversed(computed or connected or values)), None)
