"""Forms of a call that PyTorch takes beside the documented one, and inputs that it refuses: found by its own tests."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import pellucid as torch
from pellucid.ops.operation import OPERATIONS, Draw

torch.ops.load_families()
MATRIX = torch.arange(12.0).reshape(3, 4)


# --- names and positions of arguments


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "max", "argmax", "std", "cumsum", "softmax", "sort", "unsqueeze", "all", "norm", "logsumexp"],
)
def test_axis_and_keepdims_are_dim_and_keepdim(name: str) -> None:
    method, function = getattr(MATRIX, name), getattr(torch, name)
    expected = function(MATRIX, dim=1)
    for found in (method(axis=1), function(MATRIX, axis=1)):
        parts = zip(*((y if isinstance(y, tuple) else (y,)) for y in (found, expected)), strict=True)
        assert all(torch.equal(a, b) for a, b in parts)


def test_keepdims() -> None:
    assert MATRIX.sum(axis=0, keepdims=True).shape == (1, 4)
    assert MATRIX.max(axis=0, keepdims=True).values.shape == (1, 4)


BY_NAME = """
linalg.norm(input=m) | linalg.matrix_norm(input=m) | linalg.vector_norm(input=m, axis=0) | linalg.vector_norm(x=m)
linalg.solve_triangular(input=s, B=s, upper=True) | linalg.tensorinv(input=s, ind=1)
linalg.tensorsolve(input=s, other=s[0]) | floor_divide(input=m, other=s[0, 0]) | floor_divide(m, x2=2.0)
heaviside(input=m, values=m) | special.legendre_polynomial_p(x=m, n=2)
isin(elements=m, test_element=1) | isin(element=1, test_elements=m)
tensor_split(m, sections=2) | tensor_split(m, indices=[1], axis=1) | hsplit(m, sections=2) | vsplit(m, indices=(1, 2))
Tensor.tensor_split(m, sections=2) | Tensor.hsplit(m, indices=[1])
"""


@pytest.mark.parametrize("form", [form.strip() for form in BY_NAME.replace("\n", "|").split("|") if form.strip()])
def test_arguments_have_the_names_that_pytorchs_functions_take(form: str) -> None:
    reference = pytest.importorskip("torch")
    found = []
    for lib in (torch, reference):
        scope = {"m": lib.arange(12.0).reshape(3, 4), "s": lib.eye(3) * 2 + lib.ones(3, 3).triu()}
        y = eval(f"lib.{form}", {"lib": lib, **scope})
        found.append([np.asarray(part) for part in (y if isinstance(y, (tuple, list)) else [y])])
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-6)


def test_result_type_by_name() -> None:
    assert torch.result_type(tensor=MATRIX, other=1) is torch.float32


def test_a_wrong_keyword_is_still_refused() -> None:
    with pytest.raises(TypeError, match="divisor"):
        torch.floor_divide(MATRIX, divisor=2)
    with pytest.raises(TypeError, match="axes"):
        MATRIX.sum(axes=1)


def test_scalars_in_front_of_tensors_as_old_optimisers_write_them() -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert torch.add(a, 2, b).tolist() == [7, 10] and a.sub(2, b).tolist() == [-5, -6]
    assert a.clone().add_(0.5, b).tolist() == [2.5, 4]
    assert torch.addcmul(a, 2, b, b).tolist() == [19, 34]
    assert a.clone().addcdiv_(-1, b, b).tolist() == [0, 1]


def test_arithmetic_of_two_numbers_gives_a_tensor() -> None:
    assert torch.add(2, 3).item() == 5 and torch.mul(2, 1.5).item() == 3 and torch.div(1, 2).item() == 0.5
    assert torch.add(True, True).item() is True
    with pytest.raises(TypeError):
        torch.maximum(1, 2)


TWO_TENSORS = ["atan2", "fmax", "heaviside", "hypot", "igamma", "logaddexp", "logical_and", "maximum", "isclose"]


@pytest.mark.parametrize("name", TWO_TENSORS)
def test_a_number_is_no_tensor_where_pytorch_takes_none(name: str) -> None:
    function, x = getattr(torch, name), torch.tensor([1.0, 2.0])
    place = "(values|input|other|end)"
    with pytest.raises(TypeError, match=rf"{name}\(\): argument '{place}' \(position 2\) must be Tensor, not float"):
        function(x, 1.0)
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        function(1, x)
    with pytest.raises(TypeError, match=r"torch\.tensor\(\.\.\.\) makes one"):
        getattr(x, name)(1)
    assert function(x, x).shape == (2,)


def test_a_number_first_where_pytorch_takes_a_tensor() -> None:
    x = torch.tensor([1.0, 2.0])
    for name in ("eq", "lt", "fmod", "copysign", "rsub", "max", "clamp", "positive"):
        with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not float"):
            getattr(torch, name)(1.0, *() if name == "positive" else (x,))
    assert torch.eq(x, 1).tolist() == [True, False] and torch.remainder(3, x).tolist() == [0, 1]
    assert (x < 2).tolist() == [True, False] and torch.xlogy(2, x)[0] == 0


def test_numbers_among_tensors() -> None:
    x = torch.tensor([1.0, 2.0])
    for attempt in (
        lambda: torch.clamp(x, 0, x), lambda: torch.clamp(x, max=1.0, min=x), lambda: torch.addcmul(x, x, 2.0),
        lambda: torch.addcdiv(x, 1.0, x), lambda: torch.lerp(x, 1.0, 0.5), lambda: x.clone().atan2_(1.0),
        lambda: torch.maximum(input=x, other=1),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"must be Tensor, not (int|float)"):
            attempt()


NOT_TENSORS = [
    (lambda F, x: F.linear(x, [1.0]), "linear(): argument 'weight' (position 2) must be Tensor, not list"),
    (lambda F, x: F.relu([1.0]), "relu(): argument 'input' (position 1) must be Tensor, not list"),
    (lambda F, x: F.softmax("x", 0), "softmax(): argument 'input' (position 1) must be Tensor, not str"),
    (lambda F, x: F.dropout(1.0), "dropout(): argument 'input' (position 1) must be Tensor, not float"),
    (lambda F, x: F.mse_loss(x, np.ones(2)), "mse_loss(): argument 'target' (position 2) must be Tensor, not ndarray"),
    (lambda F, x: F.cross_entropy(x, target=[1]), "cross_entropy(): argument 'target' must be Tensor, not list"),
    (lambda F, x: F.layer_norm([1.0], (1,)), "layer_norm(): argument 'input' (position 1) must be Tensor, not list"),
    (lambda F, x: F.max_pool2d([[1.0]], 1), "max_pool2d(): argument 'input' (position 1) must be Tensor, not list"),
    (lambda F, x: F.embedding([0], x), "embedding(): argument 'input' (position 1) must be Tensor, not list"),
]


@pytest.mark.parametrize(("attempt", "words"), NOT_TENSORS, ids=[words.split("(")[0] for _, words in NOT_TENSORS])
def test_a_function_of_neural_networks_names_what_is_no_tensor(attempt: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        attempt(torch.nn.functional, torch.ones(2))
    assert words in str(caught.value) and "torch.tensor(...)" in str(caught.value)
    assert "test_pytorch_forms.py" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "count"),
    [("exp", 1), ("mul", 2), ("signbit", 1), ("heaviside", 2), ("floor_divide", 2), ("cumsum", 1), ("addcmul", 3)],
)
def test_out_is_filled_and_returned(name: str, count: int) -> None:
    """Each way in which an operation may be made: of one tensor, of two, with params, of any number."""
    inputs = [torch.tensor([1.0, -2.0, 3.0]) + i for i in range(count)]
    params = (0,) if name == "cumsum" else ()
    expected = getattr(torch, name)(*inputs, *params)
    out = torch.zeros(3, dtype=expected.dtype)
    memory = out.data_ptr()
    assert getattr(torch, name)(*inputs, *params, out=out) is out
    assert torch.equal(out, expected) and out.data_ptr() == memory
    inputs[0].requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        getattr(torch, name)(*inputs, *params, out=out)


def test_an_output_of_another_shape_is_resized_with_a_warning() -> None:
    out = torch.zeros(5)
    with pytest.warns(UserWarning, match=r"resized since it had shape \[5\]"):
        torch.exp(torch.zeros(2), out=out)
    assert out.tolist() == [1, 1]
    halves = torch.zeros(2, dtype=torch.float16)
    assert torch.exp(torch.zeros(2), out=halves).tolist() == [1, 1] and halves.dtype == torch.float16
    assert torch.tensor([1], dtype=torch.int8).add_(1000).item() == -23  # beyond its range: modulo it, as PyTorch


def test_second_order_through_several_results_and_many_inputs() -> None:
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True)
    for f, expected in (
        (lambda x: torch.linalg.slogdet(x)[1], lambda x: torch.linalg.det(x).log()),
        (lambda x: torch.std_mean(x)[0], lambda x: ((x - x.mean()) ** 2).sum().div(3).sqrt()),
        (lambda x: torch.einsum("ij,jk,ki->", x, x, x), lambda x: (x @ x @ x).trace()),
    ):
        second = []
        for function in (f, expected):
            (first,) = torch.autograd.grad(function(x), x, create_graph=True)
            second.append(torch.autograd.grad((first * first).sum(), x)[0])
        assert torch.allclose(*second, rtol=1e-10)


def test_functions_of_whole_numbers_give_the_default_float() -> None:
    whole = torch.tensor([1, 2])
    assert {f(whole).dtype for f in (torch.exp, torch.sqrt, torch.sigmoid)} == {torch.float32}
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.exp(whole).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_very_many_numbers_are_not_all_remembered() -> None:
    from pellucid.core import record

    x = torch.ones(2)
    for i in range(1, 5000):
        assert (x * (i + 0.5)).tolist() == [i + 0.5] * 2
    assert 0 < len(record.NUMBERS32) <= 4096


def test_every_operation_can_be_pickled_by_name() -> None:
    for operation in OPERATIONS.values():
        assert pickle.loads(pickle.dumps(operation.function)) is operation.function
    assert copy.deepcopy(torch.ops.aten.relu)(torch.tensor(-1.0)) == 0


# --- writing


def test_real_and_imag_can_be_assigned() -> None:
    z = torch.zeros(2, dtype=torch.complex64)
    z.real = torch.tensor([1.0, 2.0])
    z.imag = 3
    assert z.tolist() == [1 + 3j, 2 + 3j]
    with pytest.raises(RuntimeError, match="non-complex"):
        torch.zeros(2).imag = 1


@pytest.mark.parametrize("fill", [
    lambda out: torch.arange(0, 4, out=out), lambda out: torch.linspace(0, 3, 4, out=out),
    lambda out: torch.range(0, 3, out=out),
])  # fmt: skip
def test_a_range_fills_an_output_of_another_shape(fill: Any) -> None:
    x = torch.zeros(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fill(x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]


def test_an_index_tensor_takes_values_of_its_own_dtype_only() -> None:
    x = torch.ones(3)
    for index in (torch.tensor([0]), [1], torch.tensor([True, True, False])):
        with pytest.raises(RuntimeError, match="dtypes match"):
            x[index] = torch.zeros(2 if isinstance(index, torch.Tensor) and index.dtype == torch.bool else 1).double()
    x[x > 0] = torch.tensor(5.0).double()  # one value for a mask fits any
    x[0] = torch.tensor(7).long()
    assert x.tolist() == [7, 5, 5]


# --- results


def test_cat_counts_the_dtype_of_an_empty_vector() -> None:
    assert torch.cat([torch.tensor([1]), torch.tensor([])]).dtype == torch.float32
    assert torch.cat([torch.zeros(0), torch.zeros(0)], dim=1).shape == (0,)


def test_linspace_and_logspace_of_integers_begin_at_whole_numbers() -> None:
    assert torch.linspace(4.3, -3, 5, dtype=torch.int16).tolist() == [4, 2, 0, -1, -3]
    assert torch.logspace(0, 3.7, 5, dtype=torch.int64).tolist() == [1, 5, 31, 177, 1000]


def test_einsum_of_one_operand_sums_integers_as_sum_does() -> None:
    x = torch.ones(3, 3, dtype=torch.int16)
    assert torch.einsum("ij->i", x).dtype == torch.int64 and torch.einsum("ij,jk->ik", x, x).dtype == torch.int16
    assert torch.einsum("ij,k->k", x, x[0]).dtype == torch.int64


def test_addr_of_truth_values() -> None:
    yes, no = torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)
    assert (
        torch.addr(torch.zeros(2, 2, dtype=torch.bool), yes, torch.tensor([True, False])).tolist()
        == [[True, False]] * 2
    )
    assert not torch.addr(torch.zeros(2, 2, dtype=torch.bool), no, yes).any()


def test_acosh_left_of_its_domain_has_pytorchs_gradient() -> None:
    x = torch.tensor([-2.0, 2.0], requires_grad=True)
    torch.acosh(x).sum().backward()
    assert np.allclose(x.grad.numpy(), 1 / np.sqrt(3))


def test_a_negative_number_to_a_complex_power() -> None:
    exponent = torch.tensor([0.3 + 0.2j, -1 + 0.5j], dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: torch.pow(-1, e), (exponent,))


def test_a_complex_number_is_true_unless_both_its_parts_are_zero() -> None:
    assert torch.tensor([1j, 0, 1, complex(0, float("nan"))]).bool().tolist() == [True, False, True, True]


def test_doubles_become_halves_by_way_of_single_precision() -> None:
    between = 1 + 2**-11 + 2**-40  # just above the middle of two halves: as a float it is the middle
    assert torch.tensor([between], dtype=torch.float64).half().item() == 1.0


def test_large_integers_become_floats() -> None:
    assert torch.tensor(2**65, dtype=torch.float32).item() == 2.0**65
    assert torch.tensor([0, 2**64], dtype=torch.bool).tolist() == [False, True]


def test_a_long_list_of_lists_is_one_index() -> None:
    assert MATRIX[[[0, 1]] * 40].shape == (40, 2, 4)
    assert MATRIX[[range(2), range(1, 3)]].tolist() == [1, 6]  # a short one is two indices


def test_an_index_that_names_nothing_has_any_rank() -> None:
    x, source = torch.zeros(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    nothing = torch.zeros(0, dtype=torch.int64)
    for y in (x.scatter(0, nothing, source), x.scatter_add(0, nothing, source), x.scatter(0, nothing, 2.0)):
        assert y.tolist() == [[0, 0], [0, 0]]
    x.scatter_reduce(0, nothing, source, "amax").sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]] and source.grad.tolist() == [[0, 0], [0, 0]]


def test_repeat_interleave_of_counts() -> None:
    assert torch.repeat_interleave(torch.tensor([1, 2, 3])).tolist() == [0, 1, 1, 2, 2, 2]


def test_foreach() -> None:
    weights = [torch.ones(2), torch.ones(1)]
    assert [x.tolist() for x in torch._foreach_add(weights, [1.0, 2.0])] == [[2, 2], [3]]
    assert torch._foreach_lerp_(weights, [torch.zeros(2), torch.zeros(1)], 0.25) is weights
    assert [x.tolist() for x in weights] == [[0.75, 0.75], [0.75]]
    assert [x.item() for x in torch._foreach_norm(weights, 1)] == [1.5, 0.75]
    assert torch._foreach_addcdiv(weights, weights, weights, torch.tensor([1.0, 2.0]))[1].item() == 2.75
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_mul(weights, [1.0])


# --- refusals: PyTorch's class and words

REFUSED = [
    (lambda: torch.tensor([1j]) < torch.tensor([1j]), NotImplementedError, "not implemented for complex"),
    (lambda: torch.tensor([1.0]) & torch.tensor([1.0]), NotImplementedError, "not implemented for floating"),
    (lambda: MATRIX[0.0:2.0], TypeError, "slice indices must be integers"),
    (lambda: MATRIX["a"], TypeError, r"new\(\): invalid data type 'str'"),
    (lambda: MATRIX[0, "b"], TypeError, "'b' is no index of a tensor"),
    (lambda: torch.atleast_1d([1.0]), TypeError, "expected Tensor as element 0 in argument 0, but got float"),
    (lambda: torch.atleast_2d([MATRIX, 2]), TypeError, "expected Tensor as element 1 in argument 0, but got int"),
    (lambda: torch.zeros(3, 0)[:, [0]], IndexError, "out of bounds for dimension with size 0"),
    (lambda: MATRIX.index_fill(0, torch.tensor([0]), 1j), RuntimeError, "complex Scalar"),
    (lambda: MATRIX.take_along_dim(torch.tensor([[True]]), 0), RuntimeError, "dtype of indices should be Long"),
    (lambda: torch.rot90(torch.ones(3)), RuntimeError, "expected total dims >= 2"),
    (lambda: MATRIX.roll((1, 2)), RuntimeError, "shifts and dimensions must align"),
    (lambda: MATRIX.narrow(0, torch.tensor(True), 1), RuntimeError, "0-dim integral"),
    (lambda: MATRIX.movedim((0, 0), (0, 1)), RuntimeError, "repeated dim in `source`"),
    (lambda: MATRIX.flip(), TypeError, "dims"),
    (lambda: torch.meshgrid(torch.ones(1), torch.ones(1).long()), RuntimeError, "same dtype"),
    (lambda: torch.linspace(0, 1, 3, dtype=torch.bool), NotImplementedError, "not implemented for 'Bool'"),
    (lambda: torch.linspace(0, 1j, 3, dtype=torch.float32), RuntimeError, "safely cast"),
    (lambda: torch.tensor_split(torch.arange(4), torch.tensor(1.5)), RuntimeError, "dtype of long"),
    (lambda: torch.zeros(4, 5).view(torch.float64), RuntimeError, r"size\(-1\) must be divisible by 2"),
    (lambda: torch.tensor(1.0).view(torch.int16), RuntimeError, r"dim\(\) cannot be 0"),
    (lambda: float(torch.ones(2)), ValueError, "only one element tensors can be converted"),
    (lambda: bool(torch.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: int(torch.tensor([1 + 1j])), RuntimeError, "cannot be converted"),
    (lambda: torch.ones(2, 3) + torch.ones(2), RuntimeError, "The size of tensor a"),
    (lambda: torch.zeros(2, 3).index_add(0, torch.tensor([5]), torch.ones(1, 3)), RuntimeError, "out of bounds"),
    (lambda: -torch.tensor([True]), RuntimeError, "use the `~` or `logical_not"),
    (lambda: torch.vstack([]), RuntimeError, "non-empty TensorList"),
    (lambda: torch.broadcast_shapes(1, -12), ValueError, "negative length"),
    (lambda: torch.ones(7).unfold(0, -1, 1), RuntimeError, "size is -1 but must be >= 0"),
    (lambda: torch.nn.functional.multi_margin_loss(MATRIX, MATRIX), RuntimeError, r"got \[3, 4\]"),
    (lambda: torch.nn.functional.multilabel_margin_loss(MATRIX, MATRIX[0]), RuntimeError, "inconsistent target size"),
    (lambda: torch.nn.functional.multi_margin_loss(MATRIX, torch.ones(3)), RuntimeError, "scalar type Long but found"),
    (lambda: torch.masked_select(MATRIX, MATRIX), RuntimeError, "expected BoolTensor for mask"),
    (lambda: torch.ones(2).masked_fill(torch.tensor(True), torch.tensor(1j)), RuntimeError, "without overflow"),
    (lambda: torch.unravel_index(torch.tensor([1]), torch.tensor([2, 2])), TypeError, "int or sequence of ints"),
    (lambda: MATRIX.narrow(0, 1.5, 1), TypeError, "'start' must be int or Tensor, not float"),
    (lambda: torch.cartesian_prod(2), TypeError, "expected Tensor as element 0 in argument 0, but got int"),
    (lambda: torch.isin(MATRIX, True), RuntimeError, r"Unsupported input type encountered for isin\(\): Bool"),
    (lambda: torch.tensor_split(MATRIX, True), TypeError, "int, tuple or Tensor, not bool"),
    (lambda: torch.histogram(MATRIX, True), TypeError, "'bins' must be int or Tensor, not bool"),
]


@pytest.mark.parametrize(("attempt", "kind", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_refused_in_pytorchs_words(attempt: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        attempt()


def test_two_zero_factors_in_one_place_have_no_second_order() -> None:
    source = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    y = torch.ones(1, dtype=torch.float64).scatter_reduce(0, torch.tensor([0, 0]), source, "prod")
    assert torch.autograd.grad(y.sum(), source, retain_graph=True)[0].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="Double backward is unsupported"):
        torch.autograd.grad(y.sum(), source, create_graph=True)


# --- many gradients at once


@pytest.mark.parametrize("path", sorted(OPERATIONS))
def test_batched_gradients_are_a_loop(path: str) -> None:
    operation = OPERATIONS[path]
    for sample in list(operation.samples(Draw(0, operation.domain)))[:3]:
        variables = [x for x in _tensors([sample.args, list(sample.kwargs.values())]) if x.requires_grad]
        torch.manual_seed(0)
        outputs = [y for y in _tensors(operation.function(*sample.args, **sample.kwargs)) if y.requires_grad]
        if not variables or not outputs or not outputs[0].is_floating_point():
            continue
        weights = torch.randn(3, *outputs[0].shape, dtype=outputs[0].dtype)
        one = [torch.autograd.grad(outputs[0], variables, w, True, allow_unused=True) for w in weights]
        many = torch.autograd.grad(outputs[0], variables, weights, True, allow_unused=True, is_grads_batched=True)
        for found, expected in zip(many, zip(*one, strict=True), strict=True):
            if found is not None:
                rows = [x.detach().numpy() if x is not None else np.zeros(found.shape[1:]) for x in expected]
                assert np.allclose(found.detach().numpy(), np.stack(rows), 1e-8, 1e-10, equal_nan=True)


def _tensors(tree: Any) -> list[Any]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [x for part in tree for x in _tensors(part)] if isinstance(tree, (list, tuple)) else []


# --- names that programs find beside the documented ones


CHECKS = {
    "_check": ("_check", True), "false": ("_check", False), "number": ("_check", 1), "index": ("_check_index", False),
    "value": ("_check_value", False), "type": ("_check_type", False), "size": ("_check_is_size", -1),
    "right size": ("_check_is_size", 3), "not implemented": ("_check_not_implemented", False),
    "all": ("_check_tensor_all", [True, True]), "not all": ("_check_tensor_all", [True, False]),
    "no tensor": ("_check_tensor_all", True), "a tensor": ("_check", [True]), "floats": ("_check_tensor_all", [1.0]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("message", [None, lambda: "so it is", "a text"])
@pytest.mark.parametrize("case", CHECKS)
def test_checks_raise_what_pytorchs_raise(case: str, message: Any) -> None:
    reference = pytest.importorskip("torch")
    name, given = CHECKS[case]
    found = []
    for lib in (torch, reference):
        try:
            getattr(lib, name)(lib.tensor(given) if isinstance(given, list) else given, message)
            found.append(None)
        except Exception as error:
            found.append((type(error), str(error).split(". (")[0].split("\n")[0].rstrip(".")))
    assert found[0] == found[1]


def test_settings_of_the_compiler_are_made_for_a_while() -> None:
    from pellucid._dynamo import config
    from pellucid._inductor import config as inductor

    with config.patch(cache_size_limit=64), config.patch("verbose", True), inductor.patch({"debug": True, "new": 1}):
        assert (config.cache_size_limit, config.verbose, inductor.debug, inductor.new) == (64, True, True, 1)
    assert (config.cache_size_limit, config.verbose, inductor.debug) == (8, False, False)
    assert not hasattr(inductor, "new")

    @config.patch(recompile_limit=3)
    def inside() -> int:
        return config.recompile_limit

    assert (inside(), config.recompile_limit) == (3, 8)
    with config.patch(recompile_limit=3):
        config.suppress_errors = True  # another setting, made meanwhile: it stays
    stayed, config.suppress_errors = config.suppress_errors, False
    assert stayed


def test_typed_tensors_take_a_size_by_name() -> None:
    assert torch.ByteTensor(size=(2, 3)).shape == (2, 3)
    assert torch.FloatTensor(size=[4]).dtype is torch.float32


def test_second_homes_of_names() -> None:
    with torch.as_torch() as lib:
        from torch.cuda.amp.grad_scaler import GradScaler

        assert lib.torch is lib and lib.functional.F is lib.nn.functional and GradScaler is lib.amp.GradScaler
        assert lib._C._LinAlgError is lib.linalg.LinAlgError and isinstance(lib.Tensor, lib._C._TensorMeta)
        parts = [lib.arange(3.0), lib.ones(2, 2)]
        flat = lib._utils._flatten_dense_tensors(parts)
        assert all(map(lib.equal, lib._utils._unflatten_dense_tensors(flat, parts), parts))
