"""A gradient as a sum of paths: the golden numbers, random graphs, and everything that cannot be explained."""

import json
import math
import runpy
import sys
import time
from fractions import Fraction

import numpy as np
import pytest

import pellucid
from pellucid import nn
from pellucid.core import backward
from pellucid.diagnose import render
from pellucid.testing import graphs

F = nn.functional


def scalar(value, dtype=pellucid.float64):
    return pellucid.tensor(value, dtype=dtype, requires_grad=True)


def values(explanation):
    return [path.value for path in explanation.paths]


# --- golden numbers (one row each: the expression, its variables, the parts of every derivative)

GOLDEN = [
    ("(w*x+b)**2", {"w": 2, "x": 3, "b": 1}, {"w": [42], "x": [28], "b": [14]}),
    ("(x*w+b)**2", {"x": 2, "w": 3, "b": 1}, {"x": [42], "w": [28], "b": [14]}),
    ("x*x+x", {"x": 3}, {"x": [3, 3, 1]}),
    ("(a+a)*a", {"a": 2}, {"a": [2, 2, 4]}),
    ("a*b", {"a": 2, "b": 3}, {"a": [3], "b": [2]}),
    ("(a+b)*b", {"a": 2, "b": 3}, {"a": [3], "b": [3, 5]}),
    ("a*a", {"a": 3}, {"a": [3, 3]}),
    ("((x*3)+1)**2", {"x": 2}, {"x": [42]}),
    ("(w*x+b-t)**2", {"x": 2, "w": 0.5, "b": 0.1, "t": 0.8}, {"x": [0.3], "w": [1.2], "b": [0.6]}),
    ("(a*b+c)*(a-c)", {"a": 2, "b": 3, "c": 4}, {"a": [-6, 10], "b": [-4], "c": [-2, -10]}),
    ("x**3", {"x": 2}, {"x": [12]}),
    ("(2*x+1)**3", {"x": 1}, {"x": [54]}),
    (
        "x**3*torch.sin(x)",
        {"x": 1.5},
        {"x": [3 * 1.5**2 * math.sin(1.5), 1.5**3 * math.cos(1.5)]},
    ),
]


@pytest.mark.parametrize(("source", "at", "parts"), GOLDEN, ids=[row[0] for row in GOLDEN])
def test_golden_paths(source, at, parts):
    names = {name: scalar(value) for name, value in at.items()}
    result = eval(source, {"torch": pellucid, **names})
    for name, expected in parts.items():
        explanation = pellucid.explain(result, wrt=names[name])
        assert values(explanation) == pytest.approx(expected, rel=1e-12)
        assert explanation.value == pytest.approx(sum(expected), rel=1e-12)
        assert explanation.count == len(expected)
        assert explanation.complete
    assert all(tensor.grad is None for tensor in names.values())


def test_golden_totals():
    x, z = scalar(1.0), scalar(2.0)
    softmax = pellucid.explain(x.exp() / (x.exp() + z.exp()), wrt=x)
    assert softmax.value == pytest.approx(0.196612, abs=1e-6)
    assert softmax.count == 2
    for at, slope in ((-2.0, 0), (-0.5, 0), (0.5, 1), (2.0, 1)):
        v = scalar(at)
        assert pellucid.explain(v.relu(), wrt=v).value == slope
    for at, slope in ((-2.0, 0.0707), (0.5, 0.7864)):
        v = scalar(at)
        assert pellucid.explain(v.tanh(), wrt=v).value == pytest.approx(slope, abs=1e-4)


DEMO = """\
import pellucid as torch
a, b, c = (torch.tensor(v, requires_grad=True) for v in (2.0, 3.0, 4.0))
L = (a*b + c)*(a - c)
for x in (a, c, b):
    print(str(torch.explain(L, wrt=x)).splitlines()[0])
"""


def test_the_sentence_of_the_issue(tmp_path, monkeypatch, capsys):
    (tmp_path / "demo.py").write_text(DEMO)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "demo.py"))
    assert capsys.readouterr().out.splitlines() == [
        "∂L/∂a = 4 = -6 via (a*b + c) at demo.py:3 + 10 via (a - c) at demo.py:3",
        "∂L/∂c = -12 = -2 via (a*b + c) at demo.py:3 - 10 via (a - c) at demo.py:3",
        "∂L/∂b = -4 = -2 × 1 × 2 via (a*b + c) at demo.py:3",
    ]


