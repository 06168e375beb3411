"""SparseAdam: Adam that changes only the rows of a table that were looked up."""

from operator import setitem
from typing import Any

import numpy as np

from pellucid.core.aliasing import note_writes, record_of
from pellucid.core.commit import Call, together
from pellucid.core.inplace import check_memory
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import explain
from pellucid.ops.picked import picked_rows
from pellucid.optim._block import number
from pellucid.optim._checks import check_betas, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Group, Optimizer, ParamsT, called, tell_written

__all__ = ["SparseAdam"]

NAME = "SparseAdam.step"


class SparseAdam(Optimizer):
    """Adam for embeddings with `sparse=True`: the rows that were not looked up, and their moments, stay as they are.

    Gradients are dense here (`grad.is_sparse` is False); which rows they are for is noted beside them. A parameter
    whose gradient came from elsewhere is refused, as in PyTorch.

    >>> import pellucid as torch
    >>> table = torch.nn.Embedding(3, 1, sparse=True, _weight=torch.ones(3, 1))
    >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.5)
    >>> table(torch.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach().flatten()
    tensor([1.0000, 0.5000, 1.0000])
    """

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure: Any = None) -> Any:
        """Change the rows that have a gradient by one step; a closure computes the loss anew before."""
        loss = called(closure)
        ready = [(p, _rows(p), group) for group in self.param_groups for p in group["params"] if p._grad is not None]
        for p, _, _ in ready:
            check_memory(p, NAME)
        note_writes([record_of(p.array) for p, _, _ in ready], NAME)
        calls: list[Call] = []
        new: dict[Tensor, dict[str, Any]] = {}
        begun: set[int] = set()
        for p, rows, group in ready:
            if id(p) in begun:  # twice in a group: it goes on from what its first step leaves
                together(calls)
                calls.clear()
            begun.add(id(p))
            state = new.get(p) or self.state.get(p) or new.setdefault(p, _first_state(p))
            calls += _update(p, rows, state, group)
        calls += [(self.state.update, new)]
        together(calls)
        tell_written([p for p, _, _ in ready], NAME)
        return loss


def _first_state(p: Tensor) -> dict[str, Any]:
    return {"step": 0, "exp_avg": wrap(np.zeros_like(p.array)), "exp_avg_sq": wrap(np.zeros_like(p.array))}


def _update(p: Tensor, rows: np.ndarray, state: dict[str, Any], group: Group) -> list[Call]:
    """The calls that change the rows of a parameter and of its state; what they will be is worked out here."""
    beta1, beta2 = (number(beta) for beta in group["betas"])
    g = p._grad.array[rows]  # type: ignore[union-attr]
    g = -g if group["maximize"] else g
    first, second, step = state["exp_avg"].array, state["exp_avg_sq"].array, state["step"] + 1
    mean = first[rows] + (g - first[rows]) * (1 - beta1)
    square = second[rows] + (g * g - second[rows]) * (1 - beta2)
    size = number(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    moved = p.array[rows] - size * (mean / (np.sqrt(square) + group["eps"]))
    return [
        (setitem, first, rows, mean.astype(first.dtype, copy=False)),
        (setitem, second, rows, square.astype(second.dtype, copy=False)),
        (setitem, p.array, rows, moved.astype(p.array.dtype, copy=False)),
        (setitem, state, "step", step),
    ]


def _rows(p: Tensor) -> np.ndarray:
    """The rows of a parameter that have a gradient."""
    picked = picked_rows(p)
    if picked is None:
        raise RuntimeError(
            explain(
                "SparseAdam does not support dense gradients, please consider Adam instead", str(here()),
                f"the gradient of shape {tuple(p.array.shape)} came from no embedding with sparse=True",
                "optim.Adam for this parameter",
            )
        )  # fmt: skip
    return picked
