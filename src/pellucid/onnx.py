"""torch.onnx, which is not here."""

from pellucid.absent import absent


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


__getattr__ = absent(
    "torch.onnx", "models are not exported to ONNX", "save the state_dict, load it in PyTorch and export it there"
)
