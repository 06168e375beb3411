"""Fourier transforms, as torch.fft has them."""

import pellucid.ops.fft  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

_names = _namespace("torch.fft")
globals().update(_names, __all__=[*_names])