# --- words


def test_names_of_variables_and_of_sub_expressions():
    a, b = scalar(2.0), scalar(3.0)
    h = a * b
    loss = h + a
    explanation = pellucid.explain(loss, wrt=a)
    assert (explanation.y, explanation.x) == ("loss", "a")
    assert explanation.paths[0].via.startswith("via h = (a * b) at ")
    assert explanation.paths[1].via.startswith("directly at ")
    nameless = pellucid.explain(loss * 2.0, wrt=a)
    assert nameless.y == "(loss * 2.0)"
    assert nameless.paths[1].via.startswith("directly in loss = (h + a) at ")


def test_a_line_that_stands_for_several_operations_says_which():
    x = scalar(0.5)
    model = nn.Sequential(nn.Tanh(), nn.Sigmoid())
    y = model(x)
    (path,) = pellucid.explain(y, wrt=x).paths
    assert [label.full for label in path.labels] == ["y [model.1]", "tanh [model.0]"]
    double = pellucid.explain((lambda t: t * t)(x), wrt=x)
    assert double.y == "(t * t)"


def test_parameters_are_named_by_their_module():
    model = nn.Linear(2, 1)
    loss = model(pellucid.ones(3, 2)).sum()
    assert pellucid.explain(loss, wrt=model.weight).x == "model.weight"
    weights = [pellucid.ones(2, requires_grad=True)]
    assert pellucid.explain((weights[0] * 2).sum(), wrt=weights[0]).x == "weights[0]"


def test_source_that_cannot_be_read_gives_the_operation():
    names = {"x": scalar(2.0)}
    exec(compile("y = x*x + x", "<nowhere>", "exec"), names)
    explanation = pellucid.explain(names["y"], wrt=names["x"])
    assert explanation.paths[0].via == "via mul at <nowhere>:1"


# --- counting


def test_a_thousand_doublings_are_counted_exactly_and_fast():
    x = scalar(1.0)
    y = x
    for _ in range(1000):
        y = y + y
    start = time.perf_counter()
    explanation = pellucid.explain(y, wrt=x)
    assert time.perf_counter() - start < 1
    assert explanation.count == 2**1000
    assert not explanation.complete and len(explanation.paths) == 5
    assert explanation.value == 2.0**1000
    assert "2^1000 paths" in str(explanation)
    assert explanation.as_json()["count"] == str(2**1000)


def test_the_strongest_paths_are_the_strongest():
    x = scalar(1.0)
    y = x
    for factor in (2.0, 3.0, 5.0, 7.0, 11.0, 13.0):
        y = y * factor + y * 0.5
    every = sorted(values(pellucid.explain(y, wrt=x)), reverse=True)
    assert len(every) == 64
    assert values(pellucid.explain(y, wrt=x, limit=10, strongest=9)) == pytest.approx(every[:9])


def test_deep_graphs_do_not_recurse():
    x = scalar(1.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    explanation = pellucid.explain(y, wrt=x)
    assert values(explanation) == [1.0]
    assert "… 19995 more …" in str(explanation)


def test_counts_for_people_and_for_machines():
    assert render.amount(12_345) == "12,345"
    assert render.amount(2**20000) == "2^20000"
    assert render.plain([2**53, 2**20000]) == [2**53, hex(2**20000)]


# --- random graphs


def reached(program):
    """The leaves of a program that its loss depends on, with their gradients."""
    names, loss = graphs.forward(program, pellucid, program.values())
    leaves = [names[name] for name, _ in program.leaves]
    found = backward.gradients([loss], [None], leaves, True, False)
    return loss, [(leaf, g.array) for leaf, g in zip(leaves, found, strict=True) if g is not None]


def close(a, b):
    return np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max(initial=0)))


