from pellucid._version import __version__
from pellucid.core import attributes as _attributes
from pellucid.core.tensor import Tensor
from pellucid.core.modes import no_grad, enable_grad, set_grad_enabled, inference_mode, is_grad_enabled
from pellucid.ops import create, elementwise, shape, reduce, linalg
from pellucid.ops.create import tensor, ones, zeros, randn
from pellucid.ops.operation import OPERATIONS
for _n, _o in OPERATIONS.items(): globals()[_n]=_o.function
