"""torch._inductor, of which only the settings are here: nothing is compiled."""

from pellucid._inductor import config

__all__ = ["config"]
