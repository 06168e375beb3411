"""SparseAdam: here for its name; Pellucid has no sparse gradients."""

from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain
from pellucid.optim._checks import check_betas, check_learning_rate, check_not_negative
from pellucid.optim.optimizer import Optimizer, ParamsT

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: its step is not implemented, as all gradients are dense; use `Adam`."""

    def __init__(
        self, params: ParamsT, lr: Any = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:  # fmt: skip
        check_learning_rate(lr)
        check_not_negative(epsilon=eps)
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def step(self, closure: Any = None) -> Any:
        """Say that there are no sparse gradients to step with."""
        raise NotImplementedError(
            explain("SparseAdam needs sparse gradients", str(here()), "all gradients are dense", "optim.Adam")
        )