@pytest.mark.parametrize("kind", ["graph", "alias"])
def test_contributions_add_up_on_random_graphs(kind):
    checked = 0
    for index in range(40):
        try:
            loss, leaves = reached(graphs.write(kind, 5, index))
        except RuntimeError:  # an alias program may rightly be refused
            continue
        for leaf, gradient in leaves:
            explanation = pellucid.explain(loss, wrt=leaf)
            assert close(explanation.gradient.array, gradient)
            assert close(sum(use.gradient.array for use in explanation.uses), gradient)
            if explanation.terms:
                assert close(sum(term.gradient.array for term in explanation.terms), gradient)
            if 0 < explanation.norm < math.inf:
                assert sum(use.share for use in explanation.uses) == pytest.approx(1)
            assert leaf.grad is None
            checked += 1
    assert checked > 15


def test_all_paths_add_up_on_random_graphs():
    checked = 0
    for index in range(40):
        loss, leaves = reached(graphs.write("graph", 6, index))
        for leaf, gradient in leaves:
            explanation = pellucid.explain(loss, wrt=leaf, strongest=30)
            if explanation.complete:
                assert close(sum(path.part.gradient.array for path in explanation.paths), gradient)
                checked += 1
    assert checked > 15


# --- tensors


def small_model():
    pellucid.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    data, target = pellucid.randn(8, 3), pellucid.ones(8, 1)
    return model, data, target


def test_terms_and_uses_of_a_loss():
    model, data, target = small_model()
    weight = model[0].weight
    fit = F.mse_loss(model(data), target)
    penalty = (weight**2).sum()
    loss = fit + 0.01 * penalty
    explanation = pellucid.explain(loss, wrt=weight)
    assert [term.label.name for term in explanation.terms] == ["fit", "penalty"]
    assert [use.label.module for use in explanation.uses] == ["model.0", ""]
    assert {part.label.name for part in explanation.modules} == {"model.0", "outside of modules"}
    assert np.allclose(explanation.terms[1].gradient.array, 0.02 * weight.array)
    assert explanation.terms[1].share + explanation.terms[0].share == pytest.approx(1)
    assert explanation.count == 2
    loss.backward()
    assert np.allclose(weight.grad.array, explanation.gradient.array, rtol=1e-5)


def test_a_term_that_does_not_depend_on_the_tensor_contributes_nothing():
    a, b = pellucid.ones(3, requires_grad=True), pellucid.ones(3, requires_grad=True)
    loss = a.sum() - 2 * b.exp().sum() / 3
    explanation = pellucid.explain(loss, wrt=a)
    assert [term.norm for term in explanation.terms] == [pytest.approx(math.sqrt(3)), 0]
    assert "1 term without gradient for a" in str(explanation)


def test_terms_of_a_loop_go_together_when_there_are_many():
    w = pellucid.ones(2, requires_grad=True)
    loss = (w**3).sum()
    for k in range(50):
        loss = loss + (w * k).sum()
    explanation = pellucid.explain(loss, wrt=w)
    assert [term.count for term in explanation.terms] == [1, 50]
    assert np.allclose(explanation.terms[1].gradient.array, sum(range(50)))
    stacked = pellucid.explain(pellucid.stack([(w**2).sum(), (w**3).sum()]).mean(), wrt=w)
    assert [float(term.gradient.array[0]) for term in stacked.terms] == [1.0, 1.5]


def test_opposite_uses_have_negative_share_and_a_note():
    x = pellucid.ones(4, requires_grad=True)
    loss = (x * 100).sum() - (x * 99).sum()
    explanation = pellucid.explain(loss, wrt=x)
    assert explanation.uses[1].share == pytest.approx(-99)
    assert explanation.uses[1].cosine == pytest.approx(-1)
    assert any("nearly cancel" in note for note in explanation.notes)


