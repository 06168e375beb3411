"""torch.ao, of which nothing is here: `torch.ao.quantization` says so when it is used."""

from pellucid import quantization

__all__ = ["quantization"]
