"""Switches of backends that are not here: they can be set, and change nothing."""

from pellucid.backends import cpu, cuda, cudnn, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, quantized

__all__ = ["cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum", "quantized"]

fp32_precision = "none"  # of all backends; "tf32" and "bf16" can be asked for, and float32 stays what it is
