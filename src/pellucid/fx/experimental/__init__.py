"""Parts of torch.fx that PyTorch may still change."""

from pellucid.fx.experimental import optimization

__all__ = ["optimization"]