def test_a_tensor_that_is_not_a_leaf_used_many_times_through_views_and_several_results():
    leaf = pellucid.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)
    x = leaf * 2
    top, _ = x.max(1)
    first, second = x.unbind(0)
    loss = (top * top).sum() + (first * second).sum() + x.t()[0].sum()
    explanation = pellucid.explain(loss, wrt=x)
    assert {use.label.operation for use in explanation.uses} == {"max", "unbind", "t"}
    expected = pellucid.autograd.grad(loss, x, retain_graph=True)[0]
    assert np.allclose(explanation.gradient.array, expected.array)
    every = pellucid.explain(loss, wrt=x, strongest=100)
    assert every.complete
    assert np.allclose(sum(path.part.gradient.array for path in every.paths), expected.array)
    assert leaf.grad is None and x.requires_grad
    assert pellucid.explain(loss, wrt=top).gradient.tolist() == [12.0, 20.0]


def test_several_results_of_single_numbers():
    x = pellucid.tensor([2.0], requires_grad=True)
    top, _ = x.max(0)
    explanation = pellucid.explain(top * x, wrt=x)
    assert values(explanation) == [2.0, 2.0]


def test_strength_is_the_norm_where_nothing_else_joins():
    x = pellucid.tensor([1.0, -2.0, 0.5], requires_grad=True)
    loss = (x.exp() * 3).sum() + (x.sin() * 0.1).sum() + x.tanh().sum()
    paths = pellucid.explain(loss, wrt=x).paths
    assert [path.labels[-1].operation for path in paths] == ["exp", "tanh", "sin"]
    for path in paths:
        assert path.strength == pytest.approx(path.part.norm)


def test_the_strongest_path_of_a_residual_chain():
    x = pellucid.linspace(0.1, 1.0, 8).requires_grad_()
    h = x
    for _ in range(12):
        h = h + (h * 0.1).tanh()
    loss = h.sum()
    explanation = pellucid.explain(loss, wrt=x, strongest=3)
    assert explanation.count == 2**12
    assert [label.operation for label in explanation.paths[0].labels] == ["sum", *["add"] * 12]
    assert explanation.paths[0].part.gradient.tolist() == [1.0] * 8
    assert [len(path.labels) for path in explanation.paths[1:]] == [15, 15]


def test_gradient_weighs_the_elements():
    x = pellucid.ones(3, requires_grad=True)
    y = x * 2
    weights = pellucid.tensor([1.0, 0.0, -1.0])
    assert pellucid.explain(y, wrt=x, gradient=weights).gradient.tolist() == [2.0, 0.0, -2.0]
    s = scalar(3.0)
    weighed = pellucid.explain(s * s, wrt=s, gradient=pellucid.tensor(2.0, dtype=pellucid.float64))
    assert weighed.value == 12 and values(weighed) == [6.0, 6.0]


def test_a_tensor_with_respect_to_itself():
    x = scalar(3.0)
    explanation = pellucid.explain(x, wrt=x)
    assert (explanation.value, explanation.count) == (1.0, 1)
    assert str(explanation).startswith("∂x/∂x = 1 as the same tensor")


def test_complex_numbers_are_taken_apart_as_tensors():
    z = pellucid.tensor(1 + 2j, requires_grad=True)
    explanation = pellucid.explain((z * z.conj()).real, wrt=z)
    assert explanation.value is None
    assert explanation.gradient.item() == pytest.approx(2 + 4j)
    assert np.allclose(sum(use.gradient.array for use in explanation.uses), 2 + 4j)
    x = pellucid.tensor([1.0, 2.0], requires_grad=True)
    loss = ((x * (1 + 2j)) * (x * 1j)).abs().sum()
    mixed = pellucid.explain(loss, wrt=x)
    loss.backward()
    assert mixed.gradient.dtype == x.dtype and np.allclose(mixed.gradient.array, x.grad.array)
    for parts in (mixed.uses, [path.part for path in mixed.paths]):
        assert np.allclose(sum(part.gradient.array for part in parts), x.grad.array)


def test_numbers_that_are_not_finite_are_shown():
    x = pellucid.tensor([0.0, 1.0], requires_grad=True)
    explanation = pellucid.explain((x.sqrt() * 2).sum(), wrt=x)
    assert explanation.norm == math.inf and explanation.uses[0].share is None
    assert "inf" in str(explanation)
    assert json.loads(json.dumps(explanation.as_json(), allow_nan=False))["norm"] == "inf"


# --- nothing changes


