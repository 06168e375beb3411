"""The rows: every operation, defined once.

A row carries its forward, its derivative, its batching and its lowering; `publish` adds documentation, method
names and sample inputs for the generated tests. One topic per file; a new operation touches one file.

The files of this folder are loaded with the package. A folder in it is a family (linear algebra, Fourier transforms,
...) that is loaded when one of its names is first asked for, so that `import pellucid` stays quick.
"""

import os
from importlib import import_module
from typing import Any

from pellucid.core.tensor import Operators


def load_topics(package: str, folder: str) -> None:
    """Import every file of a folder: loading a topic publishes its operations."""
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            import_module(f"{package}.{file[:-3]}")


load_topics(__name__, os.path.dirname(__file__))

# What is loaded when one of its names is first asked for, and the methods of tensors that it brings. They are named
# here because the other way, a `__getattr__`, makes Python read every attribute of every tensor in 40 ns instead of 15.
FAMILIES = {
    "fft": "istft stft",
    "linalg": """
        cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp matrix_power orgqr
        ormqr pinverse qr renorm renorm_ slogdet svd triangular_solve""",
    "nn": "hardshrink prelu",
    "rare": """
        chalf corrcoef cov dense_dim dim_order eig frexp gcd gcd_ hash_tensor histogram index_reduce index_reduce_
        is_conj is_distributed is_neg is_same_size lcm lcm_ lstsq map2_ module_load nextafter nextafter_ nonzero_static
        polygamma_ resize_ resize_as_ resolve_conj resolve_neg set_ solve sparse_dim sum_to_size symeig to_sparse_coo
        unsafe_chunk unsafe_split unsafe_split_with_sizes""",
    "special": "i0 i0_ igamma igamma_ igammac igammac_ mvlgamma mvlgamma_",
}


def load_families() -> None:
    """Load what `import pellucid` leaves for later."""
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")


def load_library(path: Any) -> None:
    """torch.ops.load_library, always an error: compiled extensions need PyTorch's own libraries.

    It is the error of a library that cannot be loaded, after which packages such as torchvision do without.
    """
    raise OSError(f"Pellucid does not load compiled extensions: {path}")


class LateMethod:
    """Stands for a method until it is first asked for: loading its family puts the method itself in this place."""

    def __init__(self, family: str, name: str) -> None:
        self.family, self.name = family, name

    def __get__(self, tensor: Any, kind: type) -> Any:
        import_module(f"{__name__}.{self.family}")
        if vars(Operators)[self.name] is self:
            raise AttributeError(f"ops/__init__.py promises the method {self.name}, but {self.family} has none")
        return getattr(kind if tensor is None else tensor, self.name)


for _family, _methods in FAMILIES.items():
    for _method in _methods.split():
        setattr(Operators, _method, LateMethod(_family, _method))
