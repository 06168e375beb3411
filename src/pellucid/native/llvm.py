"""LLVM assembly to functions that can be called: the only file that imports llvmlite."""

from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def machine() -> Any:
    """This processor, with everything it can do."""
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True
    )


def has_wide_vectors() -> bool:
    """Whether this processor computes with vectors of 512 bits."""
    return bool(llvm.get_host_cpu_features().get("avx512f", False))


@lru_cache(maxsize=1)
def engine() -> Any:
    """The one just-in-time linker of the process; code in it lives as long as the process."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())


def compiled(assembly: str) -> Any:
    """The address of a function by its name, once the text is verified, optimised and linked.

    >>> import ctypes
    >>> address = compiled("define i64 @pellucid_example(i64 %x) { %y = add i64 %x, 1  ret i64 %y }")
    >>> ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address("pellucid_example"))(41)
    42
    """
    module = llvm.parse_assembly(assembly)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = True
    passes = llvm.create_pass_builder(machine(), options)
    passes.getModulePassManager().run(module, passes)
    engine().add_module(module)
    engine().finalize_object()
    return engine().get_function_address