def test_nothing_is_freed_written_or_hooked():
    x = pellucid.ones(3, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g))
    y = (x * x).exp()
    y.retain_grad()
    loss = y.sum()
    explanation = pellucid.explain(loss, wrt=x)
    assert seen == [] and x.grad is None and y.grad is None
    assert any("hooks were not run" in note for note in explanation.notes)
    first = pellucid.explain(loss, wrt=x).gradient
    with pellucid.no_grad():
        assert pellucid.explain(loss, wrt=x).gradient.tolist() == first.tolist()
    loss.backward()
    assert x.grad.tolist() == first.tolist()
    explanation.gradient.zero_()
    assert x.grad.tolist() == first.tolist()


def test_checkpoints_are_explained_and_the_older_form_refuses():
    from pellucid.utils.checkpoint import checkpoint

    x = pellucid.ones(3, requires_grad=True)
    w = pellucid.full((3,), 0.5, requires_grad=True)
    loss = checkpoint(lambda t: (t * w).exp() * t, x, use_reentrant=False).sum()
    assert np.allclose(pellucid.explain(loss, wrt=x).gradient.array, math.exp(0.5) * 1.5)
    older = checkpoint(lambda t: (t * w).exp(), x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        pellucid.explain(older, wrt=x)
    assert w.grad is None


def test_a_custom_function_that_returns_no_gradient_is_a_cut():
    class Silent(pellucid.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b = scalar(1.0), scalar(2.0)
    assert values(pellucid.explain(Silent.apply(a, b) * b, wrt=b)) == [3.0]
    with pytest.raises(RuntimeError, match="no path leads"):
        pellucid.explain(Silent.apply(a, b), wrt=b)


# --- what cannot be explained


def test_errors_say_what_is_wrong():
    x = pellucid.ones(3, requires_grad=True)
    other = pellucid.ones(3, requires_grad=True)
    y = (x * x).sum()
    with pytest.raises(RuntimeError, match=r"only for scalar outputs.*\n.*\n.*\n.*gradient="):
        pellucid.explain(x * x, wrt=x)
    with pytest.raises(RuntimeError, match="no path leads from y back to other"):
        pellucid.explain(y, wrt=other)
    with pytest.raises(TypeError, match="wrt is a str"):
        pellucid.explain(y, wrt="x")
    later = x * 1
    with pytest.raises(RuntimeError, match=r"later was made at .*, after y"):
        pellucid.explain(y, wrt=later)


def test_errors_name_the_cut():
    x = pellucid.ones(3, requires_grad=True)
    cut = (x * 2).detach()
    with pytest.raises(RuntimeError, match=r"cut by detach of MulBackward0 at .*test_explain.py:\d+"):
        pellucid.explain(cut.sum(), wrt=x)
    with pytest.raises(RuntimeError, match=r"does not require grad\n(.*\n)*.*cut by detach"):
        pellucid.explain((cut * x).sum(), wrt=cut)
    w = pellucid.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"computed from x left the graph by detach at .*test_explain.py:\d+"):
        pellucid.explain((cut * w).sum(), wrt=x)
    with pytest.raises(RuntimeError) as error:
        pellucid.explain(((w * 3).detach() * cut.requires_grad_()).sum(), wrt=x)
    assert str(error.value).count("detach at") == 1  # that of w is another tensor's cut
    after = x * 3
    with pytest.raises(RuntimeError) as error:
        pellucid.explain((cut * x * w).sum(), wrt=after)
    assert "left the graph" not in str(error.value)  # the cut came before this tensor was there
    v = pellucid.ones(3, requires_grad=True)
    with pellucid.no_grad():
        hidden = v * 2
    with pytest.raises(RuntimeError, match=r"by mul under no_grad at .*hidden = v \* 2"):
        pellucid.explain((hidden * w).sum(), wrt=v)


def test_a_freed_graph_names_the_backward():
    x = pellucid.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"explain needs the graph(.*\n)*.*backward ran at .*y\.backward\(\)"):
        pellucid.explain(y, wrt=x)
    grad = x.grad.tolist()
    assert grad == [2.0, 2.0, 2.0]


# --- drawing


