"""torch.onnx, which is not here: libraries can still say how their operations would be exported."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pellucid.absent import absent, absent_module

WHY = "models are not exported to ONNX", "save the state_dict, load it in PyTorch and export it there"


def is_in_onnx_export() -> bool:
    """False: nothing is exported."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Accepted: how an operation is exported is never asked."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Accepted, as registering is."""


def parse_args(*arg_descriptors: Any) -> Callable[..., Any]:
    """A decorator that gives the function back, which no exporter calls."""
    return lambda function: function


# Modules of which libraries take names when they are imported.
symbolic_helper: ModuleType = absent_module("torch.onnx.symbolic_helper", *WHY)
symbolic_helper.parse_args = parse_args  # type: ignore[attr-defined]
for _version in range(7, 21):
    globals()[f"symbolic_opset{_version}"] = absent_module(f"torch.onnx.symbolic_opset{_version}", *WHY)

NAMES = """
export dynamo_export ExportOptions JitScalarType ONNXProgram OnnxExporterError OperatorExportTypes
TensorProtoDataType TrainingMode select_model_mode_for_export utils
"""
__getattr__ = absent("torch.onnx", NAMES, *WHY)
