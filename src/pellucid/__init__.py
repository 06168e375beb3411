"""Pellucid: autograd you can see through. `import pellucid as torch` runs PyTorch code on NumPy.

>>> import pellucid as torch
>>> x = torch.tensor(3.0, requires_grad=True)
>>> (x * x + x).backward()
>>> x.grad
tensor(7.)
"""

import warnings as _warnings
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from math import e, inf, nan, pi
from pkgutil import iter_modules as _iter_modules
from typing import Any as _Any

from pellucid import _loading, interop, ops, random, return_types
from pellucid._version import __version__
from pellucid.core import attributes as _attributes
from pellucid.core.allocator import keep_memory as _keep_memory
from pellucid.core.modes import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_anomaly_enabled,
    set_grad_enabled,
)
from pellucid.core.tensor import Tensor
from pellucid.dtypes import (
    DTYPE_NAMES as _DTYPE_NAMES,
    Size,
    can_cast,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    jagged,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    promote_types,
    set_default_dtype,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from pellucid.ops.construct import *  # noqa: F403
from pellucid.ops.convert import is_complex, is_floating_point, is_signed
from pellucid.ops.create import *  # noqa: F403
from pellucid.ops.distributions import *  # noqa: F403
from pellucid.ops.expand import broadcast_shapes
from pellucid.ops.layout import numel
from pellucid.ops.operation import namespace as _namespace
from pellucid.ops.random import *  # noqa: F403
from pellucid.ops.ranges import *  # noqa: F403
from pellucid.ops.status import *  # noqa: F403
from pellucid.ops.sparse import *  # noqa: F403
from pellucid.ops.storage import *  # noqa: F403
from pellucid.switches import *  # noqa: F403

globals().update(_DTYPE_NAMES)
globals().update(_namespace("torch"))

# NumPy warns of divisions by zero and overflows; PyTorch is silent about them, and so are the operations of ours.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"pellucid\.")
_keep_memory()
newaxis = None

# Loaded when first asked for: `import pellucid` alone brings the engine and the operations. The modules of this folder
# are found by their names; these names live in one of them.
_FROM = {
    **dict.fromkeys(
        (
            "GradScaler",
            "autocast",
            "clear_autocast_cache",
            "get_autocast_cpu_dtype",
            "get_autocast_dtype",
            "get_autocast_gpu_dtype",
            "is_autocast_cache_enabled",
            "is_autocast_cpu_enabled",
            "is_autocast_enabled",
            "set_autocast_cache_enabled",
            "set_autocast_cpu_dtype",
            "set_autocast_cpu_enabled",
            "set_autocast_dtype",
            "set_autocast_enabled",
            "set_autocast_gpu_dtype",
        ),
        "pellucid.amp",
    ),
    **dict.fromkeys(
        ("DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet"), "pellucid._C"
    ),
    **dict.fromkeys(("capture",), "pellucid.compiler"),
    **dict.fromkeys(("vmap",), "pellucid.func"),
    **dict.fromkeys(("Tag",), "pellucid.library"),
    **dict.fromkeys(("from_dlpack",), "pellucid.interop.dlpack"),
    **dict.fromkeys(("explain",), "pellucid.diagnose.explain"),
    **dict.fromkeys(("explore",), "pellucid.explorer"),
    **dict.fromkeys(("backward_steps",), "pellucid.diagnose.steps"),
    **dict.fromkeys(("why",), "pellucid.diagnose.why"),
    **dict.fromkeys(("Recorder",), "pellucid.diagnose.recorder"),
    **dict.fromkeys(("doctor",), "pellucid.diagnose.doctor"),
    **dict.fromkeys(
        (
            "attach_gradient_nan_hooks",
            "check_gradient_flow",
            "find_nan_gradients",
            "inspect_batch",
        ),
        "pellucid.diagnose.flow",
    ),
    **dict.fromkeys(
        (
            "load",
            "save",
        ),
        "pellucid.serialization",
    ),
    **dict.fromkeys(
        (
            "load_file",
            "save_file",
        ),
        "pellucid.serialization.safetensors",
    ),
    **dict.fromkeys(("set_printoptions",), "pellucid.printing"),
    **dict.fromkeys(("summary",), "pellucid.diagnose.summary"),
    **dict.fromkeys(("as_torch",), "pellucid.shim"),
    **dict.fromkeys(("to_dlpack",), "pellucid.utils.dlpack"),
    **dict.fromkeys(("thread_safe_generator",), "pellucid.random"),
    **dict.fromkeys(("OutOfMemoryError",), "pellucid.cuda"),
    **dict.fromkeys(("TypedStorage", "UntypedStorage"), "pellucid.storage"),
    **dict.fromkeys(
        (
            "bilinear",
            "detach",
            "embedding_bag",
            "fake_quantize_per_channel_affine",
            "fake_quantize_per_tensor_affine",
            "frobenius_norm",
            "kl_div",
            "nuclear_norm",
        ),
        "pellucid.ops.rare.twins",
    ),
    **dict.fromkeys(("Future",), "pellucid.futures"),
    **dict.fromkeys(("fork", "wait", "ScriptModule", "ScriptFunction"), "pellucid.jit"),
    **dict.fromkeys(
        (
            "SymBool",
            "SymFloat",
            "SymInt",
            "_assert",
            "_assert_async",
            "_check",
            "_check_index",
            "_check_is_size",
            "_check_not_implemented",
            "_check_tensor_all",
            "_check_type",
            "_check_value",
            "_check_with",
            "sym_float",
            "sym_int",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sqrt",
            "sym_sum",
        ),
        "pellucid.symbolic",
    ),
}

# What can be named and says when it is used why it is not here.
_ABSENT = {
    "there are no quantised tensors": """
        choose_qparams_optimized empty_quantized fbgemm_linear_fp16_weight
        fbgemm_linear_int8_weight fbgemm_pack_quantized_matrix int_repr per_channel_affine per_channel_symmetric
        per_tensor_affine per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qint32 qint8 qscheme quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic
        quantized_batch_norm quantized_gru quantized_lstm quantized_max_pool1d quantized_max_pool2d quint2x4 quint4x2
        quint8""",
    "NumPy has no numbers of this kind": """
        bits16 bits1x8 bits2x4 bits4x2 bits8 chalf complex32 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2
        float8_e5m2fnuz float8_e8m0fnu int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7""",
    "matrices are dense": """
        dsmm hsmm hspmm resize_as_sparse_ saddmm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor
        sparse_csc_tensor sspaddmm""",
    "Pellucid runs on the CPU, and nothing runs elsewhere": """
        AcceleratorError Event Stream get_device_module mtia cudnn_affine_grid_generator cudnn_batch_norm
        cudnn_convolution cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm
        miopen_convolution miopen_rnn mkldnn_convolution mkldnn_max_pool2d mkldnn_rnn_layer""",
    "PyTorch has removed it": "eig lstsq matrix_rank solve symeig",
    "it has no counterpart here": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage
        FloatStorage HalfStorage IntStorage LongStorage ShortStorage StorageBase classes lobpcg""",
}


_loading.loaded()


def __getattr__(name: str) -> _Any:
    if name in _FROM:
        return getattr(_import_module(_FROM[name]), name)
    if not name.startswith("__") or name in ("__config__", "__future__"):  # modules of PyTorch's
        if _find_spec(f"{__name__}.{name}") is not None:
            return _import_module(f"{__name__}.{name}")
        ops.load_families()
        globals().update(_namespace("torch"))
        found = globals().get(name) or (getattr(Tensor, name, None) if name.endswith("_") else None)
        if found is not None:  # a function that a family brings, or torch.relu_, which is the method
            return found
    for why, names in _ABSENT.items():
        if name in names.split():
            return _import_module("pellucid.absent").absent("torch", names, why)(name)
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Also what is loaded when first asked for, but for what is not here at all."""
    ops.load_families()
    globals().update(_namespace("torch"))
    modules = {module.name for module in _iter_modules(globals()["__path__"]) if not module.name.startswith("_")}
    return sorted({*globals(), *_FROM, *modules})


def is_tensor(value: _Any) -> bool:
    """Tell whether something is a tensor.

    >>> is_tensor(3.0)
    False
    """
    return isinstance(value, Tensor)
