"""Instance normalisation: each channel of each example moved and scaled to mean 0 and variance 1 by itself."""

from typing import Any

from pellucid.core.provenance import warn
from pellucid.nn import functional
from pellucid.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Instance normalisation; `dimensions` of the input are behind its channels."""

    dimensions = 0

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Any) -> None:
        ranks = (self.dimensions + 1, self.dimensions + 2)
        if input.ndim not in ranks:
            raise ValueError(f"expected {ranks[0]}D or {ranks[1]}D input (got {input.ndim}D input)")

    def forward(self, input: Any) -> Any:
        """Normalise."""
        self._check_input_dim(input)
        channels = input.shape[-self.dimensions - 1]
        if channels != self.num_features:
            self._wrong_size(input.ndim - self.dimensions - 1, channels)
        if input.ndim == self.dimensions + 1:  # no batch
            return self._normalised(input.unsqueeze(0)).squeeze(0)
        return self._normalised(input)

    def _normalised(self, input: Any) -> Any:
        return functional.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps,
        )  # fmt: skip

    def _wrong_size(self, dim: int, channels: int) -> None:
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {channels}."
            )
        warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing in "
            "num_features, which is not used because affine=False"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """A state from the time when running statistics were kept by default is told apart from a mistake."""
        kept = [f"{prefix}{name}" for name in ("running_mean", "running_var") if f"{prefix}{name}" in state_dict]
        if "version" not in local_metadata and not self.track_running_stats and kept:
            error_msgs.append(
                f"Unexpected running stats buffer(s) {' and '.join(repr(key) for key in kept)} for "
                f"{type(self).__name__} with track_running_stats=False: leave them out of the state_dict, or set "
                "track_running_stats=True."
            )
            for key in kept:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L).

    >>> import pellucid as torch
    >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    dimensions = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    dimensions = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 3


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm1d that learns `num_features` from its first input."""

    dimensions = 1
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm2d that learns `num_features` from its first input."""

    dimensions = 2
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An InstanceNorm3d that learns `num_features` from its first input."""

    dimensions = 3
    cls_to_become = InstanceNorm3d
