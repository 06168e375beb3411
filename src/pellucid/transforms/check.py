"""gradcheck and gradgradcheck: is a gradient the derivative of its function, and if not, why not.

Every input that requires grad is moved element by element (differences.py), the resulting Jacobian is compared with
the one backward gives row by row, and a mismatch is explained (mismatch.py).
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.core import backward
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.errors import GradcheckError, explain
from pellucid.transforms import mismatch
from pellucid.transforms.differences import (
    epsilon_sweep,
    from_reals,
    gradient_check,
    jacobian_by_differences,
    moved_along,
    numeric_gradient,
    reals,
    writable,
)

__all__ = ["epsilon_sweep", "gradcheck", "gradgradcheck", "gradient_check", "numeric_gradient"]

Function = Callable[..., Any]
DOUBLE = frozenset((np.dtype(np.float64), np.dtype(np.complex128)))


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of a function with finite differences; a mismatch comes with a diagnosis.

    Inputs should be float64 (or complex128) tensors that require grad. With `fast_mode` one random direction is
    compared instead of every element. `masked` is accepted for PyTorch's sake: there are no sparse tensors here.

    >>> import pellucid as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(lambda x: x.exp(), x)
    True
    """
    _check_asked(check_forward_ad, check_backward_ad, check_batched_grad, check_batched_forward_grad)
    case = Case(func, inputs, eps, atol, rtol, nondet_tol)
    try:
        case.warn_of_single_precision()
        if check_backward_ad:
            case.check_backward(fast_mode, check_grad_dtypes)
            if check_undefined_grad:
                case.check_missing_gradients()
        if check_forward_ad:
            case.check_forward()
        if check_batched_grad:
            case.check_batched()
        if check_batched_forward_grad:
            case.check_batched_forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_asked(forward: bool, backward: bool, batched: bool, batched_forward: bool) -> None:
    """Refuse to check nothing, and batches of what is not checked."""
    if not (forward or backward):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if batched and not backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if batched_forward and not forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of a function's gradients with finite differences.

    >>> import pellucid as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(lambda x: x.exp(), x)
    True
    """
    arguments = as_tuple(inputs)
    seeds = _seeds(func, arguments, grad_outputs, gen_non_contig_grad_outputs)

    def gradients_of(*values: Any) -> tuple[Tensor, ...]:
        points, weights = values[: len(arguments)], values[len(arguments) :]
        outputs = differentiable(func(*points))
        wanted = [value for value in points if is_variable(value)]
        found = backward.gradients(outputs, weights, wanted, True, True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients_of,
        (*arguments, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _seeds(func: Function, inputs: tuple[Any, ...], given: Any, spread: bool) -> tuple[Tensor, ...]:
    """Gradients of the outputs to start from: given, or drawn; `spread` draws them not contiguous."""
    if given is not None:
        return as_tuple(given)
    random = np.random.default_rng(0)
    seeds = []
    for output in differentiable(func(*inputs)):
        array = output.array
        size = reals(array).size
        drawn = from_reals(random.standard_normal(size), array)
        if spread and array.ndim:
            drawn = np.repeat(drawn, 2, axis=-1)[..., ::2]
        seeds.append(wrap(drawn).requires_grad_())  # type: ignore[attr-defined]
    return tuple(seeds)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Arguments or results as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def is_variable(value: Any) -> bool:
    """Whether a value is a tensor that requires grad."""
    return isinstance(value, Tensor) and current_node(value) is not None


def differentiable(result: Any) -> list[Tensor]:
    """The results that require grad."""
    return [value for value in as_tuple(result) if is_variable(value)]


class Case:
    """A function, a point, and how near analytic and numeric derivatives must be."""

    def __init__(self, func: Function, inputs: Any, eps: float, atol: float, rtol: float, nondet_tol: float) -> None:
        self.func, self.inputs, self.eps = func, as_tuple(inputs), eps
        self.atol, self.rtol, self.nondet_tol = atol, rtol, nondet_tol
        self.variables = [(i, value) for i, value in enumerate(self.inputs) if is_variable(value)]
        if not self.variables:
            raise ValueError(
                explain(
                    "gradcheck expects at least one input tensor to require gradient, but none of them have "
                    "requires_grad=True.",
                    str(here()),
                    try_="make the inputs with requires_grad=True",
                )
            )
        self.random = np.random.default_rng(1)
        self.form: list[tuple[tuple[int, ...], np.dtype]] | None = None  # the shapes and dtypes of the outputs

    def warn_of_single_precision(self) -> None:
        for position, tensor in self.variables:
            if np.dtype(tensor.array.dtype) not in DOUBLE:
                warnings.warn(
                    f"Input #{position} requires gradient and is not a double precision floating point or complex. "
                    f"This check will likely fail if all the inputs are not of double precision floating point or "
                    f"complex: it is {tensor.dtype}, and finite differences need about 15 digits.",  # type: ignore[attr-defined]
                    stacklevel=4,
                )

    # --- evaluating

    def outputs(self) -> list[Tensor]:
        """The outputs to check: those that require grad; if none does, those that could."""
        result = [value for value in as_tuple(self.func(*self.inputs)) if isinstance(value, Tensor)]
        chosen = [value for value in result if is_variable(value)]
        return chosen or [value for value in result if np.dtype(value.array.dtype).kind not in "biu"]

    def values(self) -> list[np.ndarray]:
        """The outputs as vectors of reals."""
        outputs = self.outputs()
        self.check_form(outputs)
        return [reals(output.array) for output in outputs]

    def check_form(self, outputs: list[Tensor]) -> None:
        """Refuse outputs of another form than before: a function whose form depends on its values has no derivative."""
        form = [(tuple(output.array.shape), np.dtype(output.array.dtype)) for output in outputs]
        before, self.form = self.form or form, form
        for what, i in (("number", None), ("shape", 0), ("dtype", 1)):
            old, new = (len(f) if i is None else [part[i] for part in f] for f in (before, form))
            if old != new:
                raise AssertionError(
                    explain(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed within eps, "
                        f"but got {old} and {new}",
                        why="near this point the function takes another branch",
                        try_="check it at a point where the branch is clear",
                    )
                )

    def pulled_back(self, output: Tensor, seed: np.ndarray) -> list[np.ndarray]:
        """Per variable: the gradient of one output weighted with a seed of reals."""
        variables = [tensor for _, tensor in self.variables]
        if not is_variable(output):
            return [np.zeros(reals(tensor.array).size) for tensor in variables]
        weight = wrap(from_reals(seed, output.array))
        found = backward.gradients([output], [weight], variables, True, False)
        return [
            np.zeros(reals(tensor.array).size) if g is None else reals(g.array)
            for g, tensor in zip(found, variables, strict=True)
        ]

    def analytic(self, output: Tensor) -> list[np.ndarray]:
        """Per variable: the Jacobian of one output by backward, one row per output real."""
        rows = [self.pulled_back(output, seed) for seed in np.eye(reals(output.array).size)]
        if not rows:
            return [np.zeros((0, reals(tensor.array).size)) for _, tensor in self.variables]
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def numeric(self, variable: int) -> list[np.ndarray]:
        """Per output: the Jacobian with respect to one variable by central differences."""
        position, tensor = self.variables[variable]
        return jacobian_by_differences(self.values, writable(tensor, position), self.eps)

    def agree(self, a: np.ndarray, b: np.ndarray) -> bool:
        return bool(np.allclose(a, b, self.rtol, self.atol))

    # --- the checks

    def check_backward(self, fast: bool, check_dtypes: bool) -> None:
        self.check_repeatable()
        if check_dtypes:
            self.check_dtypes()
        if fast and self.agrees_along_random_directions():
            return
        outputs = self.outputs()
        jacobians = [self.analytic(output) for output in outputs]
        for variable in range(len(self.variables)):
            for k, numeric in enumerate(self.numeric(variable)):
                if not self.agree(jacobians[k][variable], numeric):
                    raise GradcheckError(mismatch.report(self, k, variable, jacobians[k][variable], numeric))

    def agrees_along_random_directions(self) -> bool:
        """Compare u·(Jv) with (Jᵀu)·v for random u and v: one number for each pair of output and input."""
        for k, output in enumerate(self.outputs()):
            u = self.random.standard_normal(reals(output.array).size)
            for (position, tensor), gradient in zip(self.variables, self.pulled_back(output, u), strict=True):
                v = self.random.standard_normal(gradient.size)
                slope = self.slope_along(writable(tensor, position), v)[k]
                if not self.agree(gradient @ v, u @ slope):
                    return False
        return True

    def slope_along(self, array: np.ndarray, direction: np.ndarray) -> list[np.ndarray]:
        """Per output: the central difference along a direction of one input."""
        with moved_along(array, direction, self.eps):
            above = self.values()
        with moved_along(array, direction, -self.eps):
            below = self.values()
        return [(a - b) / (2 * self.eps) for a, b in zip(above, below, strict=True)]

    def check_repeatable(self) -> None:
        """Two runs at the same point give the same values and the same gradients."""
        first, second = self.outputs(), self.outputs()
        for k, (one, other) in enumerate(zip(first, second, strict=True)):
            if not np.allclose(one.array, other.array, rtol=0.0, atol=self.nondet_tol, equal_nan=True):
                raise GradcheckError(mismatch.not_repeatable("Forward", k, one.array, other.array))
        for k, output in enumerate(first):
            seed = self.random.standard_normal(reals(output.array).size)
            for a, b in zip(self.pulled_back(output, seed), self.pulled_back(output, seed), strict=True):
                if not np.allclose(a, b, rtol=0.0, atol=self.nondet_tol, equal_nan=True):
                    raise GradcheckError(mismatch.not_repeatable("Backward", k, a, b))

    def check_dtypes(self) -> None:
        """Gradients have the dtype of their input: read where a hook sees them, before `.grad` would cast them."""
        for output in self.outputs():
            seed = wrap(np.ones_like(output.array))
            variables = [tensor for _, tensor in self.variables]
            for g, (position, tensor) in zip(
                backward.gradients([output], [seed], variables, True, False), self.variables, strict=True
            ):
                if g is not None and g.array.dtype != tensor.array.dtype:
                    raise GradcheckError(
                        explain(
                            f"the gradient of input {position} has dtype {g.dtype}, the input {tensor.dtype}",  # type: ignore[attr-defined]
                            try_="return a gradient of the input's dtype from backward",
                        )
                    )

    def check_missing_gradients(self) -> None:
        """Each output alone, the others without gradient, adds up to all of them together."""
        outputs = [output for output in self.outputs() if is_variable(output)]
        if len(outputs) < 2:
            return
        seeds = [self.random.standard_normal(reals(output.array).size) for output in outputs]
        alone = [self.pulled_back(output, seed) for output, seed in zip(outputs, seeds, strict=True)]
        variables = [tensor for _, tensor in self.variables]
        weights = [wrap(from_reals(seed, output.array)) for seed, output in zip(seeds, outputs, strict=True)]
        together = backward.gradients(outputs, weights, variables, True, False)
        for (position, _), g, parts in zip(self.variables, together, zip(*alone, strict=True), strict=True):
            total = np.sum(parts, axis=0)
            if not self.agree(total, np.zeros_like(total) if g is None else reals(g.array)):
                raise GradcheckError(
                    explain(
                        "Expected backward function to handle undefined output grads: the gradient of input "
                        f"{position} from all outputs at once differs from the sum over the outputs one at a time",
                        try_="treat a gradient that is None as zero in backward",
                    )
                )

    def check_forward(self) -> None:
        """Forward mode along every element equals finite differences."""
        for variable in range(len(self.variables)):
            forward = mismatch.forward_jacobian(self, variable)
            for k, numeric in enumerate(self.numeric(variable)):
                if not self.agree(forward[k], numeric):
                    raise GradcheckError(
                        mismatch.report(self, k, variable, forward[k], numeric, mode="computed with forward mode AD")
                    )

    def check_batched(self) -> None:
        """vmap over the seeds of backward equals one seed at a time."""
        from pellucid.transforms.batch import vmap

        variables = [tensor for _, tensor in self.variables]
        for k, output in enumerate(self.outputs()):
            if not is_variable(output):
                continue
            drawn = [self.random.standard_normal(reals(output.array).size) for _ in range(2)]
            seeds = wrap(np.stack([from_reals(seed, output.array) for seed in drawn]))

            def pull(seed: Tensor, output: Tensor = output) -> tuple[Tensor, ...]:
                found = backward.gradients([output], [seed], variables, True, False)
                return tuple(t * 0 if g is None else g for g, t in zip(found, variables, strict=True))

            together = vmap(pull)(seeds)
            for i, seed in enumerate(drawn):
                for whole, (position, _), one in zip(
                    together, self.variables, self.pulled_back(output, seed), strict=True
                ):
                    if not self.agree(reals(whole.array[i]), one):
                        raise GradcheckError(
                            explain(
                                f"the batched gradient of output {k} with respect to input {position} differs from the "
                                "gradient computed one seed at a time",
                                why="the batch rule of an operation used in backward is wrong",
                            )
                        )

    def check_batched_forward(self) -> None:
        """vmap over tangents of forward mode equals one tangent at a time."""
        from pellucid.transforms.batch import vmap

        push = mismatch.forward_function(self)
        for variable, (position, tensor) in enumerate(self.variables):
            drawn = [self.random.standard_normal(reals(tensor.array).size) for _ in range(2)]
            tangents = wrap(np.stack([from_reals(v, tensor.array) for v in drawn]))
            together = vmap(lambda t, variable=variable: push(variable, t))(tangents)
            for i, v in enumerate(drawn):
                alone = push(variable, wrap(from_reals(v, tensor.array)))
                for whole, one in zip(together, alone, strict=True):
                    if not self.agree(reals(whole.array[i]), reals(one.array)):
                        raise GradcheckError(
                            f"the batched forward-mode derivative with respect to input {position} differs from the "
                            "one computed one tangent at a time"
                        )
