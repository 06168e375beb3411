"""Who looks on while a gradient walks back: hooks of tensors and nodes, anomaly mode, observers."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.core import exposure, modes
from pellucid.core.attention import first_bad
from pellucid.core.kinds import Kind, plain
from pellucid.core.primitive import BOUND
from pellucid.core.tensor import ACCUMULATE, OWN_DTYPE, Node, Tensor, wrap
from pellucid.errors import AnomalyError, explain


def as_tensor(g: Any) -> Tensor:
    """A gradient as the user sees it."""
    return g if isinstance(g, Tensor) else wrap(g if isinstance(g, Kind) else np.asanyarray(g))


def _like(value: Any, create_graph: bool) -> Any:
    """A gradient as the walk carries it."""
    return value if create_graph or value is None else value.array


def on_gradient(node: Node, g: Any, create_graph: bool) -> Any:
    """Run the hooks that see the gradient of a tensor; of a leaf also its node's, which has nothing to run itself."""
    extra = node.extra
    assert extra is not None
    if extra.gradient_dtype is not OWN_DTYPE and extra.gradient_dtype is not None:
        g = cast(g, extra.gradient_dtype, create_graph)
    if extra.on_gradient:
        with modes.recording(create_graph):
            for hook in list(extra.on_gradient.values()):
                changed = hook(as_tensor(g))
                if changed is not None:
                    g = _like(checked(changed, as_tensor(g), hook, node), create_graph)
        exposure.user_code_ran()
    return before_node(node, g, create_graph) if extra.before and node.primitive is ACCUMULATE else g


def cast(g: Any, dtype: np.dtype, create_graph: bool) -> Any:
    """A gradient in the dtype that its leaf asked for (`x.grad_dtype`), before any hook sees it."""
    seen = as_tensor(g)
    with modes.recording(create_graph):
        return _like(BOUND["cast"](seen, dtype, plain(seen.array.dtype)), create_graph)


def before_node(node: Node, g: Any, create_graph: bool) -> Any:
    """Run the hooks that see what comes into a node, after a retained gradient was taken."""
    assert node.extra is not None
    with modes.recording(create_graph):
        for hook in list(node.extra.before.values()):
            changed = hook(shown(g))
            if changed is not None:
                parts = [_like(d, create_graph) for d in checked_all(changed, shown(g), hook, node)]
                g = parts if isinstance(g, list) else parts[0]
    exposure.user_code_ran()
    return g


def after_node(node: Node, results: Sequence[Any], g: Any, create_graph: bool) -> Sequence[Any]:
    """Run the hooks that see what a node sends on."""
    assert node.extra is not None
    with modes.recording(create_graph):
        for hook in list(node.extra.after.values()):
            sent = shown(list(results))
            changed = hook(sent, shown(g))
            if changed is not None:
                results = [_like(d, create_graph) for d in checked_all(changed, sent, hook, node)]
    exposure.user_code_ran()
    return results


def shown(g: Any) -> tuple[Tensor | None, ...]:
    """The gradients at a node as a hook sees them."""
    return tuple(None if part is None else as_tensor(part) for part in (g if isinstance(g, list) else (g,)))


def checked_all(changed: Any, before: Sequence[Tensor | None], hook: Any, node: Node) -> list[Tensor | None]:
    """What a node's hook returned, if it is a tuple of as many gradients as it was given."""
    if not isinstance(changed, tuple):
        raise TypeError(f"expected tuple, but hook returned {type(changed).__name__!r}")
    if len(changed) != len(before):
        raise RuntimeError(
            explain(
                f"hook {hook_name(hook)} has returned an incorrect number of values "
                f"(got {len(changed)}, but expected {len(before)})",
                str(node.place),
            )
        )
    return [
        None if d is None else checked(d, old if old is not None else d, hook, node)
        for d, old in zip(changed, before, strict=True)
    ]


