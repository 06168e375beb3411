"""torch.monitor, which is not here."""

from pellucid.absent import absent

__getattr__ = absent(
    "torch.monitor", "Aggregation Event Stat TensorboardEventHandler log_event register_event_handler",
    "there are no counters inside", "torch.utils.tensorboard.SummaryWriter",
)  # fmt: skip
