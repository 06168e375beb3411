"""torch.utils.dlpack: memory shared with other array libraries.

>>> import numpy as np, pellucid as torch
>>> x = torch.utils.dlpack.from_dlpack(np.ones(2))
>>> x
tensor([1., 1.], dtype=torch.float64)
"""

from pellucid.interop.dlpack import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
