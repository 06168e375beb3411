"""torch.quantization, which is not here."""

from pellucid.absent import absent

__getattr__ = absent("torch.quantization", "there are no quantised tensors and layers")
