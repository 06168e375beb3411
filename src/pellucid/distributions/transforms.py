"""Transforms: invertible functions that know the size of their derivative."""

import math
from typing import Any

import pellucid as torch

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "LowerCholeskyTransform", "PowerTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """A function with an inverse: write `_call`, `_inverse` and `log_abs_det_jacobian`."""

    bijective = True
    event_dim = 0
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        self._last: tuple[Any, Any] | None = None
        self._cache_size = cache_size

    def __call__(self, x: Any) -> Any:
        if self._cache_size and self._last is not None and self._last[0] is x:
            return self._last[1]
        y = self._call(x)
        if self._cache_size:
            self._last = (x, y)
        return y

    @property
    def inv(self) -> "Transform":
        """The inverse."""
        return Inverse(self)

    def _inverted(self, y: Any) -> Any:
        if self._cache_size and self._last is not None and self._last[1] is y:
            return self._last[0]
        return self._inverse(y)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of how much volume grows."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Inverse(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._forward, self.event_dim, self.sign = transform, transform.event_dim, transform.sign

    def __call__(self, x: Any) -> Any:
        return self._forward._inverted(x)

    @property
    def inv(self) -> Transform:
        return self._forward

    def _inverse(self, y: Any) -> Any:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._forward.log_abs_det_jacobian(y, x)


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = parts
        self.event_dim = max((part.event_dim for part in parts), default=0)
        self.sign = math.prod(part.sign for part in parts)

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total: Any = (
            torch.zeros_like(x).sum(tuple(range(-self.event_dim, 0))) if self.event_dim else torch.zeros_like(x)
        )
        for part in self.parts:
            after = part(x)
            term = part.log_abs_det_jacobian(x, after)
            extra = self.event_dim - part.event_dim
            total = total + (term.sum(tuple(range(-extra, 0))) if extra else term)
            x = after
        return total


identity_transform = ComposeTransform([])


class ExpTransform(Transform):
    """exp."""

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """A power."""

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """sigmoid."""

    def _call(self, x: Any) -> Any:
        info = torch.finfo(x.dtype)
        return torch.clamp(torch.sigmoid(x), min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Any) -> Any:
        info = torch.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x) - torch.nn.functional.softplus(x)


class SoftplusTransform(Transform):
    """softplus."""

    def _call(self, x: Any) -> Any:
        return torch.nn.functional.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x)


class TanhTransform(Transform):
    """tanh."""

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


class AbsTransform(Transform):
    """abs, whose inverse is the positive one."""

    bijective = False

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """`loc + scale * x`."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        self.sign = math.copysign(1, scale) if isinstance(scale, (int, float)) else scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        if isinstance(scale, (int, float)):
            result = torch.full_like(x, math.log(abs(scale)))
        else:
            result = torch.abs(scale).log().expand(x.shape)
        return result.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else result


class SoftmaxTransform(Transform):
    """softmax over the last dimension; its inverse is one of many."""

    bijective = False
    event_dim = 1

    def _call(self, x: Any) -> Any:
        return (x - x.max(-1, True)[0]).exp() / (x - x.max(-1, True)[0]).exp().sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors as shares that sum to 1: each takes a part of what is left."""

    event_dim = 1

    def _offset(self, size: int, like: Any) -> Any:
        return (size + 1 - torch.ones(size, dtype=like.dtype).cumsum(-1)).log()

    def _call(self, x: Any) -> Any:
        z = torch.sigmoid(x - self._offset(x.shape[-1], x))
        left = (1 - z).cumprod(-1)
        pad = torch.nn.functional.pad
        return pad(z, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        taken = y[..., :-1]
        left = (1 - taken.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return taken.log() - left.log() + self._offset(taken.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._offset(x.shape[-1], x)
        return (-x + torch.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)


class LowerCholeskyTransform(Transform):
    """A matrix without constraints as a lower triangular one with a positive diagonal."""

    event_dim = 2

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + torch.diag_embed(y.diagonal(dim1=-2, dim2=-1).log())
