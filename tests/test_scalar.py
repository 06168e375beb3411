"""The teaching engine: Value, Dual, the small networks, and the pictures. Golden numbers are mission.md's."""

import ast
import importlib.util
import inspect
import json
import math
import random
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import pellucid
from pellucid.scalar import (
    Dual,
    DualNumber,
    Value,
    derivative,
    dual,
    gradient,
    nn,
    to_dot,
    to_json,
    to_svg,
    to_text,
    value,
)

ROOT = Path(__file__).resolve().parent.parent

# expression, the point, the value, the gradients
GOLDEN = [
    (lambda w, x, b: (w * x + b) ** 2, (2.0, 3.0, 1.0), 49, (42, 28, 14)),
    (lambda x, w, b: (x * w + b) ** 2, (2.0, 3.0, 1.0), 49, (42, 28, 14)),
    (lambda x: x * x + x, (3.0,), 12, (7,)),
    (lambda a: (a + a) * a, (2.0,), 8, (8,)),
    (lambda a, b: a * b, (2.0, 3.0), 6, (3, 2)),
    (lambda a, b: (a + b) * b, (2.0, 3.0), 15, (3, 8)),
    (lambda a: a * a, (3.0,), 9, (6,)),
    (lambda x: ((x * 3) + 1) ** 2, (2.0,), 49, (42,)),
    (lambda x, w, b, t: (w * x + b - t) ** 2, (2.0, 0.5, 0.1, 0.8), 0.09, (0.3, 1.2, 0.6, -0.6)),
    (lambda a, b, c: (a * b + c) * (a - c), (2.0, 3.0, 4.0), -20, (4, -4, -12)),
    (lambda x: x**3, (2.0,), 8, (12,)),
    (lambda x: (2 * x + 1) ** 3, (1.0,), 27, (54,)),
    (lambda x: x**3 * x.sin(), (1.5,), 3.366546, (6.971829,)),
    (lambda x, z: x.exp() / (x.exp() + z.exp()), (1.0, 2.0), 0.268941, (0.196612, -0.196612)),
    *[(lambda a: a.tanh(), (x,), math.tanh(x), (slope,))
      for x, slope in ((-2.0, 0.0707), (-0.5, 0.7864), (0.5, 0.7864), (2.0, 0.0707))],
    *[(lambda a: a.relu(), (x,), max(x, 0.0), (slope,)) for x, slope in ((-2.0, 0), (-0.5, 0), (0.5, 1), (2.0, 1))],
    (lambda a: a.relu(), (0.0,), 0, (0,)),
    (lambda a: 1 / a - 2 / (3 - a), (2.0,), -1.5, (-2.25,)),
    (lambda a: 5 - a + (-a) * 2 + abs(a), (-3.0,), 17, (-4,)),
    (lambda a: a.sigmoid().log() + a.cos() - a.sqrt(), (0.7,), None, None),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(GOLDEN)))
def test_reverse_forward_and_differences_agree_on_the_golden_rows(row):
    function, point, expected, slopes = GOLDEN[row]
    values = [Value(x) for x in point]
    y = function(*values)
    y.backward()
    reverse = [v.grad for v in values]
    forward, passes = gradient(function, point)
    assert passes == len(point)
    assert forward == pytest.approx(reverse, rel=1e-10, abs=1e-12)
    if point != (0.0,):  # the kink of relu has no derivative to measure
        assert differences(function, point) == pytest.approx(reverse, rel=1e-6, abs=1e-8)
    if expected is not None:
        assert y.data == pytest.approx(expected, abs=1e-6)
        assert reverse == pytest.approx(slopes, abs=1e-4)


def test_the_values_between_have_gradients_too():
    x = Value(2.0)
    a = x * 3
    b = a + 1
    c = b**2
    c.backward()
    assert [node.grad for node in (c, b, a, x)] == [1, 14, 14, 42]
    x, w, b, t = Value(2.0), Value(0.5), Value(0.1), Value(0.8)
    z1 = w * x
    z2 = z1 + b
    diff = z2 - t
    loss = diff**2
    loss.backward()
    assert [node.data for node in (z1, z2, diff, loss)] == pytest.approx([1.0, 1.1, 0.3, 0.09])
    assert [node.grad for node in (diff, z2, z1, b, x, w)] == pytest.approx([0.6, 0.6, 0.6, 0.6, 0.3, 1.2])


