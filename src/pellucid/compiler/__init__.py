"""From a function to a program: capture now, compilation later.

Reading order: trees, parts and program (what a program is, and how it replays), listing (its text for people), trace
(arrays that write down what is done with them), capture (the function). control holds what scripts say to PyTorch's
compiler, without effect.
"""

from pellucid.compiler.capture import capture
from pellucid.compiler.control import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    get_default_backend,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    load_cache_artifacts,
    nested_compile_region,
    reset,
    save_cache_artifacts,
    set_default_backend,
    set_enable_guard_collectives,
    set_stance,
    substitute_in_graph,
    wrap_numpy,
)
from pellucid.compiler.parts import Instruction
from pellucid.compiler.program import Program

__all__ = [
    "Instruction", "Program", "allow_in_graph", "assume_constant_result", "capture", "cudagraph_mark_step_begin",
    "disable", "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts", "set_default_backend",
    "set_enable_guard_collectives", "set_stance", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip
