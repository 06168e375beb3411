"""Passes over graphs."""

from pellucid.fx.passes import shape_prop

__all__ = ["shape_prop"]
