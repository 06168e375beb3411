"""torch.nn.grad: the gradients of convolutions, by themselves."""

from typing import Any

from pellucid.autograd import grad
from pellucid.nn import functional

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
]  # fmt: skip


def _of(dims: int, sought: int, size: Any, other: Any, grad_output: Any, options: dict[str, Any]) -> Any:
    """The gradient of a convolution's input (sought = 0) or weight (1), which has this size."""
    unknown = other.new_zeros(tuple(size)).requires_grad_()
    pair = (unknown, other) if sought == 0 else (other, unknown)
    result = getattr(functional, f"conv{dims}d")(*pair, **options)
    return grad(result, unknown, grad_output, create_graph=other.requires_grad or grad_output.requires_grad)[0]


def _made(dims: int, sought: int) -> Any:
    def of_input(
        input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return _of(dims, 0, input_size, weight, grad_output, options)

    def of_weight(
        input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return _of(dims, 1, weight_size, input, grad_output, options)

    function = of_weight if sought else of_input
    function.__name__ = f"conv{dims}d_{'weight' if sought else 'input'}"
    function.__doc__ = f"The gradient of `conv{dims}d` with respect to its {'weight' if sought else 'input'}."
    return function


conv1d_input, conv1d_weight = _made(1, 0), _made(1, 1)
conv2d_input, conv2d_weight = _made(2, 0), _made(2, 1)
conv3d_input, conv3d_weight = _made(3, 0), _made(3, 1)
