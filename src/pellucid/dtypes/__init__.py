"""Element types, promotion, devices and sizes: the vocabulary that every other module speaks.

Everything here prints, compares and fails as its PyTorch namesake does, and the arithmetic of types
(`promote_types`, `promote`, `can_cast`) gives PyTorch's answers rather than NumPy's. This package is the
bottom of the house: it imports NumPy and ml_dtypes (for bfloat16 and float8) and nothing of ours.

    element.py     the types themselves, by our names, NumPy's and Python's
    promotion.py   the default type, and the type of what is computed from several
    float8.py      conversion to eight bits
    limits.py      finfo and iinfo
    sizes.py       Size: the shape of a tensor
    devices.py     device, and why it is the CPU
    constants.py   layouts and memory formats

>>> from pellucid.dtypes import float32, int64, promote_types
>>> promote_types(int64, float32)
torch.float32
"""

from pellucid.dtypes.constants import *  # noqa: F403
from pellucid.dtypes.devices import *  # noqa: F403
from pellucid.dtypes.element import *  # noqa: F403
from pellucid.dtypes.float8 import *  # noqa: F403
from pellucid.dtypes.limits import *  # noqa: F403
from pellucid.dtypes.promotion import *  # noqa: F403
from pellucid.dtypes.sizes import *  # noqa: F403
