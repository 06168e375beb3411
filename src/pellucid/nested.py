"""torch.nested, which is not here: tensors have one shape."""

from pellucid.absent import absent

NAMES = """
as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged to_padded_tensor
"""
__getattr__ = absent(
    "torch.nested", NAMES, "a tensor here has one shape", "torch.nn.utils.rnn.pad_sequence pads parts to equal length"
)
