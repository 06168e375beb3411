"""Products with Jacobians and Hessians, and these matrices whole, of functions of tensors.

The functions here take the inputs beside the function and tuples of tensors only; `func` has them in composable form.

>>> import pellucid as torch
>>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
tensor([[2., 0.],
        [0., 4.]])
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid.core.backward import gradients
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.transforms.batch import vmap
from pellucid.transforms.forward import heeding_no_grad, zeros_like
from pellucid.transforms.forward import jvp as push_forward
from pellucid.transforms.jacobians import basis, jacfwd, split_rows
from pellucid.transforms.scope import Scope, recording
from pellucid.transforms.tree import map_tree

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Tensor, ...]


# --- arguments and results


def _as_tuple(value: Any, what: str, api: str) -> tuple[bool, Tensors]:
    """Tensors as a tuple, and whether they were one already."""
    is_tuple = isinstance(value, tuple)
    tensors = value if is_tuple else (value,)
    for i, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            where = f"value at index {i}" if is_tuple else f"given {what}"
            raise TypeError(
                f"The {what} given to {api} must be either a Tensor or a tuple of Tensors but the {where} has type "
                f"{type(tensor)}."
            )
    return is_tuple, tensors


OUTPUTS = "outputs of the user-provided function"


def _called(func: Callable[..., Any], inputs: Tensors, api: str, strict: bool) -> tuple[bool, Tensors, Tensors]:
    """Run the function on arguments of our own: whether it returned a tuple, the outputs, the arguments."""
    scope = Scope()
    arguments = tuple(scope.argument(x) for x in inputs)
    is_tuple, outputs = _as_tuple(func(*arguments), OUTPUTS, api)
    if strict:
        for i, out in enumerate(outputs):
            if current_node(out) is None:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
    return is_tuple, outputs, arguments


def _one_number(func: Callable[..., Any], inputs: Tensors, api: str, strict: bool) -> tuple[Tensor, Tensors]:
    """Run a function that must return a single number."""
    is_tuple, outputs, arguments = _called(func, inputs, api, strict)
    if is_tuple and len(outputs) != 1:
        raise RuntimeError(f"The function given to {api} should return a single Tensor")
    if outputs[0].array.size != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {api} should contain a single element")
    return outputs[0], arguments


def _pulled_back(outputs: Tensors, seeds: Sequence[Any], inputs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The gradients of those outputs that have any, zeros where an input has no influence."""
    live = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if current_node(y) is not None]
    found: Sequence[Tensor | None] = [None] * len(inputs)
    if live:
        found = gradients([y for y, _ in live], [seed for _, seed in live], inputs, True, create_graph)
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. "
                "This is not allowed in strict mode."
            )
    return tuple(zeros_like(wrap(x.array)) if g is None else g for g, x in zip(found, inputs, strict=True))


def _check_recorded(products: Tensors, what: str) -> None:
    """Strict mode with create_graph: a result without graph would be a constant, which is refused."""
    for i, product in enumerate(products):
        if current_node(product) is None:
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. "
                "This is not allowed in strict mode when create_graph=True."
            )


def _vector(v: Any, others: Tensors, are_tuple: bool, api: str, default: str) -> Tensors:
    """The vector of a product, checked against what it is multiplied with; ones for a single number."""
    if v is None:
        if len(others) != 1 or others[0].array.size != 1:
            raise RuntimeError(f"The vector v can only be None if {default} a single Tensor with a single element.")
        return (zeros_like(wrap(others[0].array)) + 1,)
    _, vectors = _as_tuple(v, "v", api)
    if len(vectors) != len(others):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(others)} but got {len(vectors)}."
            if are_tuple
            else "The given v should contain a single Tensor."
        )
    for i, (mine, other) in enumerate(zip(vectors, others, strict=True)):
        if tuple(mine.array.shape) != tuple(other.array.shape):
            where = f"Entry {i} in " if are_tuple else ""
            raise RuntimeError(
                f"{where}v has invalid size: should be {other.shape} but got {mine.shape}."  # type: ignore[attr-defined]
            )
    return vectors


def _finished(tree: Any, create_graph: bool) -> Any:
    """Results as the user gets them: without graph unless one was asked for, in memory that can be written to."""
    return tree if create_graph else map_tree(lambda tensor: wrap(_spread_out(current_array(tensor))), tree)


def _spread_out(array: Any) -> Any:
    """An array with a place for every element: rows that are all the same come as one row that was expanded."""
    return array.copy() if isinstance(array, np.ndarray) and 0 in array.strides else array


def _unpacked(values: Sequence[Any], are_tuple: bool) -> Any:
    return tuple(values) if are_tuple else values[0]


# --- products


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of a vector with its Jacobian.

    >>> import pellucid as torch
    >>> torch.autograd.functional.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "vjp")
    with recording():
        outputs_are_tuple, outputs, arguments = _called(func, given, "vjp", strict)
        default = "the user-provided function returns"
        vectors = _vector(v, outputs, outputs_are_tuple, "vjp", default)
        found = _pulled_back(outputs, vectors, arguments, create_graph, strict)
        if strict and create_graph:
            _check_recorded(found, "jacobian")
    result = _unpacked(outputs, outputs_are_tuple), _unpacked(found, inputs_are_tuple)
    return _finished(result, create_graph)  # type: ignore[no-any-return]


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of its Jacobian with a vector, by forward mode.

    >>> import pellucid as torch
    >>> torch.autograd.functional.jvp(lambda x: x * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "jvp")
    vectors = _vector(v, given, inputs_are_tuple, "jvp", "the input to the user-provided function is")
    with recording():
        if strict:
            _called(func, given, "jvp", strict)
        scope = Scope()
        arguments = tuple(scope.argument(x) for x in given) if create_graph else given
        checked = heeding_no_grad(lambda *xs: _checked(func(*xs), "jvp"))
        outputs, tangents = push_forward(checked, arguments, vectors, strict=strict)
    return _finished((outputs, tangents), create_graph)  # type: ignore[no-any-return]


