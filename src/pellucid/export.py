"""torch.export, which is not here."""

from pellucid.absent import absent

__getattr__ = absent(
    "torch.export", "programs are not exported", "pellucid.capture(function, *inputs) gives a program to look at"
)
