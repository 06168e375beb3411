"""torch.utils.data._utils, from which programs take the functions that put samples together."""

from pellucid.utils.data._utils import collate

__all__ = ["collate"]
