"""torch.utils.flop_counter, which is not here: `pellucid.summary` counts the operations of a model."""

from pellucid.absent import absent

__getattr__ = absent(
    "torch.utils.flop_counter", "FlopCounterMode register_flop_formula", "operations are not counted as they run",
    "pellucid.summary(model, input) counts the operations of each layer",
)  # fmt: skip
