"""torch.functional: functions of tensors that PyTorch writes in Python, under the second name it gives them.

>>> import pellucid as torch
>>> torch.functional.einsum is torch.einsum
True
"""

import pellucid as _torch

NAMES = """
atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum
istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index
"""
globals().update({name: getattr(_torch, name) for name in NAMES.split()})
F = _torch.nn.functional