def differences(function, point, eps=1e-5):
    slopes = []
    for i in range(len(point)):
        high = [Value(x + eps * (i == j)) for j, x in enumerate(point)]
        low = [Value(x - eps * (i == j)) for j, x in enumerate(point)]
        slopes.append((function(*high).data - function(*low).data) / (2 * eps))
    return slopes


def test_a_value_shows_its_data_and_gradient_and_knows_its_inputs():
    a, b = Value(2.0, label="a"), Value(3.0)
    c = a * b
    assert repr(c) == "Value(data=6.0, grad=0.0)"
    assert c._prev == {a, b}
    assert (c._op, a.label, a._prev, a._op) == ("*", "a", set(), "")
    assert callable(c._backward)


def test_every_operator_is_one_node():
    """What a learner writes as one sign is one box in the picture."""
    a, b = Value(6.0), Value(3.0)
    results = {"-": a - b, "/": a / b, "+": a + b, "*": a * b, "neg": -a, "**2": a**2}
    for op, result in results.items():
        assert result._op == op and result._prev <= {a, b}
    assert (results["-"].data, results["/"].data, (9 - a)._op, (12 / a)._op) == (3.0, 2.0, "-", "/")
    (a / b).backward()
    assert (a.grad, b.grad) == (pytest.approx(1 / 3), pytest.approx(-2 / 3))


