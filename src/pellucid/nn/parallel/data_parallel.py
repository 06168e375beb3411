"""DataParallel: on one CPU the whole batch goes to the one module."""

from typing import Any

from pellucid.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module wrapped as PyTorch wraps one for several GPUs: its state has the prefix `module.`.

    >>> import pellucid as torch
    >>> model = torch.nn.DataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(3, 2)).shape, list(model.state_dict())
    (torch.Size([3, 1]), ['module.weight', 'module.bias'])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[Any] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Call a module: the functional form of DataParallel."""
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*arguments, **(module_kwargs or {}))