def _checked(returned: Any, api: str) -> Any:
    _as_tuple(returned, OUTPUTS, api)
    return returned


def _gradient(func: Callable[..., Any], inputs: Tensors, api: str, strict: bool) -> tuple[Tensor, Tensors, Tensors]:
    """A number and its recorded gradient: the value, the gradient, the arguments it depends on."""
    output, arguments = _one_number(func, inputs, api, strict)
    slopes = _pulled_back((output,), (None,), arguments, True, strict)
    for i, slope in enumerate(slopes):
        if strict and current_node(slope) is None:
            raise RuntimeError(
                "While computing the hessian, found that the jacobian of the user-provided function with respect to "
                f"input {i} is independent of the input. This is not allowed in strict mode. You should ensure that "
                "your function is twice differentiable and that the jacobian depends on the inputs (this would be "
                "violated by a linear function for example)."
            )
    return output, slopes, arguments


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of a vector with its Hessian: backward through backward.

    >>> import pellucid as torch
    >>> torch.autograd.functional.vhp(lambda x: (x * x * x).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    (tensor(9.), tensor([6., 0.]))
    """
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "vhp")
    vectors = _vector(v, given, inputs_are_tuple, "vhp", "the input to the user-provided function is")
    with recording():
        output, slopes, arguments = _gradient(func, given, "vhp", strict)
        found = _pulled_back(slopes, vectors, arguments, create_graph, strict)
        if strict and create_graph:
            _check_recorded(found, "hessian")
    return _finished((output, _unpacked(found, inputs_are_tuple)), create_graph)  # type: ignore[no-any-return]


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The value of a function and the product of its Hessian with a vector: forward mode over backward.

    >>> import pellucid as torch
    >>> torch.autograd.functional.hvp(lambda x: (x * x * x).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    (tensor(9.), tensor([6., 0.]))
    """
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "hvp")
    vectors = _vector(v, given, inputs_are_tuple, "hvp", "the input to the user-provided function is")

    def value_and_slopes(*xs: Tensor) -> tuple[Tensor, Tensors]:
        output, slopes, _ = _gradient(func, xs, "hvp", strict)
        return output, slopes

    with recording():
        scope = Scope()
        arguments = tuple(scope.argument(x) for x in given) if create_graph else given
        (output, _), (_, found) = push_forward(heeding_no_grad(value_and_slopes), arguments, vectors)
    return _finished((output, _unpacked(found, inputs_are_tuple)), create_graph)  # type: ignore[no-any-return]


# --- whole matrices

STRATEGIES = ("forward-mode", "reverse-mode")


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function: for every output and input a tensor of shape out.shape + in.shape.

    Reverse mode walks back once for all outputs together; `vectorize` is accepted for PyTorch's sake.

    >>> import pellucid as torch
    >>> a, b = torch.autograd.functional.jacobian(lambda a, b: a * b, (torch.tensor([1.0, 2.0]), torch.tensor(3.0)))
    >>> b
    tensor([1., 2.])
    """
    if strategy not in STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    _refuse_together(create_graph, strict, vectorize, strategy)
    inputs_are_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        numbers = tuple(range(len(given))) if inputs_are_tuple else 0
        return _finished(jacfwd(lambda *xs: _checked(func(*xs), "jacobian"), numbers)(*given), create_graph)
    with recording():
        outputs_are_tuple, outputs, arguments = _called(func, given, "jacobian", strict)
        for output in outputs if strict else ():  # each must depend on all inputs, or a block would be zero by mistake
            found = _pulled_back((output,), (zeros_like(output.detach()),), arguments, create_graph, True)
            if create_graph:
                _check_recorded(found, "jacobian")
        blocks = [_rows(out, arguments, create_graph) for out in outputs]
    result = _unpacked([_unpacked(row, inputs_are_tuple) for row in blocks], outputs_are_tuple)
    return _finished(result, create_graph)


def _rows(output: Tensor, arguments: Tensors, create_graph: bool) -> list[Tensor]:
    """The Jacobian of one output with respect to every argument, in one walk."""
    units = basis([output])[0]
    rows = vmap(lambda unit: _pulled_back((output,), (unit,), arguments, create_graph, False))(units)
    return [split_rows(row, [output])[0] for row in rows]


def _refuse_together(create_graph: bool, strict: bool, vectorize: bool, strategy: str) -> None:
    """What PyTorch refuses, so that code written here runs there."""
    pair = (
        "torch.autograd.functional.jacobian: `{}` and `{}` are not supported together{}. "
        "Please either set `{}` or `{}`."
    )
    forward = 'strategy="forward-mode"'
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                pair.format("create_graph=True", forward, " (yet)", "create_graph=False", 'strategy="reverse-mode"')
            )
        if strict:
            raise RuntimeError(pair.format("strict=True", forward, " (yet)", "strict=False", 'strategy="reverse-mode"'))
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
                "`vectorize=True`."
            )
    elif strict and vectorize:
        raise RuntimeError(pair.format("strict=True", "vectorized=True", "", "strict=False", "vectorize=False"))


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function that returns one number: the Jacobian of its gradient.

    >>> import pellucid as torch
    >>> torch.autograd.functional.hessian(lambda x: (x * x * x).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    if outer_jacobian_strategy not in STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    inputs_are_tuple, _ = _as_tuple(inputs, "inputs", "hessian")

    def slopes(*xs: Tensor) -> Any:
        _, found, _ = _gradient(func, xs, "hessian", strict)
        return _unpacked(found, inputs_are_tuple)

    return jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