def test_errors_say_what_is_wanted():
    with pytest.raises(TypeError, match="must be an int or a float"):
        Value(2.0) ** Value(3.0)
    with pytest.raises(TypeError, match="must be an int or a float"):
        Dual(2.0) ** "2"
    for operation in (
        lambda: Value(2.0) + "3", lambda: "3" - Value(2.0), lambda: Value(2.0) - "3", lambda: Value(2.0) / "3",
        lambda: Value("3"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="not with str"):
            operation()
    with pytest.raises(TypeError, match=r"not with ndarray: take its number with \.item\(\)"):
        Value(np.array(3.0))
    for number in (Value(-1.0), Dual(-1.0, 1.0), Dual(Dual(-1.0, 1.0), 1.0)):
        with pytest.raises(ValueError, match="only defined for positive scalar values"):
            number.sqrt()
    with pytest.raises(ZeroDivisionError):
        1 / Value(0.0)
    for number in (Value(0.0), Value(-1.0), Dual(0.0, 1.0)):
        with pytest.raises(ValueError, match="log is only defined for positive scalar values"):
            number.log()


def test_numbers_at_the_edges():
    """As PyTorch has them: nothing becomes complex, NaN stays NaN, what overflows is inf."""
    nan, x = Value(math.nan), Value(0.0)
    assert all(math.isnan(y.data) for y in (nan.relu(), nan.exp(), nan.log(), nan.sigmoid(), nan.tanh()))
    assert math.isnan(Dual(math.nan, 1.0).relu().real)
    assert Value(1000.0).exp().data == Dual(1000.0).exp().real == math.inf
    x.sqrt().backward()
    assert x.grad == Dual(0.0, 1.0).sqrt().dual == math.inf
    assert Value(-40.0).sigmoid().log().data == pytest.approx(-40)
    assert Value(-8.0) ** -3.0 and (Value(0.0) ** 0).data == 1
    assert [type(y.data) for y in (Value(np.float32(2)), Value(2.0) + np.float32(1))] == [float, float]
    assert (np.float64(2.0) * Value(3.0)).data == (np.int64(2) * Value(3.0)).data == 6


def test_an_operation_of_ones_own():
    x = Value(0.5)
    y = Value(math.sinh(x.data), (x,), "sinh", _local=(math.cosh(x.data),)) * 2
    y.backward()
    assert x.grad == 2 * math.cosh(0.5)
    assert Value(3.0, (x, y), "+", "sum")._prev == {x, y}
    with pytest.raises(ValueError, match=r"has 2 inputs: _local= takes a derivative each"):
        Value(3.0, (x, y), "mine").backward()
    assert x.grad == 2 * math.cosh(0.5)


def test_visiting_too_early_is_wrong_even_when_gradients_are_added():
    """Each node adds to its inputs and at once asks them to pass it on: micrograd's issue 64."""

    def recursive(node):
        node._backward()
        for each in node._inputs:
            recursive(each)

    a = Value(1.0)
    b = a + a
    c = b + b
    c.grad = 1.0
    recursive(c)
    assert a.grad != 4
    a.grad = b.grad = c.grad = 0.0
    c.backward()
    assert a.grad == 4


def test_what_single_numbers_cost():
    """Ten thousand parameters are ten thousand Values; a dot product of a thousand is thousands of nodes, or one."""
    assert len(nn.MLP(98, [100, 1]).parameters()) == 10_001
    weights = [Value(0.5) for _ in range(1000)]
    total = weights[0] * 2.0
    for weight in weights[1:]:
        total = total + weight * 2.0
    operations = [node for node in total.graph() if node._inputs]
    assert len(operations) == 1999
    y = pellucid.full((1000,), 0.5).requires_grad_() @ pellucid.full((1000,), 2.0)
    assert y.item() == total.data == 1000 and y.grad_fn.name() == "DotBackward0"


def test_leaves_add_up_over_backwards_and_what_is_between_does_not():
    x = Value(3.0)
    y = x * x
    y.backward()
    y.backward()
    assert x.grad == 12.0
    assert y.grad == 1.0


def test_assigning_instead_of_adding_is_caught_by_the_reuse_test():
    """The mutation that the lab is about: `=` in place of `+=` loses one of the two uses."""
    source = inspect.getsource(value)
    assert source.count("value.grad += local * self.grad") == 1
    module = {"__name__": "mutant"}
    exec(compile(source.replace("value.grad += local", "value.grad = local"), "mutant", "exec"), module)
    x = module["Value"](3.0)
    y = x * x + x
    y.backward()
    assert x.grad != 7


def test_a_deep_graph_needs_no_recursion():
    x = Value(1.0)
    y = x
    for _ in range(5 * sys.getrecursionlimit()):
        y = y + 1.0
    y.backward()
    assert x.grad == 1.0


def test_shared_paths_are_walked_once():
    y = x = Value(1.0)
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.backward()
    assert x.grad == 2.0**60


def test_a_graph_is_freed_without_the_garbage_collector():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        x = Value(2.0)
        y = (x * 3 + 1).tanh()
        y.backward()
        seen = weakref.ref(y)
        del y
        assert seen() is None
    finally:
        gc.enable()


def test_the_engine_is_short_enough_to_read():
    lines = inspect.getsource(value).splitlines()
    assert len(lines) < 170
    assert len(inspect.getsource(nn).splitlines()) < 90
    tree = ast.parse("\n".join(lines))
    longest = max(node.end_lineno - node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    assert longest < 20


def test_twice_as_fast_as_micrograd():
    """On the training of its own demo, where it is installed: bench/scalar.py."""
    engine = pytest.importorskip("micrograd.engine", reason="micrograd is not installed")
    network = pytest.importorskip("micrograd.nn")
    spec = importlib.util.spec_from_file_location("bench_scalar", ROOT / "bench" / "scalar.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    points, labels = zip(*moons(100), strict=True)
    steps = [bench.trainer(*kind, points, labels) for kind in ((engine.Value, network.MLP), (Value, nn.MLP))]
    theirs, ours = bench.measure(*steps, rounds=5)
    assert theirs / ours >= bench.GOAL


def test_a_neuron_learns_what_mission_md_says():
    w, b = Value(0.3), Value(0.1)
    first = None
    for _ in range(20):
        y = (w * 2 + b).tanh()
        loss = (y - 0.8) ** 2
        first = loss.data if first is None else first
        w.grad = b.grad = 0.0
        loss.backward()
        w.data -= 0.5 * w.grad
        b.data -= 0.5 * b.grad
    y = (w * 2 + b).tanh()
    assert first == pytest.approx(0.0383, abs=1e-4)
    assert (y.data - 0.8) ** 2 < 1e-15
    assert (w.data, b.data) == pytest.approx((0.4594, 0.1797), abs=1e-4)


def moons(count):
    points = []
    for i in range(count):
        angle = math.pi * i / count
        up = i % 2 == 0
        x, y = (math.cos(angle), math.sin(angle)) if up else (1 - math.cos(angle), 0.5 - math.sin(angle))
        points.append(((x + random.gauss(0, 0.05), y + random.gauss(0, 0.05)), 1 if up else -1))
    return points


def test_a_network_of_values_tells_two_moons_apart():
    random.seed(1)
    net, points = nn.MLP(2, [8, 8, 1], "tanh"), moons(40)
    for step in range(60):
        losses = [(1 + -label * net(point)).relu() for point, label in points]
        loss = sum(losses, Value(0.0)) * (1 / len(losses)) + 1e-4 * sum((p * p for p in net.parameters()), Value(0.0))
        net.zero_grad()
        loss.backward()
        for p in net.parameters():
            p.data -= (1.0 - 0.9 * step / 60) * p.grad
    right = sum((net(point).data > 0) == (label > 0) for point, label in points)
    assert right >= 38


def test_networks_say_what_they_want():
    with pytest.raises(ValueError, match="2 inputs are wanted here, not 3"):
        nn.MLP(2, [3, 1])([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="there is no activation 'rellu'"):
        nn.MLP(2, [3, 1], "rellu")
    assert len(nn.MLP(2, [3, 2])([1.0, 2.0])) == 2


# --- dual numbers


def test_a_dual_number_carries_its_derivative():
    x = Dual(1.5, 1.0)
    assert repr(Dual(1.0, 2.0)) == "DualNumber(1.0 + 2.0*eps)"
    assert DualNumber is Dual
    y = x * x * x * x.sin()
    exact = 3 * 1.5**2 * math.sin(1.5) + 1.5**3 * math.cos(1.5)
    assert y.dual == pytest.approx(exact, abs=1e-10)
    eps = Dual(0.0, 1.0)
    assert ((eps * eps).real, (eps * eps).dual) == (0.0, 0.0)


def test_nested_dual_numbers_give_higher_derivatives():
    assert [derivative(lambda x: x**4, 2.0, order=n) for n in (1, 2, 3, 4)] == [32, 48, 48, 24]
    assert derivative(dual.sin, 0.3, order=2) == pytest.approx(-math.sin(0.3))
    assert derivative(lambda x: dual.exp(dual.tanh(x)), 0.2, order=3) == pytest.approx(
        third(lambda x: math.exp(math.tanh(x)), 0.2), rel=1e-4
    )


def third(f, x, h=1e-3):
    return (f(x + 2 * h) - 2 * f(x + h) + 2 * f(x - h) - f(x - 2 * h)) / (2 * h**3)


def test_reflected_forms_and_constants():
    x = Dual(2.0, 1.0)
    assert (3 - x).dual == -1
    assert (6 / x).dual == pytest.approx(-1.5)
    assert derivative(lambda x: x**0, 2.0) == 0
    assert derivative(lambda x: 5.0, 2.0) == 0
    assert derivative(abs, -2.0) == -1
    assert derivative(lambda x: x.relu(), 0.0) == 0


# --- pictures


def test_pictures_of_a_graph():
    a, b = Value(2.0, label="a"), Value(3.0, label="<script>alert(1)</script>")
    c = ((a + b) * b) ** 2
    c.backward()
    assert to_text(c).splitlines()[-1].startswith("v5 = v4**2")
    graph = json.loads(to_json(c))
    assert len(graph["nodes"]) == 5
    assert {"from": 2, "to": 3, "local": 3.0} in graph["edges"]
    assert to_dot(c).startswith("digraph {")
    picture = to_svg(c)
    assert "<script>" not in picture
    assert 'label="é | data' in to_dot(Value(1.0, label="é").relu())
    assert len(ElementTree.fromstring(picture).findall("{http://www.w3.org/2000/svg}rect")) == 5


def test_a_label_moves_no_cursor_and_nan_is_json():
    y = Value(math.inf, label="\x1b[31mred\u2028\x00") - Value(math.inf)
    y.backward()
    assert "\x1b" not in to_text(y) + to_dot(y) + to_svg(y)
    ElementTree.fromstring(to_svg(y))
    graph = json.loads(to_json(y), parse_constant=pytest.fail)
    assert [node["data"] for node in graph["nodes"]][:2] == ["inf", "inf"] and graph["nodes"][-1]["data"] == "nan"