def test_html_is_escaped_and_json_is_plain():
    x = scalar(2.0)
    y = x.clamp(max=3.0) * (x < 5) * x
    explanation = pellucid.explain(y, wrt=x)
    page = explanation._repr_html_()
    assert "(x &lt; 5)" in page and "(x < 5)" not in page and "<script" not in page
    plain = json.loads(json.dumps(explanation.as_json()))
    assert plain["value"] == 4.0 and [path["value"] for path in plain["paths"]] == [2.0, 2.0]
    assert plain["paths"][0]["steps"][0]["file"] == __file__


def test_show_uses_rich_if_it_is_there(capsys, monkeypatch):
    x = scalar(2.0)
    y = x * x
    explanation = pellucid.explain(y, wrt=x)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    explanation.show()
    assert capsys.readouterr().out == f"{explanation}\n"
    monkeypatch.undo()
    pytest.importorskip("rich")
    explanation.show()
    assert "∂y/∂x = 4" in capsys.readouterr().out


def test_long_tables_are_cut():
    x = pellucid.ones(2, requires_grad=True)
    loss = sum((x * k).sum() for k in range(40))
    text = str(pellucid.explain(loss, wrt=x))
    assert "and 28 others" in text
    assert max(map(len, text.splitlines())) < 400


def test_values_are_exact_products():
    x = scalar(0.1)
    y = (x * 3.0) * (x + 1.0)
    explanation = pellucid.explain(y, wrt=x)
    exact = sum(Fraction(value) for value in values(explanation))
    assert float(exact) == pytest.approx(explanation.value, rel=1e-15)


def test_operations_bear_the_names_that_users_write():
    w = pellucid.randn(4, 4, requires_grad=True)
    h = w * 2
    h[:, 0] = h[:, 1] * 5
    h[1:3].mul_(3)
    loss = (h.view(2, 8) ** 2).sum() + w.norm()
    text = str(pellucid.explain(loss, wrt=w))
    assert "in-place write" in text and "w.norm()" in text
    for ours in ("write_view", "replace", "vector_norm", "unsafe"):
        assert ours not in text


def test_the_strongest_paths_are_those_of_the_term_that_counts():
    torch = pellucid
    torch.manual_seed(0)
    layer, norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)
    x = torch.randn(4, 8)
    h = torch.tanh(layer(x)) + layer(x)
    out = norm(h)
    loss = out.pow(2).mean() + 0.01 * out.abs().mean()  # the first is a constant, whatever comes before the norm
    explanation = pellucid.explain(loss, wrt=layer.weight, strongest=2)
    fit, penalty = explanation.terms
    assert penalty.share > 0.99 > 0.01 > abs(fit.share)
    assert explanation.count == 4 and sum(path.part.share for path in explanation.paths) == pytest.approx(1, abs=0.01)


def test_a_short_name_of_a_module_is_not_taken_for_an_operation():
    m = pellucid.nn.Sequential(pellucid.nn.Linear(3, 3), pellucid.nn.Dropout(0.5))
    text = str(pellucid.explain(m(pellucid.ones(2, 3)).sum(), wrt=m[0].weight))
    assert "mul [m.1] → linear [m.0]" in text


def test_a_gradient_that_goes_through_vmap():
    w = pellucid.tensor([2.0, 3.0], requires_grad=True)
    x = pellucid.tensor([1.0, 2.0, 3.0])
    loss = pellucid.func.vmap(pellucid.func.grad(lambda each: pellucid.tanh(w * each).sum()))(x).square().sum()
    found = pellucid.explain(loss, wrt=w)
    steps = pellucid.backward_steps(loss)
    told = [str(step) for step in steps]
    inside = next(step for step in pellucid.backward_steps(loss) if step.op == "tanh")
    assert inside.grad.shape == (3, 2) and "a gradient of norm" in next(
        text for text in told if text.startswith("tanh")
    )
    loss.backward()
    assert pellucid.allclose(found.gradient, w.grad) and pellucid.allclose(steps.grads[w], w.grad)
    assert sum(path.part.share for path in found.paths) == pytest.approx(1)
    assert pellucid.why(w, loss).code == "ok"
