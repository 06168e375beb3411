"""Transforms: functions, most of them invertible, that know how much they stretch volume.

>>> import pellucid as torch
>>> t = ComposeTransform([AffineTransform(1.0, 2.0), ExpTransform()])
>>> t.inv(t(torch.tensor(0.5)))
tensor(0.5000)
"""

from pellucid.distributions.transforms import composed, elementwise, joined, shaped, transform
from pellucid.distributions.transforms.composed import *  # noqa: F403
from pellucid.distributions.transforms.elementwise import *  # noqa: F403
from pellucid.distributions.transforms.joined import *  # noqa: F403
from pellucid.distributions.transforms.shaped import *  # noqa: F403
from pellucid.distributions.transforms.transform import *  # noqa: F403

__all__ = [*transform.__all__, *composed.__all__, *elementwise.__all__, *joined.__all__, *shaped.__all__]