def checked(changed: Any, before: Tensor, hook: Any, node: Node) -> Tensor:
    """What a hook returned, if it is a Tensor of the right shape and dtype."""
    if not isinstance(changed, Tensor):
        raise TypeError(f"expected Variable, but hook returned {type(changed).__name__!r}")
    for what, old, new in (
        ("size", tuple(before.array.shape), tuple(changed.array.shape)),
        ("type", before.array.dtype, changed.array.dtype),
    ):
        if old != new:
            raise RuntimeError(
                explain(
                    f"hook {hook_name(hook)} has changed the {what} of value (was {old}, got {new})",
                    str(node.place),
                    "a gradient has the shape and dtype of its tensor",
                )
            )
    return changed


def hook_name(hook: Any) -> str:
    return repr(getattr(hook, "__name__", type(hook).__name__))


class Watch:
    """Looks at every step of a walk: anomaly mode's check and the observers'."""

    def __init__(self, check: bool, gradients: Sequence[Any]) -> None:
        self.check = check
        self.gradients = gradients  # what each observer wants to be told of every edge
        if not check and len(gradients) == 1:
            self.step = gradients[0]  # type: ignore[method-assign]  # told without a call in between

    @classmethod
    def under(cls, mode: modes.Mode) -> "Watch | None":
        """None, unless somebody wants to see every step (an observer without `gradient` does not)."""
        looks = [getattr(observer, "gradient", None) for observer in mode.listeners]
        gradients = [look for look in looks if look is not None]
        return cls(mode.anomaly and mode.check_nan, gradients) if mode.anomaly or gradients else None

    def step(self, node: Node, g: Any, parent: Node, d: Any) -> None:
        if self.check:
            check_backward(node, g, d)
        for look in self.gradients:
            look(node, g, parent, d)


def tell_backward(tensors: Sequence[Tensor], gradients: Sequence[Any], selective: bool, create_graph: bool) -> None:
    """Tell observers that have a `backward` that gradients have been added to the leaves (selective: to some)."""
    mode = modes.MODE.get()
    for observer in () if mode is None else mode.listeners:
        if hasattr(observer, "backward"):
            observer.backward(tensors, gradients, selective, create_graph)


def check_backward(node: Node, g: Any, d: Any) -> None:
    """Anomaly mode: complain about a NaN or Inf that this node made out of a finite gradient."""
    array, incoming = getattr(d, "array", d), getattr(g, "array", g)
    bad = first_bad(array)
    if bad is None or isinstance(incoming, list) or first_bad(np.asarray(incoming)) is not None:
        return
    label, index = bad
    raise AnomalyError(
        explain(
            f"backward of {node.primitive.name} ({node.name()}) returned {label} at index {index}",
            str(node.place),
            f"the gradient that came in was finite, of shape {tuple(incoming.shape)}: "
            f"the derivative of {node.primitive.name} is not finite at the values it was called with",
            "keep its input away from the point where the derivative is infinite or undefined "
            "(an epsilon, clamp, or where on the input, not on the result)",
        )
    )


def post_accumulate(hooked: Iterable[tuple[Node, Tensor, Tensor]], before: Sequence[tuple[Tensor, Any, Any]]) -> None:
    """Run the hooks that want to see a finished `.grad`; if one fails, put every gradient back."""
    try:
        for node, tensor, g in hooked:
            assert node.extra is not None
            for hook in list(node.extra.post_accumulate.values()):
                returned = hook(tensor)
                if returned is not None and returned is not tensor:  # `lambda p: p.add_(p.grad)` changes nothing else
                    kind = RuntimeError if isinstance(returned, Tensor) else TypeError
                    raise kind(f"Tensor post accumulate grad hooks should return None: {hook_name(hook)} did not")
            for hook in list(node.extra.after.values()):
                hook((), (g,))
    except BaseException:
        for tensor, grad, values in before:
            tensor._grad = grad
            if grad is not None:
                grad.array[...] = values
        raise
