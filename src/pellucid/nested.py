"""torch.nested, which is not here: tensors have one shape."""

from pellucid.absent import absent

__getattr__ = absent(
    "torch.nested", "a tensor here has one shape", "torch.nn.utils.rnn.pad_sequence pads parts to equal length"
)
