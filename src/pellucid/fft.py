"""Fourier transforms, as torch.fft has them."""

import pellucid.ops.fft
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.fft"))
