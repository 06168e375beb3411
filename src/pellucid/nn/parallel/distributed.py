"""DistributedDataParallel: with one process there is nobody to share gradients with."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pellucid.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module wrapped as PyTorch wraps one for several processes; here there is one, and its gradients are all.

    >>> import pellucid as torch
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> with model.no_sync():
    ...     model(torch.ones(3, 2)).sum().backward()
    >>> model.module.bias.grad
    tensor([3.])
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, **settings: Any
    ) -> None:
        super().__init__()
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients would stay with their process; they do so anyway."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before
