"""Fusion: a batch norm in evaluation is a scale and a shift per channel, which the layer before it can take over."""

import copy
from typing import Any

import pellucid as torch
from pellucid.nn.modules.module import Module
from pellucid.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Any, Any]:
    """The weight and the bias of a convolution that does what it and the batch norm after it do.

    >>> import pellucid as torch
    >>> conv, bn = torch.nn.Conv2d(1, 1, 1).eval(), torch.nn.BatchNorm2d(1).eval()
    >>> _ = torch.nn.init.ones_(conv.weight), torch.nn.init.zeros_(conv.bias), bn.running_var.fill_(4.0)
    >>> weight, bias = torch.nn.utils.fuse_conv_bn_weights(
    ...     conv.weight, conv.bias, bn.running_mean, bn.running_var, 0.0, bn.weight, bn.bias)
    >>> weight.flatten().detach(), bias.detach()  # divided by the standard deviation, 2
    (tensor([0.5000]), tensor([0.]))
    """
    bias = torch.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = torch.rsqrt(bn_rv + bn_eps) * (1 if bn_w is None else bn_w)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    shift = ((bias - bn_rm) * scale + (0 if bn_b is None else bn_b)).to(bias.dtype)
    return Parameter(weight.detach(), conv_w.requires_grad), Parameter(shift.detach(), bias.requires_grad)


def _in_evaluation(first: Module, bn: Module) -> None:
    if first.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Only support fusion for batch norm with running statistics")


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of a convolution that does what it and the batch norm after it do, both in evaluation.

    >>> import pellucid as torch
    >>> conv, bn = torch.nn.Conv2d(2, 3, 1).eval(), torch.nn.BatchNorm2d(3).eval()
    >>> fused, x = torch.nn.utils.fuse_conv_bn_eval(conv, bn), torch.ones(1, 2, 4, 4)
    >>> torch.allclose(fused(x), bn(conv(x)), atol=1e-6)
    True
    """
    _in_evaluation(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )  # fmt: skip
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Any, Any]:
    """The weight and the bias of a linear layer that does what it and the batch norm after it do.

    >>> import pellucid as torch
    >>> weight, mean, variance = torch.tensor([[1.0, 2.0]]), torch.tensor([3.0]), torch.tensor([4.0])
    >>> fused = torch.nn.utils.fuse_linear_bn_weights(weight, None, mean, variance, 0.0, None, None)
    >>> [part.detach() for part in fused]  # (x @ weight.T - 3) / 2
    [tensor([[0.5000, 1.0000]]), tensor([-1.5000])]
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of a linear layer that does what it and the batch norm after it do, both in evaluation.

    >>> import pellucid as torch
    >>> linear, bn = torch.nn.Linear(2, 3).eval(), torch.nn.BatchNorm1d(3).eval()
    >>> fused, x = torch.nn.utils.fuse_linear_bn_eval(linear, bn), torch.ones(4, 2)
    >>> torch.allclose(fused(x), bn(linear(x)), atol=1e-6)
    True
    """
    _in_evaluation(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )  # fmt: skip
    return fused
