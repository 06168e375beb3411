"""nn.utils against PyTorch's: clipping, vectors of parameters, parametrizations, norms as hooks, pruning, fusion.

A story does something with one of the two libraries and returns what it saw; both must have seen the same.
"""

import copy
import importlib
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import pellucid
from likeness import alike, plain
from pellucid.nn.utils import clip_grad

STORIES = {}


def story(function: Any) -> Any:
    """Tell a story with both libraries."""
    STORIES[function.__name__.replace("_", " ")] = function
    return function


def refused(function: Any, *args: Any, **kwargs: Any) -> str:
    """The class of the error that a call raises, and the beginning of its text."""
    try:
        return f"no error: {function(*args, **kwargs)!r}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:30]}"


def keys(module: Any) -> list[str]:
    return list(module.state_dict())


def linear(torch: Any, *sizes: int) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(*(sizes or (3, 2)))


def with_gradients(torch: Any) -> list[Any]:
    values = ([3.0, 4.0], [[-12.0, 0.5]], 2.0)
    made = [torch.nn.Parameter(torch.zeros(np.shape(value))) for value in values] + [torch.nn.Parameter(torch.ones(2))]
    for parameter, value in zip(made, values, strict=False):
        parameter.grad = torch.tensor(value)
    return made


# --- clipping


@story
def clipping_by_norm(torch: Any) -> Any:
    seen = []
    for order in (2.0, 1, 3, float("inf"), "inf"):
        for limit in (1.0, 100.0, 0.0):
            parameters = with_gradients(torch)
            total = torch.nn.utils.clip_grad_norm_(parameters, limit, order, foreach=False)
            seen.append([total, [p.grad for p in parameters[:3]]])
    return seen


