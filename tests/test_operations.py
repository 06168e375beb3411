"""Every operation keeps every claim, on its own samples; every primitive is exercised by some operation.

The claims are in pellucid.testing.claims and the samples beside each operation, so a new operation is tested the
moment it is published.
"""

import gc
import re
import warnings

import numpy as np
import pytest

import pellucid
from pellucid.core.primitive import TABLE, elementwise
from pellucid.core.record import bind
from pellucid.ops.operation import OPERATIONS, Operation, call
from pellucid.testing import claims

DISTINCT = claims.distinct_operations()

# Primitives that no operation's samples reach, and which test reaches them instead.
REACHED_ELSEWHERE: dict[str, str] = {
    "embedding_weighed": "the second derivative of embedding: the claims of second order",
    "moved_cofactors": "the second derivative of det: the claims of second order",
    "as_dual": "forward mode over a gradient with respect to a dual: the tests of the transforms",
    "elman_back": "the backward kernel of a layer, on arrays only: the claims about plain gradients run it",
    "gru_back": "as elman_back",
    "lstm_back": "as elman_back",
    "attention_back": "as elman_back",
    "random": "random_ of an integer tensor, which nothing differentiates: the tests of random numbers",
    "total_of_batch": "the derivative of a closed-over tensor inside vmap: the tests of the transforms",
}


