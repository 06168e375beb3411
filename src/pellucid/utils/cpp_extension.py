"""torch.utils.cpp_extension, which is not here: there is no C++ to extend."""

from pellucid.absent import absent

CUDA_HOME = None
NAMES = """
BuildExtension CUDAExtension CppExtension SyclExtension include_paths library_paths load load_inline
check_compiler_abi_compatibility get_compiler_abi_compatibility_and_version is_ninja_available verify_ninja_availability
"""
__getattr__ = absent(
    "torch.utils.cpp_extension", NAMES, "Pellucid is written in Python and has no C++ to extend",
    "write the operation in NumPy as a torch.autograd.Function",
)  # fmt: skip
