"""L-BFGS: steps along the Newton direction, as far as the last gradients tell about the curvature."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.core.aliasing import note_writes, record_of
from pellucid.core.commit import undoing
from pellucid.core.inplace import as_they_are, check_memory
from pellucid.core.tensor import Tensor, wrap
from pellucid.optim._checks import check_learning_rate
from pellucid.optim._line_search import as_point, strong_wolfe
from pellucid.optim.optimizer import Optimizer, ParamsT, called

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure, as it computes the loss several times.

    >>> import pellucid as torch
    >>> weight = torch.tensor([4.0, -3.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([weight], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((weight - 1) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(337., grad_fn=<SumBackward0>)
    >>> bool(closure() < 1e-6)
    True
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]  # type: ignore[no-any-return]

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to `max_iter` iterations and return the loss from before them.

        If one of them fails or is interrupted, parameters and state are again as before the first.
        """
        for p in self._params:
            check_memory(p, "LBFGS.step")
        known = {p: (state, dict(state)) for p, state in self.state.items()}
        undo = undoing(
            [
                *as_they_are(self._params),
                (self.state.clear,),
                (self.state.update, {p: state for p, (state, _) in known.items()}),
                *((state.clear,) for state, _ in known.values()),
                *((state.update, before) for state, before in known.values()),
            ]
        )
        try:
            return self._step(closure)
        except BaseException:  # also Ctrl-C, which a closure gives much time for
            undo()
            raise

    def _step(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = called(closure)
        state["func_evals"] += 1
        gradient = self._gradient()
        if not _largest(gradient) <= group["tolerance_grad"]:  # NaN is not small
            if group["line_search_fn"] not in (None, "strong_wolfe"):
                raise RuntimeError("only 'strong_wolfe' is supported")
            history = History(state, group["history_size"])
            self._iterate(closure, history, float(first_loss), gradient)
            history.save(state)
        return first_loss

    def _iterate(self, closure: Callable[[], Any], history: "History", loss: float, gradient: np.ndarray) -> None:
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr, tolerance = _plain(group["lr"]), group["tolerance_change"]
        evaluations = 1
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            d = history.direction(gradient, first)
            previous = loss
            history.remember(gradient, loss)
            total = float(np.abs(gradient).sum())
            history.t = 1.0 / total * lr if first and total > 1 else lr
            slope = float(gradient.dot(d))
            if slope > -tolerance:
                break
            last = iteration == group["max_iter"]
            left = group["max_eval"] - evaluations
            loss, gradient, computed = self._move(closure, history, loss, gradient, last, left)
            evaluations += computed
            state["func_evals"] += computed
            if last or evaluations >= group["max_eval"] or _largest(gradient) <= group["tolerance_grad"]:
                break
            if _largest(d) * abs(history.t) <= tolerance or abs(loss - previous) < tolerance:
                break

    def _move(
        self, closure: Callable[[], Any], history: "History", loss: float, gradient: np.ndarray, last: bool, left: int
    ) -> tuple[float, np.ndarray, int]:
        """Go along the direction; the loss and gradient there, and how often they were computed: `left` may be."""
        d = history.d
        if self.param_groups[0]["line_search_fn"] is None:
            self._add(history.t, d)
            if last:  # nobody would look at the gradient any more
                return loss, gradient, 0
            return float(called(closure)), self._gradient(), 1
        origin = [p.array.copy() for p in self._params]

        def evaluate(t: float) -> Any:
            self._add(t, d)
            try:
                return as_point(t, called(closure), self._gradient(), d)
            finally:
                self._restore(origin)

        start = as_point(0.0, loss, gradient, d)
        point, computed = strong_wolfe(evaluate, start, history.t, _largest(d), most=left)
        history.t = point.t
        self._add(point.t, d)
        return point.loss, point.gradient, computed

    def _gradient(self) -> np.ndarray:
        """The gradients of all parameters in a row; complex numbers are pairs."""
        arrays = [np.zeros(p.array.shape, p.array.dtype) if p._grad is None else p._grad.array for p in self._params]
        return np.concatenate([as_real(array) for array in arrays])

    def _add(self, t: float, d: np.ndarray) -> None:
        """Move the parameters by a multiple of a direction."""
        note_writes([record_of(p.array) for p in self._params], "LBFGS.step")
        start = 0
        for p in self._params:
            size = as_real(p.array).size
            move = (d[start : start + size] * t).astype(as_real(p.array).dtype)
            np.add(p.array, move.view(p.array.dtype).reshape(p.array.shape), p.array)
            start += size

    def _restore(self, arrays: list[np.ndarray]) -> None:
        note_writes([record_of(p.array) for p in self._params], "LBFGS.step")
        for p, array in zip(self._params, arrays, strict=True):
            np.copyto(p.array, array)


class History:
    """What is known of the curvature: the last steps and how the gradient changed along each."""

    def __init__(self, state: dict[str, Any], size: int) -> None:
        self.size = size
        self.d: np.ndarray = _array(state.get("d"))
        self.t: float = _plain(state.get("t", 0.0))
        self.changes = [_array(each) for each in state.get("old_dirs", ())]  # of the gradient
        self.steps = [_array(each) for each in state.get("old_stps", ())]
        self.ro = [_array(each) for each in state.get("ro", ())]  # 1 / (change · step)
        self.scale = _array(state.get("H_diag", 1))
        self.gradient: np.ndarray = _array(state.get("prev_flat_grad"))
        self.loss: float = state.get("prev_loss", 0.0)
        self.al: list[Any] = state.get("al", [])

    def remember(self, gradient: np.ndarray, loss: float) -> None:
        """Keep the gradient that the next iteration will compare with."""
        self.gradient, self.loss = gradient, loss

    def direction(self, gradient: np.ndarray, first: bool) -> np.ndarray:
        """The direction to go from here: down the gradient at first, later corrected by the curvature."""
        if first:
            self.changes, self.steps, self.ro, self.scale = [], [], [], 1
            self.d = -gradient
            return self.d
        self._learn(gradient - self.gradient, self.d * self.t)
        q = -gradient
        weights: list[Any] = [None] * self.size
        for i in reversed(range(len(self.steps))):
            weights[i] = self.steps[i].dot(q) * self.ro[i]
            q -= weights[i] * self.changes[i]
        self.d = q * self.scale
        for i in range(len(self.steps)):
            self.d += (weights[i] - self.changes[i].dot(self.d) * self.ro[i]) * self.steps[i]
        self.al = [None if weight is None else wrap(np.asarray(weight)) for weight in weights]
        return self.d

    def _learn(self, change: np.ndarray, step: np.ndarray) -> None:
        """Take up how the gradient changed along the last step, if that says something."""
        product = change.dot(step)
        if product <= 1e-10:
            return
        if len(self.changes) == self.size:
            for kept in (self.changes, self.steps, self.ro):
                kept.pop(0)
        self.changes.append(change)
        self.steps.append(step)
        self.ro.append(1 / product)
        self.scale = product / change.dot(change)

    def save(self, state: dict[str, Any]) -> None:
        """Put everything into the optimizer's state, under PyTorch's names."""
        if self.al:
            state["al"] = self.al
        state.update(
            d=wrap(self.d), t=self.t, old_dirs=[wrap(each) for each in self.changes],
            old_stps=[wrap(each) for each in self.steps], ro=[wrap(np.asarray(each)) for each in self.ro],
            H_diag=wrap(np.asarray(self.scale)) if self.steps else self.scale, prev_flat_grad=wrap(self.gradient),
            prev_loss=self.loss,
        )  # fmt: skip


def _plain(value: Any) -> Any:
    """A step length as a number; 1 stays 1, as PyTorch saves it."""
    return value.item() if isinstance(value, Tensor) else value


def _array(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value


def as_real(array: np.ndarray) -> np.ndarray:
    """The elements in a row, complex ones as pairs."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _largest(vector: np.ndarray) -> float:
    return float(np.abs(vector).max(initial=0.0))
