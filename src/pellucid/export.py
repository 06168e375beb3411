"""torch.export, which is not here."""

from pellucid.absent import absent

NAMES = """
Constraint Dim ExportedProgram ModuleCallEntry ShapesCollection draft_export dims dynamic_dim export
export_for_training load register_dataclass save unflatten
"""
__getattr__ = absent(
    "torch.export", NAMES, "programs are not exported", "pellucid.capture(function, *inputs) gives a program to look at"
)