@story
def norms(torch: Any) -> Any:
    u = torch.nn.utils
    one = with_gradients(torch)[0]
    return [
        u.get_total_norm([p.grad for p in with_gradients(torch)[:3]]), u.get_total_norm([]), u.clip_grad_norm_([], 1.0),
        u.clip_grad_norm_((p for p in with_gradients(torch)), 1.0), u.clip_grad_norm_(one, 2.0), one.grad,
        u.get_total_norm([torch.ones(2, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]),
        u.get_total_norm([torch.tensor([3.0 + 4.0j])]),
        u.get_total_norm([torch.full((4,), 0.5, dtype=torch.bfloat16)]),
    ]  # fmt: skip


def test_the_norm_of_a_large_gradient_loses_the_digits_that_pytorch_loses(monkeypatch):
    torch = pytest.importorskip("torch")
    numbers = np.abs(np.random.default_rng(0).normal(size=(1 << 20) + 3)).astype(np.float32)
    exact = np.linalg.norm(numbers.astype(np.float64))
    theirs, mine = (float(lib.nn.utils.get_total_norm([lib.from_numpy(numbers)])) for lib in (torch, pellucid))
    assert abs(mine / exact - 1) < 1e-3
    if torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
        assert abs(theirs / exact - 1) > 1e-6 and mine == pytest.approx(theirs, rel=2e-7)
    monkeypatch.setattr(type(clip_grad.squares_loop), "fits", lambda self, *arrays: False)
    assert float(pellucid.nn.utils.get_total_norm([pellucid.from_numpy(numbers)])) == mine


@story
def norms_that_are_not_finite(torch: Any) -> Any:
    seen = []
    for bad in (float("nan"), float("inf")):
        parameters = with_gradients(torch)
        parameters[1].grad[0, 0] = bad
        seen.append(refused(torch.nn.utils.clip_grad_norm_, parameters, 1.0, error_if_nonfinite=True))
        seen.append(plain(parameters[0].grad))
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        seen.append(repr(parameters[0].grad))
    return seen


@story
def clipping_by_value(torch: Any) -> Any:
    parameters = with_gradients(torch)
    torch.nn.utils.clip_grad_value_(parameters, 2.5)
    other = with_gradients(torch)
    torch.nn.utils.clip_grads_with_norm_(other, 2.0, torch.tensor(10.0))
    return [p.grad for p in parameters[:3]], [p.grad for p in other[:3]]


@story
def vectors(torch: Any) -> Any:
    layer = linear(torch)
    vector = torch.nn.utils.parameters_to_vector(layer.parameters())
    torch.nn.utils.vector_to_parameters(torch.arange(8.0), layer.parameters())
    bad = refused(torch.nn.utils.vector_to_parameters, [1.0], layer.parameters())
    return vector, vector.requires_grad, layer.state_dict(), isinstance(layer.weight, torch.nn.Parameter), bad


# --- parametrizations


def parts(torch: Any) -> Any:
    class Symmetric(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    class Halves(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a + b

        def right_inverse(self, x: Any) -> Any:
            return x / 2, x / 2

    class Square(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * x

    class First(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:1]

    return Symmetric(), Halves(), Square(), First()


@story
def a_parametrization(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    symmetric, _, square, _ = parts(torch)
    layer = linear(torch, 3, 3)
    weight = layer.weight
    p.register_parametrization(layer, "weight", symmetric)
    p.register_parametrization(layer, "weight", square)
    layer(torch.ones(3)).sum().backward()
    seen = [
        repr(layer), type(layer).__name__, keys(layer), layer.weight, layer.parametrizations.weight.original.grad,
        layer.parametrizations.weight.original is weight, p.is_parametrized(layer), p.is_parametrized(layer, "bias"),
        p.type_before_parametrizations(layer).__name__, len(layer.parametrizations.weight),
        isinstance(layer, torch.nn.Linear), [name for name, _ in layer.named_parameters()],
        refused(setattr, layer, "weight", torch.ones(3, 3)),
    ]  # fmt: skip
    p.remove_parametrizations(layer, "weight")
    return [*seen, repr(layer), type(layer).__name__, keys(layer), layer.weight, layer.weight is weight]


@story
def assigning_a_parametrized_weight(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    symmetric, halves, *_ = parts(torch)
    layer = p.register_parametrization(linear(torch, 3, 3), "weight", symmetric)
    layer.weight = torch.eye(3) * 2
    other = p.register_parametrization(linear(torch, 3, 3), "weight", halves)
    other.weight = torch.ones(3, 3)
    both = other.parametrizations.weight
    return layer.weight, other.weight, keys(other), both.original0, both.is_tensor, both.ntensors


@story
def removing_a_parametrization(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    symmetric, halves, square, _ = parts(torch)
    one = p.remove_parametrizations(
        p.register_parametrization(linear(torch, 3, 3), "weight", square), "weight", leave_parametrized=False
    )
    two = p.register_parametrization(linear(torch, 3, 3), "weight", halves)
    bad = refused(p.remove_parametrizations, two, "weight", leave_parametrized=False)
    p.remove_parametrizations(two, "weight")
    buffered = torch.nn.Module()
    buffered.register_buffer("steps", torch.ones(3, 3))
    p.register_parametrization(buffered, "steps", symmetric)
    inside = keys(buffered)
    p.remove_parametrizations(buffered, "steps")
    return one.state_dict(), bad, two.state_dict(), inside, keys(buffered), refused(p.remove_parametrizations, two, "w")


@story
def parametrizations_that_do_not_fit(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    *_, square, first = parts(torch)
    layer = linear(torch, 3, 3)
    seen = [
        refused(p.register_parametrization, layer, "weight", first),
        refused(p.register_parametrization, layer, "w", first),
    ]
    seen += [type(layer).__name__, layer.state_dict()]
    p.register_parametrization(layer, "weight", square)
    seen.append(refused(p.register_parametrization, layer, "weight", first))
    p.register_parametrization(layer, "weight", first, unsafe=True)
    return [*seen, layer.weight, refused(pickle.dumps, layer)]


@story
def caching(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    layer = p.register_parametrization(linear(torch, 3, 3), "weight", parts(torch)[0])
    with p.cached():
        inside = layer.weight is layer.weight
    return inside, layer.weight is layer.weight


@story
def copies_of_parametrized_modules(torch: Any) -> Any:
    p = torch.nn.utils.parametrize
    layer = p.register_parametrization(linear(torch, 3, 3), "weight", parts(torch)[0])
    other = copy.deepcopy(layer)
    other.weight = torch.zeros(3, 3)
    third = p.transfer_parametrizations_and_params(layer, torch.nn.Linear(3, 3))
    return layer.weight, other.weight, repr(third), third.weight, third.parametrizations.weight.original.shape


@story
def saving_and_loading_parametrized_modules(torch: Any) -> Any:
    z = torch.nn.utils.parametrizations
    one, two = z.weight_norm(linear(torch)), z.weight_norm(torch.nn.Linear(3, 2))
    loaded = two.load_state_dict(one.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = torch.nn.utils.weight_norm(linear(torch)).state_dict()
    return repr(loaded), two.weight, repr(z.weight_norm(torch.nn.Linear(3, 2)).load_state_dict(old))


# --- the parametrizations that come along


@story
def weight_norm(torch: Any) -> Any:
    seen = []
    for dim in (0, 1, None):
        layer = torch.nn.utils.parametrizations.weight_norm(linear(torch), dim=dim)
        layer(torch.tensor([1.0, 2.0, 3.0])).square().sum().backward()
        seen += [repr(layer), layer.state_dict(), layer.weight, [p.grad for p in layer.parameters()]]
    return seen


@story
def weight_norm_of_a_convolution_and_of_an_lstm(torch: Any) -> Any:
    z = torch.nn.utils.parametrizations
    torch.manual_seed(0)
    conv = z.weight_norm(torch.nn.Conv1d(2, 3, 2), dim=1)
    lstm = z.weight_norm(torch.nn.LSTM(2, 3), "weight_hh_l0")
    y = lstm(torch.ones(4, 1, 2))[0]
    y.sum().backward()
    return conv(torch.ones(1, 2, 4)), keys(lstm), y, lstm.parametrizations.weight_hh_l0.original0.grad


@story
def spectral_norm(torch: Any) -> Any:
    seen = []
    for make in (lambda nn: nn.Linear(3, 2), lambda nn: nn.Conv2d(2, 3, 2), lambda nn: nn.ConvTranspose1d(2, 3, 2)):
        torch.manual_seed(0)
        layer = torch.nn.utils.parametrizations.spectral_norm(make(torch.nn), n_power_iterations=2)
        layer.weight.square().sum().backward()
        seen += [layer.state_dict(), layer.weight, layer.parametrizations.weight.original.grad]
        seen.append(layer.eval().weight)
    torch.nn.utils.parametrizations.spectral_norm(layer, "bias", dim=0)
    return [*seen, layer.bias, keys(layer)]


@story
def orthogonal(torch: Any) -> Any:
    seen = []
    for sizes in ((3, 3), (4, 2), (2, 4)):
        for kind in (None, "matrix_exp", "cayley", "householder"):
            layer = torch.nn.utils.parametrizations.orthogonal(linear(torch, *sizes), orthogonal_map=kind)
            layer(torch.ones(sizes[0])).square().sum().backward()
            seen += [keys(layer), layer.weight, layer.parametrizations.weight.original.grad]
    plain = torch.nn.utils.parametrizations.orthogonal(linear(torch, 4, 2), use_trivialization=False)
    before = plain.weight
    plain.weight = before
    return [*seen, before, plain.weight]


@story
def mistakes_with_parametrizations(torch: Any) -> Any:
    z = torch.nn.utils.parametrizations
    return [
        refused(z.orthogonal, linear(torch), orthogonal_map="x"), refused(z.orthogonal, linear(torch), "bias"),
        refused(z.orthogonal, linear(torch), "w"), refused(z.weight_norm, linear(torch), "w"),
        refused(z.spectral_norm, linear(torch), "w"), refused(z.spectral_norm, linear(torch), n_power_iterations=0),
        refused(z.spectral_norm, linear(torch), dim=5), refused(torch.nn.utils.remove_weight_norm, linear(torch)),
        refused(torch.nn.utils.remove_spectral_norm, linear(torch)),
    ]  # fmt: skip


# --- the same as hooks


@story
def weight_norm_as_a_hook(torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.nn.utils.weight_norm(linear(torch), dim=1)
        twice = refused(torch.nn.utils.weight_norm, layer)
    layer(torch.ones(3)).square().sum().backward()
    seen = [repr(layer), layer.state_dict(), layer.weight, layer.weight_g.grad, layer.weight_v.grad, twice]
    layer.weight_g.data *= 2
    y = layer(torch.ones(3))
    torch.nn.utils.remove_weight_norm(layer)
    return [*seen, y, layer.state_dict(), isinstance(layer.weight, torch.nn.Parameter)]


@story
def spectral_norm_as_a_hook(torch: Any) -> Any:
    layer = torch.nn.utils.spectral_norm(linear(torch), n_power_iterations=3)
    seen = [layer.state_dict(), refused(torch.nn.utils.spectral_norm, layer)]
    layer(torch.ones(3)).square().sum().backward()
    seen += [layer.state_dict(), layer.weight, layer.weight_orig.grad]
    layer.eval()
    seen.append(layer(torch.ones(3)))
    torch.nn.utils.remove_spectral_norm(layer)
    return [*seen, layer.state_dict(), isinstance(layer.weight, torch.nn.Parameter)]


# --- pruning


@story
def pruning(torch: Any) -> Any:
    p = torch.nn.utils.prune
    seen = []
    for prune in (
        lambda m: p.l1_unstructured(m, "weight", 3), lambda m: p.l1_unstructured(m, "weight", 0.4),
        lambda m: p.random_unstructured(m, "weight", 0.5), lambda m: p.ln_structured(m, "weight", 1, 2, 0),
        lambda m: p.ln_structured(m, "weight", 0.5, float("inf"), 1), lambda m: p.random_structured(m, "weight", 2, 1),
        lambda m: p.custom_from_mask(m, "weight", torch.tensor([[1, 0, 1]] * 4)), lambda m: p.identity(m, "bias"),
        lambda m: p.l1_unstructured(m, "weight", 2, importance_scores=torch.arange(12.0).reshape(4, 3)),
        lambda m: p.l1_unstructured(m, "weight", 0),
    ):  # fmt: skip
        layer = linear(torch, 3, 4)
        prune(layer)
        layer(torch.ones(3)).sum().backward()
        grads = [parameter.grad for parameter in layer.parameters()]
        seen += [repr(layer), layer.state_dict(), layer.weight, grads, p.is_pruned(layer)]
        if "weight_mask" in keys(layer):
            p.remove(layer, "weight")
        seen += [layer.state_dict(), p.is_pruned(layer), isinstance(layer.weight, torch.nn.Parameter)]
    return seen


@story
def pruning_again(torch: Any) -> Any:
    p = torch.nn.utils.prune
    layer = linear(torch, 3, 4)
    p.l1_unstructured(layer, "weight", 4)
    p.random_unstructured(layer, "weight", 0.5)
    first = layer.weight_mask.clone()
    p.ln_structured(layer, "weight", 1, 2, 0)
    return first, layer.state_dict(), len(layer._forward_pre_hooks)


@story
def pruning_everywhere(torch: Any) -> Any:
    p = torch.nn.utils.prune
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    places = [(model[0], "weight"), (model[2], "weight")]
    p.global_unstructured(places, p.L1Unstructured, amount=0.3)
    p.global_unstructured(places, p.L1Unstructured, amount=2)
    return model.state_dict(), p.is_pruned(model), model(torch.ones(3))


@story
def mistakes_with_pruning(torch: Any) -> Any:
    p = torch.nn.utils.prune
    layer = linear(torch)
    seen = [
        refused(p.l1_unstructured, layer, "weight", 100), refused(p.l1_unstructured, layer, "weight", 1.5),
        refused(p.l1_unstructured, layer, "weight", -1), refused(p.l1_unstructured, layer, "weight", "a"),
        refused(p.ln_structured, layer, "weight", 1, 2, 5), refused(p.ln_structured, layer, "bias", 1, 2, 0),
        refused(p.custom_from_mask, layer, "weight", torch.ones(2)), refused(p.remove, layer, "weight"),
        refused(p.global_unstructured, [(layer, "weight")], p.RandomStructured, amount=1),
        refused(p.global_unstructured, 3, p.L1Unstructured, amount=1),
    ]  # fmt: skip
    return [*seen, sorted(keys(layer))]


# --- fusion, and the rest


@story
def fusion(torch: Any) -> Any:
    torch.manual_seed(0)
    nn, u = torch.nn, torch.nn.utils
    seen = []
    for make, transpose, norm, shape in (
        (lambda: nn.Conv2d(2, 3, 2), False, nn.BatchNorm2d, (1, 2, 4, 4)),
        (lambda: nn.Conv1d(2, 3, 2, bias=False), False, nn.BatchNorm1d, (1, 2, 4)),
        (lambda: nn.ConvTranspose2d(2, 3, 2), True, nn.BatchNorm2d, (1, 2, 3, 3)),
    ):
        conv, bn = make(), norm(3)
        bn(conv(torch.randn(4, *shape[1:])))
        conv.eval(), bn.eval()
        fused = u.fuse_conv_bn_eval(conv, bn, transpose)
        x = torch.ones(*shape)
        seen += [repr(fused), fused(x), bool((fused(x) - bn(conv(x))).abs().max() < 1e-5), fused.weight.requires_grad]
    line, bn = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    seen += [u.fuse_linear_bn_eval(line, bn)(torch.ones(2, 2)), refused(u.fuse_linear_bn_eval, line, bn.train())]
    return [*seen, refused(u.fuse_linear_bn_eval, line, nn.BatchNorm1d(4).eval())]


@story
def skipping_initial_values(torch: Any) -> Any:
    torch.manual_seed(0)
    layer = torch.nn.utils.skip_init(torch.nn.Linear, 3, 2)
    return repr(layer), torch.randn(2), refused(torch.nn.utils.skip_init, torch.nn.ReLU)


@story
def stateless_calls(torch: Any) -> Any:
    layer = linear(torch)
    other = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.nn.utils.stateless.functional_call(layer, other, torch.ones(3))
    return y, layer(torch.ones(3))


@story
def ensembles(torch: Any) -> Any:
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval() for _ in range(3)]
    params, buffers = torch.func.stack_module_state(models)

    def run(params: Any, buffers: Any, x: Any) -> Any:
        return torch.func.functional_call(models[0], (params, buffers), (x,))

    y = torch.func.vmap(run, (0, 0, None))(params, buffers, torch.ones(4, 2))
    stack = torch.func.stack_module_state
    frozen = torch.nn.Linear(1, 1).requires_grad_(False)
    return [
        params, buffers, y, [p.requires_grad and p.is_leaf for p in params.values()], refused(stack, []),
        refused(stack, [torch.nn.Linear(1, 1), torch.nn.ReLU()]), refused(stack, [torch.nn.Linear(1, 1), frozen]),
        refused(stack, [torch.nn.Linear(1, 1), torch.nn.Linear(1, 1).eval()]),
    ]  # fmt: skip


# --- found by PyTorch's own tests


@story
def norms_of_every_order_are_clipped(torch: Any) -> Any:
    seen = []
    for order in (0, 0.5, 2, float("inf"), -float("inf"), -1):
        x = torch.zeros(3, requires_grad=True)
        x.grad = torch.tensor([3.0, 0.0, 4.0])
        seen.append([torch.nn.utils.clip_grad_norm_([x], 1.0, order), x.grad])
    used = linear(torch).parameters()
    list(used)
    with pytest.warns(UserWarning, match="empty generator"):
        torch.nn.utils.clip_grad_norm_(used, 1.0)
    return seen


@story
def a_right_inverse_may_refuse(torch: Any) -> Any:
    layer = torch.nn.utils.parametrizations.orthogonal(
        torch.nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False
    )

    class Elsewhere(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x

        def right_inverse(self, x: Any) -> Any:
            return x.to("meta")

    register = torch.nn.utils.parametrize.register_parametrization
    return [refused(setattr, layer, "weight", torch.eye(3))[:20], refused(register, linear(torch), "bias", Elsewhere())]


@story
def masks_have_the_dtype_of_what_they_prune(torch: Any) -> Any:
    prune = torch.nn.utils.prune
    method = prune.L1Unstructured(amount=1)
    method._tensor_name = "weight"
    layer = prune.random_unstructured(linear(torch), "weight", amount=0.5)
    copied = pickle.loads(pickle.dumps(layer))  # its weight is computed: the history stays behind
    same = torch.equal(copied.weight, layer.weight)
    return [prune.PruningContainer(method).compute_mask(torch.ones(3), torch.tensor([1, 1, 0])), same]


@story
def empty_sequences_are_not_packed(torch: Any) -> Any:
    rnn = torch.nn.utils.rnn
    empty = rnn.PackedSequence(torch.randn(0, 5), torch.tensor([], dtype=torch.int64))
    return [
        refused(call, *args)[:12] for call, *args in (
            (rnn.pack_padded_sequence, torch.ones(0, 0), []), (rnn.pack_padded_sequence, torch.ones(0, 1, 2), [1]),
            (rnn.pad_packed_sequence, empty), (rnn.unpack_sequence, empty),
        )
    ]  # fmt: skip


@story
def names(torch: Any) -> Any:
    u = torch.nn.utils
    return [hasattr(u, name) for name in (
        "clip_grad_norm", "convert_conv2d_weight_memory_format", "fuse_linear_bn_weights", "parametrizations", "prune",
        "rnn", "stateless",
    )]  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_story(torch, name):
    importlib.import_module("torch.nn.utils.prune")  # torch.nn.utils leaves it to be imported
    alike(plain(STORIES[name](pellucid)), plain(STORIES[name](torch)), name, rel=1e-4, abs=3e-5)


# --- without PyTorch


def test_clipping_scales_to_the_limit():
    x = pellucid.tensor([3.0, 4.0], requires_grad=True)
    (x * x / 2).sum().backward()
    grad = x.grad
    assert pellucid.nn.utils.clip_grad_norm_([x], 1.0).item() == 5.0
    assert x.grad is grad
    np.testing.assert_allclose(grad.numpy(), [0.6, 0.8], rtol=1e-5)


@pytest.mark.parametrize("old", ["weight_norm", "stateless", "clip_grad_norm"])
def test_old_names_are_warned_of(old):
    layer = linear(pellucid)
    calls = {
        "weight_norm": lambda u: u.weight_norm(layer),
        "stateless": lambda u: u.stateless.functional_call(layer, {}, pellucid.ones(3)),
        "clip_grad_norm": lambda u: u.clip_grad_norm(layer.parameters(), 1.0),
    }
    with pytest.warns(FutureWarning, match="deprecated"):
        calls[old](pellucid.nn.utils)
