"""torch.onnx, which is not here."""

from pellucid.absent import absent


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


NAMES = """
export dynamo_export ExportOptions JitScalarType ONNXProgram OnnxExporterError OperatorExportTypes
TensorProtoDataType TrainingMode register_custom_op_symbolic select_model_mode_for_export symbolic_helper
utils unregister_custom_op_symbolic
"""
__getattr__ = absent(
    "torch.onnx",
    NAMES,
    "models are not exported to ONNX",
    "save the state_dict, load it in PyTorch and export it there",
)
