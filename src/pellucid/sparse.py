"""torch.sparse: products with matrices that PyTorch keeps sparse, and which are dense here."""

from pellucid.ops.affine import addmm
from pellucid.ops.matmul import mm
from pellucid.ops.reduce import sum
from pellucid.ops.softmax import log_softmax, softmax
from pellucid.ops.sparse import sparse_coo_tensor

__all__ = ["DoubleTensor", "FloatTensor", "LongTensor", "addmm", "log_softmax", "mm", "softmax", "sum"]

FloatTensor = DoubleTensor = LongTensor = sparse_coo_tensor
