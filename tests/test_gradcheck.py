"""gradcheck, gradgradcheck and the numeric helpers: right gradients pass, each kind of mistake gets its name."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest

import pellucid as torch
from pellucid.core.function import Function
from pellucid.core.primitive import TABLE, edges_of
from pellucid.errors import GradcheckError
from pellucid.transforms.check import epsilon_sweep, gradcheck, gradgradcheck, gradient_check, numeric_gradient

TIGHT = {"eps": 1e-6, "atol": 1e-6, "rtol": 1e-5}


def leaf(*values, shape=None, dtype=torch.float64):
    array = np.array(values, dtype=float)
    return torch.tensor(array.reshape(shape) if shape else array, dtype=dtype, requires_grad=True)


def spread(*shape):
    """Distinct values that no rule maps onto each other."""
    size = int(np.prod(shape))
    return leaf(*(np.linspace(0.3, 1.7, size) ** 1.3 + 0.01 * np.arange(size) ** 2), shape=shape)


def custom(forward, backward):
    """A function of our own with a derivative of our own, right or wrong."""

    class Custom(Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Custom.apply


# --- what is right passes


def test_right_gradients_pass():
    x, y = spread(2, 3), spread(3)
    assert gradcheck(lambda x, y: x * y + x.exp(), (x, y), **TIGHT)
    assert gradgradcheck(lambda x, y: x * y + x.exp(), (x, y), **TIGHT)


def test_fast_mode_agrees():
    x, y = spread(2, 3), spread(3)
    assert gradcheck(lambda x, y: (x * y).sin(), (x, y), fast_mode=True, **TIGHT)
    wrong = custom(lambda a: a.sin(), lambda g, a: g * a.cos() * 1.01)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(wrong, (x,), fast_mode=True)


def test_a_list_of_inputs_and_outputs():
    x, y = spread(2), spread(2)
    assert gradcheck(lambda x, y: (x * y, x - y, 3), [x, y])


def test_inputs_that_do_not_require_grad_are_left_alone():
    x, c = spread(2), torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert gradcheck(lambda x, c, n: x * c * n, (x, c, 2.0))


def test_no_input_requires_grad():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, torch.ones(2, dtype=torch.float64))


def test_inputs_and_their_grad_stay_as_they_were():
    x = spread(3)
    before = x.array.copy()
    gradcheck(lambda x: x.exp(), x)
    assert np.array_equal(x.array, before)
    assert x.grad is None
    with pytest.raises(GradcheckError):
        gradcheck(custom(lambda a: a.exp(), lambda g, a: g), (x,))
    assert np.array_equal(x.array, before)


def test_a_closed_over_parameter_is_checked():
    w = spread(3)
    assert gradcheck(lambda w_: (w * w).sum(), (w,))


def test_empty_and_scalar_inputs():
    assert gradcheck(lambda x: x.exp(), torch.zeros(0, 3, dtype=torch.float64, requires_grad=True))
    assert gradcheck(lambda x: x.exp(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True))


def test_complex_inputs():
    z = torch.tensor(np.array([1 + 2j, -0.5 + 0.3j]), requires_grad=True)
    assert gradcheck(lambda z: z * z, (z,), **TIGHT)
    with pytest.raises(GradcheckError, match=r"\.(real|imag)"):
        gradcheck(custom(lambda a: a * a, lambda g, a: g * 2 * a), (z,))  # not conjugated


def test_gradients_of_gradients_may_be_given_a_seed():
    x, g = spread(3), spread(3)
    assert gradgradcheck(lambda x: x.sin(), (x,), (g,), **TIGHT)
    assert gradgradcheck(lambda x: x.sin(), (x,), gen_non_contig_grad_outputs=True, **TIGHT)


def test_a_linear_function_has_no_second_derivative_to_check():
    assert gradgradcheck(lambda x: x * 3.0, (spread(3),))


def test_overlapping_memory_is_refused():
    base = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    x = torch.tensor(0.0, dtype=torch.float64)
    x.array = np.broadcast_to(base.array, (2, 3))
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, (x.requires_grad_(),))


def test_raise_exception_false():
    assert gradcheck(custom(lambda a: a.exp(), lambda g, a: g), (spread(2),), raise_exception=False) is False


# --- the diagnosis


def said(function, *inputs, **options) -> str:
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, inputs, **options)
    return str(caught.value)


def test_the_message_names_input_index_and_values():
    def backward(g, a, b):
        keep = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
        return g * b, g * a * keep

    text = said(custom(lambda a, b: a * b, backward), spread(2, 2), leaf(1, 2, 3, 4, shape=(2, 2)))
    assert text.splitlines()[0] == "Jacobian mismatch for output 0 with respect to input 1"
    assert "[1, 1] of input 1" in text
    assert "analytical 0, numerical" in text
    assert "largest absolute error" in text
    assert "largest relative error 1" in text


@pytest.mark.parametrize(
    ("factor", "told"),
    [(2.0, "2 × numerical"), (0.5, "1/2 × numerical"), (-1.0, "sign"), (1 / 3, "1/3 × numerical"), (-2.0, "-2 ×")],
)
def test_constant_factor(factor, told):
    assert told in said(custom(lambda a: a.sin(), lambda g, a: g * a.cos() * factor), spread(4))


def test_transposed_gradient():
    weight = torch.tensor(np.arange(9.0).reshape(3, 3) ** 1.2, dtype=torch.float64)
    text = said(custom(lambda a: (a * weight).sum(), lambda g, a: g * weight.transpose(0, 1)), spread(3, 3))
    assert "transposed" in text


def test_transposed_jacobian():
    weight = torch.tensor(np.arange(9.0).reshape(3, 3) ** 1.2, dtype=torch.float64)
    text = said(custom(lambda a: weight @ a, lambda g, a: weight @ g), spread(3))
    assert "transposed" in text
    assert "Jᵀ·g" in text


def test_missing_sum_over_a_broadcast_dimension():
    x = torch.tensor(np.arange(12.0).reshape(4, 3), dtype=torch.float64)
    text = said(custom(lambda b: x * b, lambda g, b: (g * x)[0]), spread(3))
    assert "missing sum over a broadcast dimension" in text


def test_mean_where_a_sum_belongs():
    x = torch.tensor(np.arange(12.0).reshape(4, 3), dtype=torch.float64)
    text = said(custom(lambda b, x: (x * b).sum(), lambda g, b, x: ((g * x).sum(0) * 0.25, None)), spread(3), x)
    assert "1/4" in text
    assert "mean" in text


def test_detached():
    text = said(lambda x: x.detach() * 1.0, spread(2))
    assert "the graph is cut" in text
    assert "detach of" in text or "detach" in text


def test_zero_gradient_of_a_custom_function():
    assert "zero or missing" in said(custom(lambda a: a.sin(), lambda g, a: None), spread(2))


def test_swapped_gradients():
    text = said(custom(lambda a, b: a * b * b, lambda g, a, b: (g * a * b * 2, g * b * b)), spread(3), leaf(2, 5, 9))
    assert "swapped" in text
    assert "gradient of input 1, returned for input 0" in text


def test_outside_the_domain_there_is_no_kink_but_no_function():
    x = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert "not defined there" in said(lambda x: x.log(), x)
    edge = said(lambda x: (x + 1).sqrt(), x)
    assert "edge of the function's domain: below it" in edge and "kink" not in edge


def test_a_step_that_is_too_large_is_named_alone():
    text = said(lambda x: (x * 1e7).sin(), torch.tensor([0.7, 0.9], dtype=torch.float64, requires_grad=True))
    assert "too large (truncation)" in text and "factor" not in text and "kink" not in text


def test_a_gradient_that_is_not_conjugated():
    class Squared(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    z = torch.tensor([1 + 2j, 3j], dtype=torch.complex128, requires_grad=True)
    assert "conjugated: " in said(Squared.apply, z)
    assert "conjugated: " in said(lambda z: Squared.apply(z).real, z)


def test_kink():
    text = said(lambda x: x.relu() * 3.0, leaf(0.0, 1.0))
    assert "kink" in text
    assert "the slope is 0 from the left and 3 from the right" in text


def test_step_too_large():
    assert "too large (truncation)" in said(lambda x: (x * 40.0).sin(), spread(2), eps=1e-2)


def test_step_too_small():
    text = said(lambda x: x * 1.0 + 1e6, spread(2), eps=1e-9)
    assert "too small (cancellation)" in text


def test_non_determinism_is_named():
    draws = np.random.default_rng(0)
    text = said(lambda x: x * float(draws.random()), spread(2))
    assert "not reentrant" in text
    assert "non-deterministic" in text
    assert "Dropout" in text


def test_non_deterministic_backward():
    draws = np.random.default_rng(0)
    noisy = custom(lambda a: a * 2.0, lambda g, a: g * (2.0 + 1e-9 * float(draws.random())))
    assert "Backward is not reentrant" in said(noisy, spread(2))
    assert gradcheck(noisy, (spread(2),), nondet_tol=1e-6)


def test_an_unknown_mistake_is_called_a_wrong_rule():
    text = said(custom(lambda a: a.sin(), lambda g, a: g * a.exp()), spread(3))
    assert "rule" in text


def test_forward_mode_gives_a_third_opinion():
    with wrong_sine():
        text = said(lambda x: x.sin(), spread(3))
    assert "forward mode agrees with the differences: the backward rule is at fault" in text


@contextmanager
def wrong_sine():
    """A row whose backward is wrong while its forward mode stays right."""
    row = TABLE["sin"]
    before, wrong = (row.rules, row.edges), (lambda g, a: g * torch.cos(a) * 3,)
    _exchange(row, wrong, edges_of(wrong))
    try:
        yield
    finally:
        _exchange(row, *before)


def _exchange(row, rules, edges):
    object.__setattr__(row, "rules", rules)
    object.__setattr__(row, "edges", edges)


def test_forward_mode_batched_and_both():
    x, y = spread(2, 3), spread(3)
    every = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda x, y: (x * y).sin() @ y, (x, y), check_grad_dtypes=True, **every, **TIGHT)
    assert gradgradcheck(lambda x, y: (x * y).sin() @ y, (x, y), check_fwd_over_rev=True, check_batched_grad=True)


def test_wrong_forward_mode_is_found():
    class Skewed(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            ctx.save_for_forward(a)
            return a * a

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, t):
            return t * 3 * ctx.saved_tensors[0]

    text = said(Skewed.apply, spread(3), check_forward_ad=True)
    assert "computed with forward mode AD" in text
    assert "3/2 × numerical" in text


# --- float32: mission V3


def test_float32_warns_and_fails_with_the_reason():
    # 3x² at this x is 1.7732; the difference quotient in float32 over 1e-6 is 1.7881 = 30 units of 2^-24
    x = torch.tensor([float(np.sqrt(np.float64(1.7732) / 3))], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"), pytest.raises(GradcheckError) as caught:
        gradcheck(lambda x: x * x * x, (x,))
    text = str(caught.value)
    assert "analytical 1.7732, numerical 1.7881" in text
    assert "float32 is the reason" in text


def test_float64_of_the_same_passes():
    x = torch.tensor([float(np.sqrt(1.7732 / 3))], dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradcheck(lambda x: x * x * x, (x,), **TIGHT)


# --- V1, V2, V4, V5


def test_numeric_gradient_central_and_forward():
    x = leaf(1.0, 2.0)
    cube = lambda x: (x * x * x).sum()
    central = numeric_gradient(cube, x, 1e-4).array
    forward = numeric_gradient(cube, x, 1e-4, kind="forward").array
    assert np.abs(central - [3, 12]).max() < 1e-7
    assert 1e-5 < np.abs(forward - [3, 12]).max() < 1e-2
    with pytest.raises(ValueError, match="central"):
        numeric_gradient(cube, x, kind="backward")
    with pytest.raises(RuntimeError, match="must be one number"):
        numeric_gradient(lambda x: x * 2, x)


def test_gradient_check_returns_loss_error_and_both_gradients():
    w = leaf(0.5, -1.5)
    before = w.array.copy()
    loss, error, analytic, numeric = gradient_check(lambda: (w * w).sum(), w)
    assert loss == pytest.approx(2.5)
    assert error < 1e-8
    assert np.allclose(analytic.array, [1, -3])
    assert np.allclose(numeric.array, [1, -3])
    assert np.array_equal(w.array, before)
    assert w.grad is None


def test_gradient_check_formula_and_restoring_after_a_failure():
    w = leaf(1.0)
    wrong = custom(lambda a: a * a, lambda g, a: g * a)  # half the gradient: |1-2| / (1+2)
    assert gradient_check(lambda w: wrong(w).sum(), w).max_relative_error == pytest.approx(1 / 3, rel=1e-5)
    calls = []

    def fails_later():
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("third call")
        return (w * w).sum()

    with pytest.raises(KeyError):
        gradient_check(fails_later, w)
    assert w.array.tolist() == [1.0]


def test_epsilon_sweep_has_truncation_on_one_side_and_cancellation_on_the_other():
    x = leaf(0.7)
    sweep = epsilon_sweep(lambda x: x.exp().sum(), x)
    errors = dict(zip(sweep.steps, sweep.central, strict=True))
    assert 1e-7 < sweep.best < 1e-3
    assert errors[1e-2] / errors[1e-3] == pytest.approx(100, rel=0.1)  # O(ε²)
    assert errors[1e-10] > 100 * errors[sweep.best]
    assert max(errors[1e-4], errors[1e-5], errors[1e-6]) < 1e-8  # the useful range in float64
    text = str(sweep)
    assert "truncation" in text.splitlines()[1]
    assert "cancellation" in text.splitlines()[-1]
    assert "best" in text


@pytest.mark.parametrize("point", [-2.0, 0.3, 4.0])
def test_log_sigmoid(point):
    x = leaf(point)
    assert gradcheck(lambda x: x.sigmoid().log(), (x,), **TIGHT)
    sweep = epsilon_sweep(lambda x: x.sigmoid().log().sum(), x)
    assert sweep.central[-1] > sweep.central[3]  # 1e-10 is worse than 1e-5


# --- PyTorch's own checker agrees


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_same_verdict_as_pytorch(torch, factor):
    class Theirs(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos() * factor

    x = torch.tensor([0.3, 0.9], dtype=torch.float64, requires_grad=True)
    theirs = torch.autograd.gradcheck(Theirs.apply, (x,), raise_exception=False)
    ours = gradcheck(custom(lambda a: a.sin(), lambda g, a: g * a.cos() * factor), (spread(2),), raise_exception=False)
    assert ours == theirs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_backward_ad": False}, "at least one of"),
        ({"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True}, "check_batched_grad"),
        ({"check_batched_forward_grad": True}, "check_batched_forward_grad"),
    ],
)
def test_checking_nothing_is_refused(options, message):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=message):
        gradcheck(lambda x: x * 2, x, **options)


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize(
    ("branch", "message"),
    [
        (lambda x: torch.cat([x, x]), "same shape"),
        (lambda x: x.float(), "same dtype"),
        (lambda x: (x, x), "same number"),
    ],
)
def test_outputs_whose_form_depends_on_values_are_refused(branch, message, fast_mode):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=message):
        gradcheck(lambda x: branch(x) if (x >= 1).all() else x, x, fast_mode=fast_mode)


def test_a_tolerance_for_random_results_holds_for_values_too():
    generator = np.random.default_rng(0)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: x * 2 + generator.standard_normal() * 1e-13, x, nondet_tol=1e-8)