@pytest.fixture(scope="module", autouse=True)
def hide_the_oracle_from_the_collector():
    """capture looks through every living object; the half a million of PyTorch's would take it 50 ms each time."""
    if claims.HAS_TORCH:
        claims.torch()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def quiet_oracle():
    """PyTorch's own warnings (deprecations, resized outputs) are not ours to fix; our own stay errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch(\.|$)")
        warnings.filterwarnings(
            "ignore", message=r"(?s).*(torch|tensor\.|output with one or more elements was resized)"
        )
        yield


@pytest.mark.parametrize("name", claims.CLAIMS)
@pytest.mark.parametrize("operation", DISTINCT)
def test_claim(operation: str, name: str) -> None:
    if name in DISTINCT[operation].unclaimed:
        pytest.skip(DISTINCT[operation].unclaimed[name])
    if not claims.can_check(name):
        pytest.skip(f"needs {claims.NEEDS[name]}")
    if name == "capture_replays" and "reads_values" in DISTINCT[operation].unclaimed:
        with pytest.raises(AssertionError) as refused:
            claims.check_claim(DISTINCT[operation], name)
        assert set(re.findall(r"\n    (\w+): ", str(refused.value))) == {"CaptureError"}
    else:
        claims.check_claim(DISTINCT[operation], name)


@pytest.mark.parametrize("operation", DISTINCT)
def test_there_are_samples(operation: str) -> None:
    assert claims.samples_of(DISTINCT[operation])


@pytest.mark.torch
def test_nodes_are_named_as_in_pytorch() -> None:
    others = {}
    for name, operation in DISTINCT.items():
        names = claims.node_name(operation)
        if names is not None and names[0] != names[1] and "node_name" not in operation.unclaimed:
            others[name] = names
    assert not others, "\n".join(f"{name}: {ours}, PyTorch's {theirs}" for name, (ours, theirs) in others.items())


def test_every_alias_has_the_samples_of_its_function() -> None:
    by_function = {id(operation.shared): operation for operation in DISTINCT.values()}
    for operation in OPERATIONS.values():
        assert operation.samples is by_function[id(operation.shared)].samples


def call_what_is_not_an_operation() -> None:
    """Indexing, writing, refilling with random numbers and the transforms: methods and syntax, not functions."""
    leaf = pellucid.tensor(np.arange(1.0, 7.0).reshape(2, 3), requires_grad=True)
    x = leaf * 1.0
    for index in (0, None, ..., (slice(None), 1), pellucid.tensor([1, 0]), x > 2.0, (pellucid.tensor([0, 1]), 1)):
        recorded_gradient(x[index], leaf)
        y = x * 1.0
        y[index] = 0.5
        recorded_gradient(y, leaf)
    for name in ("zero_", "normal_", "uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_", "bernoulli_"):
        y = x * 1.0
        getattr(y, name)(*((0.5,) if name == "geometric_" else ()))
        recorded_gradient(y + x, leaf)
    y = x * 1.0
    y.copy_(x * 2.0)
    y.detach(), pellucid.tensor([1, 2]).random_(5), x.detach().view(pellucid.int64)
    recorded_gradient(y, leaf)
    recorded_gradient(pellucid.normal(x, 1.0) + pellucid.bernoulli(x.sigmoid()), leaf)
    recorded_gradient(np.cbrt(x), leaf)
    recorded_gradient(((x.half() * 2.0 + 1.0 - 0.5) / 3.0).double(), leaf)  # half precision and numbers
    recorded_gradient(pellucid.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 10), leaf)
    steps = pellucid.tensor([0.1, 0.2])
    recorded_gradient(pellucid.fake_quantize_per_channel_affine(x, steps, steps * 0.0, 0, 0, 10), leaf)
    call_other_dimensions(leaf)
    pellucid.func.jacfwd(pellucid.func.jacrev(lambda v: (v * v).sum()))(x.detach())
    pellucid.func.vmap(lambda v: v * v.sum() + x)(x.detach())
    recorded_gradient(pellucid.func.vmap(lambda v: v * 2.0)(x), leaf)


def call_other_dimensions(leaf) -> None:
    """Rows of one family for 1, 2 and 3 dimensions: the samples of an operation need not draw all of them."""
    functional = pellucid.nn.functional
    line, plane, volume = (leaf.sum() * pellucid.ones(1, 1, *(3,) * n, dtype=pellucid.float64) for n in (1, 2, 3))
    recorded_gradient(functional.pad(volume, (1,) * 6, "circular"), leaf)
    recorded_gradient(functional.pad(volume, (1,) * 6, "reflect"), leaf)
    recorded_gradient(functional.pad(plane, (1,) * 4, "replicate"), leaf)
    recorded_gradient(functional.interpolate(line, 5, mode="nearest-exact"), leaf)
    recorded_gradient(functional.interpolate(volume, 5, mode="nearest-exact"), leaf)
    recorded_gradient(functional.interpolate(plane, 5, mode="lanczos", antialias=True), leaf)
    functional.interpolate(plane.detach().to(pellucid.uint8), 2, mode="bilinear", antialias=True)


def recorded_gradient(y, leaf) -> None:
    if y.requires_grad:
        y.sum().backward(create_graph=True)
        leaf.grad = None


def test_every_primitive_is_exercised() -> None:
    with claims.watched() as seen:
        for operation in DISTINCT.values():
            for sample in claims.samples_of(operation):
                claims.gradients(operation, sample, create_graph=True)
        call_what_is_not_an_operation()
    missing = set(TABLE) - seen.forward - set(REACHED_ELSEWHERE)
    assert not missing, f"no operation's samples reach {sorted(missing)}"
    gone = set(REACHED_ELSEWHERE) - set(TABLE)
    assert not gone, f"no longer in the table: {sorted(gone)}"


# --- the claims themselves: each must catch an operation that breaks it


@pytest.fixture
def wrong_row():
    """Make rows for one test and take them out of the table again."""
    made = []

    def make(name, forward, *rules, **columns):
        made.append(name)
        return bind(elementwise(name, forward, *rules, **columns))

    yield make
    for name in made:
        TABLE.pop(name, None)


def published(function, samples=lambda draw: [call(draw(2, 3)), call(draw(3))], **options) -> Operation:
    return Operation("wrong", function, "", samples, reference="", **options)


def test_a_wrong_derivative_is_caught(wrong_row) -> None:
    row = wrong_row("wrong_sin", np.sin, lambda g, a: g * 2 * row_cos(a))
    row_cos = wrong_row("row_cos", np.cos, None)
    with pytest.raises(AssertionError, match="by differences"):
        claims.check_claim(published(row), "gradient_equals_differences")


def test_a_derivative_that_loses_its_graph_is_caught(wrong_row) -> None:
    lost = wrong_row("lost", np.exp, None)
    row = wrong_row("wrong_exp", np.exp, lambda g, a: g * lost(a))
    claims.check_claim(published(row), "gradient_equals_differences")
    with pytest.raises(AssertionError, match="second order"):
        claims.check_claim(published(row), "second_order_equals_differences")


def test_a_write_to_an_input_is_caught(wrong_row) -> None:
    def careless(a):
        np.sin(a, out=a)
        return a * 1

    row = wrong_row("careless", careless, lambda g: g)
    with pytest.raises(AssertionError, match=r"written to|read-only"):
        claims.check_claim(published(row), "layout_does_not_matter")


def test_a_layout_that_matters_is_caught(wrong_row) -> None:
    row = wrong_row("by_memory", lambda a: np.frombuffer(a.tobytes("A"), a.dtype).reshape(a.shape) * 1.0, lambda g: g)
    with pytest.raises(AssertionError, match="layout"):
        claims.check_claim(published(row), "layout_does_not_matter")


def test_lost_precision_is_caught(wrong_row) -> None:
    row = wrong_row("widening", lambda a: np.sin(a.astype(np.float64)), lambda g, a: g)
    with pytest.raises(AssertionError, match="float32"):
        claims.check_claim(published(row), "single_precision_is_kept")


def test_all_failing_samples_are_told(wrong_row) -> None:
    row = wrong_row("nothing_right", np.sin, lambda g: g * 0)
    with pytest.raises(AssertionError, match=r"fails on 2 of 2 samples\nsample 0: wrong\(float64\[2, 3\]\)"):
        claims.check_claim(published(row), "gradient_equals_differences")


def test_softplus_in_float32_is_right_to_three_units():
    x = np.linspace(-20, 20, 100_001, dtype=np.float32)
    exact = np.logaddexp(0, x.astype(np.float64))
    y = pellucid.nn.functional.softplus(pellucid.tensor(x), threshold=30).numpy()
    assert np.max(np.abs(y - exact) / np.spacing(exact.astype(np.float32))) < 3
