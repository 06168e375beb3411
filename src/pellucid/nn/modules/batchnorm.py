"""Batch normalisation: each channel moved and scaled to mean 0 and variance 1 over the batch."""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.modes import MODE
from pellucid.nn import functional, init
from pellucid.nn.modules.lazy import LazyModuleMixin
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from pellucid.ops.construct import tensor
from pellucid.ops.create import empty, ones, zeros

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip

mode_in_force = MODE.get


class _NormBase(Module):
    """What batch and instance normalisation have in common: a weight, a bias, and statistics that follow the data."""

    _version = 2  # of the saved state: since version 2 it counts the batches

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        made = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(num_features, **made)) if affine else None)
        self.register_parameter("bias", Parameter(empty(num_features, **made)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **made) if tracked else None)
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dtypes.int64) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget the data seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero, and no data seen."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Its settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """A state of version 1 has no count of batches: it goes on from the count here."""
        key = f"{prefix}num_batches_tracked"
        if local_metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            state_dict[key] = tensor(0, dtype=dtypes.int64) if count is None else count
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Batch normalisation of any number of dimensions.

    In training it uses the statistics of the batch, and its running statistics move towards them by `momentum` (or
    are the mean over all batches, if that is None); in evaluation it uses the running statistics.
    """

    def forward(self, input: Any) -> Any:
        """Normalise."""
        self._check_input_dim(input)
        training, factor = self.training, self.momentum
        mean, var = self.running_mean, self.running_var
        if training:
            if self.track_running_stats:
                factor = self._counted()
            else:
                mean = var = None
        from_batch = training or (mean is None and var is None)
        return functional.batch_norm(
            input, mean, var, self.weight, self.bias, from_batch, 0.0 if factor is None else factor, self.eps
        )

    def _counted(self) -> float | None:
        """Count one more batch, and say by how much it moves the running statistics."""
        count = self.num_batches_tracked
        if count is None:
            return self.momentum
        if mode_in_force() is None and isinstance(count.array, np.ndarray):
            count.array += 1  # nothing else can have to do with it: the operation would cost more than a small layer
        else:
            count.add_(1)
        return 1.0 / float(count) if self.momentum is None else self.momentum


# --- the check of the input: what a layer accepts by its number of dimensions


class _Sequences:
    """(N, C) or (N, C, L)."""

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.ndim}D input)")


class _Images:
    """(N, C, H, W)."""

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim != 4:
            raise ValueError(f"expected 4D input (got {input.ndim}D input)")


class _Volumes:
    """(N, C, D, H, W)."""

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim != 5:
            raise ValueError(f"expected 5D input (got {input.ndim}D input)")


class BatchNorm1d(_Sequences, _BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L).

    >>> import pellucid as torch
    >>> layer = torch.nn.BatchNorm1d(1)
    >>> layer(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]], grad_fn=<NativeBatchNormBackward0>)
    >>> layer.running_mean
    tensor([0.2000])
    """


class BatchNorm2d(_Images, _BatchNorm):
    """Batch normalisation of (N, C, H, W)."""


class BatchNorm3d(_Volumes, _BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, *) with statistics over all processes: here, over the one there is."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """A model with every batch norm in it replaced by a SyncBatchNorm that shares its tensors."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


# --- lazy forms: the first input tells num_features


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalisation that learns `num_features` from its first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        made = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64)

    def reset_parameters(self) -> None:
        """Nothing to set before the shape is known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Give parameters and buffers their shapes."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for each in (self.weight, self.bias, self.running_mean, self.running_var):
                if each is not None:
                    each.materialize((self.num_features,))
            self.reset_parameters()


class LazyBatchNorm1d(_Sequences, _LazyNormBase, _BatchNorm):
    """A BatchNorm1d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_Images, _LazyNormBase, _BatchNorm):
    """A BatchNorm2d that learns `num_features` from its first input.

    >>> import pellucid as torch
    >>> layer = torch.nn.LazyBatchNorm2d()
    >>> layer(torch.zeros(2, 3, 4, 4)).shape, layer.num_features
    (torch.Size([2, 3, 4, 4]), 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_Volumes, _LazyNormBase, _BatchNorm):
    """A BatchNorm3d that learns `num_features` from its first input."""

    cls_to_become = BatchNorm3d
