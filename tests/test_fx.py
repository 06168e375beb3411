"""torch.fx: graphs and programs as PyTorch prints them, and nothing that stays behind when nothing is traced."""

import contextlib
import gc
import io
import pickle

import pytest

import pellucid
from pellucid import fx, nn
from pellucid.fx import border
from pellucid.shim import as_torch

HEAD = """
import copy, io, math, operator, pickle
import torch
import torch.nn.functional as F
from torch import fx, nn
"""

# Each runs under both and prints the same.
PROGRAMS = {
    "all kinds of steps": """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.param = nn.Linear(4, 5), nn.Parameter(torch.rand(3, 4))
        self.register_buffer("buf", torch.ones(4))
        self.seq = nn.Sequential(nn.Linear(5, 5), nn.ReLU())
    def forward(self, x, y=None, *, scale: float = 2.0):
        a = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        b = self.buf * x
        c = torch.cat([a, a], dim=1)
        d = F.relu(c) + F.linear(x, self.param) + F.gelu(x) + torch.linalg.norm(x) + torch.special.erfcx(x)
        s = x.shape[0]
        z = x.view(s, -1)[..., 1:None, ::2]
        w = -x ** 2 + 1 / x - math.sqrt(s) + abs(x) + 3 // x
        v = (x > 2) & (x == 3) | ~(x < 1)
        h = torch.zeros_like(x, dtype=torch.float32, device=torch.device("cpu")) + float("inf")
        x += 1
        torch._assert(s == 3, "no")
        n = torch.zeros(s) + torch.arange(x.size(0))
        return {"a": (a, b), "l": [c, d, z, w, v, n]}, self.seq(a), h, x.T @ x, x.max(), torch.max(x), x.float()
m = fx.symbolic_trace(M())
print(m.code, m.graph, m, sep="\\n")
print(m.print_readable(print_output=False))
print([(node.op, node.name, node.args, node.kwargs, len(node.users)) for node in m.graph.nodes])
""",
    "arguments": """
def f(x: torch.Tensor, n: int = 2, *rest, **named) -> torch.Tensor:
    a, b = x
    return torch.add(a, b, alpha=n) + rest[0] + F.dropout(x, 0.5, training=True)
print(fx.symbolic_trace(f).code, fx.symbolic_trace(f).graph)
print(fx.symbolic_trace(lambda x, y, z: x if y else z, concrete_args={"y": True, "z": None}).code)
print(fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).code)
print(fx.symbolic_trace(fx.symbolic_trace(f)).code == fx.symbolic_trace(f).code)
""",
    "what cannot be traced": """
for f in (lambda x: x if x.sum() > 0 else -x, lambda x: [a for a in x], lambda x: len(x), lambda x: int(x),
          lambda x: range(x), lambda x: 3 in x, lambda x: g(x=object(), y=x)):
    def g(x, y):
        return y.add(x)
    try:
        fx.symbolic_trace(f)
    except Exception as error:
        print(type(error).__name__, error)
""",
    "changing graphs": """
class M(nn.Module):
    def forward(self, x, y):
        return x + y, torch.add(x, y), x.add(y)
traced = fx.symbolic_trace(M())
for n in traced.graph.nodes:
    if any(n.target == each for each in (operator.add, torch.add, "add")):
        with traced.graph.inserting_after(n):
            new = traced.graph.call_function(torch.bitwise_and, n.args, n.kwargs)
            n.replace_all_uses_with(new)
        traced.graph.erase_node(n)
traced.graph.lint()
traced.recompile()
print(traced.code, traced(torch.tensor([3]), torch.tensor([6])))
graph = fx.Graph()
a = graph.placeholder("a")
b = graph.call_method("neg", (a,))
c = graph.call_function(operator.iadd, (b, 1))
unused = graph.get_attr("0.linear.weight")
graph.output((c, {"k": a}))
print(graph, [n.name for n in reversed(graph.nodes)], graph.find_nodes(op="placeholder"), a.next, c.prev, a.users)
try:
    graph.erase_node(b)
except RuntimeError as error:
    print(error)
a.append(unused)
c.insert_arg(0, a)
c.update_kwarg("k", b)
print(list(graph.nodes), c.all_input_nodes, graph.eliminate_dead_code(), list(graph.nodes))
m = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
print(m.add_submodule("new.layer", nn.Linear(2, 2)), m.delete_submodule("nothing"), m.delete_submodule("new.layer"))
m.add_submodule("more", nn.ReLU())
m.delete_all_unused_submodules()
print([name for name, _ in m.named_modules()])
""",
    "other rules for functions": """
rules = {F.relu: lambda x, inplace=False: (x > 0) * x, torch.square: lambda x: x * x}
def decomposed(model):
    new, places = fx.Graph(), {}
    tracer = fx.proxy.GraphAppendingTracer(new)
    for node in fx.Tracer().trace(model).nodes:
        if node.op == "call_function" and node.target in rules:
            args = [fx.Proxy(places[each.name], tracer) if isinstance(each, fx.Node) else each for each in node.args]
            places[node.name] = rules[node.target](*args, **node.kwargs).node
        else:
            places[node.name] = new.node_copy(node, lambda each: places[each.name])
    new.lint()
    return fx.GraphModule(model, new)
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"first": nn.Identity()})
    def forward(self, x):
        return torch.square(F.relu(self.parts["first"](x)) + 1)
print(decomposed(M()).code, decomposed(M())(torch.tensor([-1.0, 2.0])), decomposed(M()))
class Shapes:
    def __init__(self, gm):
        self.graph, self.modules = gm.graph, dict(gm.named_modules())
    def run(self, *args):
        inputs, values = iter(args), {}
        known = lambda a: fx.node.map_arg(a, lambda n: values[n.name])
        for node in self.graph.nodes:
            if node.op == "placeholder":
                result = next(inputs)
            elif node.op == "call_function":
                result = node.target(*known(node.args), **known(node.kwargs))
            elif node.op == "call_module":
                result = self.modules[node.target](*known(node.args), **known(node.kwargs))
            else:
                continue
            node.shape, values[node.name] = result.shape, result
        return [(node.name, node.shape) for node in self.graph.nodes if hasattr(node, "shape")]
print(Shapes(fx.symbolic_trace(M())).run(torch.ones(2, 3)))
""",
    "patterns": """
def show(program, pattern, replacement):
    print(len(fx.replace_pattern(program, pattern, replacement)), program.code)
def f(x, w1, w2):
    m1 = torch.cat([torch.neg(w1), w2]).sum()
    m2 = torch.cat([torch.neg(w1), w2]).sum()
    return x + torch.max(m1) + torch.max(m2)
show(fx.symbolic_trace(f), lambda a, b: torch.cat([torch.neg(a), b]).sum(), lambda a, b: torch.stack([a, b]))
show(fx.symbolic_trace(lambda x: torch.exp(torch.neg(x))), lambda a: torch.exp(torch.neg(a)), lambda a: 1 / a.exp())
relus = fx.symbolic_trace(lambda x, y: torch.relu(torch.relu(torch.relu(x + y))) * y)
show(relus, lambda a: torch.relu(torch.relu(a)), lambda a: F.silu(a))
two = fx.symbolic_trace(lambda x: torch.relu(x) + torch.sigmoid(x))
show(two, lambda a: (torch.relu(a), torch.sigmoid(a)), lambda a: (torch.tanh(a), torch.cos(a)))
adds = fx.symbolic_trace(lambda x: torch.add(torch.add(x, 2), torch.add(x, x)))
show(adds, lambda a, b: torch.add(a, b), lambda a, b: torch.mul(b, a))
shared = fx.symbolic_trace(lambda x: torch.exp(torch.neg(x)) + torch.neg(x))
show(shared, lambda a: torch.exp(torch.neg(a)), lambda a: a)
""",
    "interpreters and transformers": """
class Swap(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return torch.neg(*args, **kwargs) if target == torch.sigmoid else super().call_function(target, args, kwargs)
    def call_method(self, target, args, kwargs):
        return args[0].sigmoid() if target == "neg" else super().call_method(target, args, kwargs)
traced = fx.symbolic_trace(lambda x: torch.sigmoid(x).neg())
print(Swap(traced).transform().code, Swap(traced).transform()(torch.zeros(2)))
class Names(fx.Interpreter):
    def run_node(self, n):
        print(n.name, end=" ")
        return super().run_node(n)
print(Names(traced).run(torch.zeros(2)))
bad = fx.symbolic_trace(lambda x: x.shpe)
try:
    fx.Interpreter(bad).run(torch.ones(2))
except AttributeError as error:
    print("\\n".join(str(error).splitlines()[:5]))
from torch.fx.passes.shape_prop import ShapeProp
net = fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()))
ShapeProp(net).propagate(torch.ones(1, 1, 4, 4))
print([node.meta["tensor_meta"] for node in net.graph.nodes])
from torch.fx.experimental.optimization import fuse
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
x = torch.ones(1, 1, 4, 4)
print(fuse(model).code, torch.allclose(fuse(model)(x), model(x), atol=1e-5))
""",
    "tracers": """
class Deep(fx.Tracer):
    def is_leaf_module(self, m, name):
        return False
    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        node = super().create_node(kind, target, args, kwargs, name)
        node.tag = kind
        return node
layers = nn.Linear(2, 2), nn.ReLU(), nn.LayerNorm(2), nn.Conv2d(1, 1, 1), nn.MaxPool2d(2), nn.Flatten(), nn.GELU()
tracer = Deep()
graph = tracer.trace(nn.Sequential(*layers, nn.Embedding(2, 2), nn.Tanh(), nn.LeakyReLU(), nn.Dropout(0.1)))
print(fx.GraphModule(tracer.root, graph).code, [node.tag for node in graph.nodes])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.constant = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()]), torch.ones(2)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + self.constant + torch.ones(2) * x
traced = fx.symbolic_trace(Net())
print(traced.code, sorted(traced.state_dict()), traced)
print(next(n for n in traced.graph.nodes if n.op == "call_module").meta["nn_module_stack"].keys())
x = torch.ones(1, 2)
for other in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
    print(other.code == traced.code, torch.equal(other(x), traced(x)), type(other).__name__)
traced(x).sum().backward()
print(getattr(traced.layers, "0").weight.grad is not None)
graph = fx.Graph()
tracer = fx.proxy.GraphAppendingTracer(graph)
y, z = fx.Proxy(graph.placeholder("x"), tracer), fx.Proxy(graph.placeholder("y"), tracer)
b = torch.tanh(torch.cat([y, z]))
graph.output(nn.ReLU()(b).node)
print(fx.GraphModule(nn.Module(), graph).code, y)
@torch.no_grad()
def without(x):
    return torch.exp(x)
print(fx.symbolic_trace(without).code)
""",
    "wrapped functions": """
@fx.wrap
def user(x, y):
    return x * y
fx.wrap("len")
from math import sqrt
fx.wrap("sqrt")
def other(x):
    return x.neg()
def f(x):
    return user(x, 2) + len(x) + sqrt(x) + other(x)
traced = fx.symbolic_trace(f)
print(traced.code, traced.graph, user(3, 4))
for node in traced.graph.nodes:
    if node.target is user:
        with traced.graph.inserting_before(node):
            inlined = node.target(*fx.node.map_arg(node.args, fx.Proxy))
        node.replace_all_uses_with(inlined.node)
        traced.graph.erase_node(node)
        del inlined
traced.recompile()
print(traced.code, fx.symbolic_trace(traced).code == traced.code)
try:
    (lambda: fx.wrap("f"))()
except NotImplementedError as error:
    print(error)
""",
}


def printed(program):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(HEAD + program, "program", "exec"), {"__name__": "program"})
    return out.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_and_programs_are_pytorchs(name):
    pytest.importorskip("torch")
    expected = printed(PROGRAMS[name])
    with as_torch():
        assert printed(PROGRAMS[name]) == expected


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.scale = nn.Parameter(pellucid.ones(3))

    def forward(self, x, flag=None):
        return pellucid.relu(self.linear(x) + 1.0).sum(dim=-1) * self.scale


CODE = """
def forward(self, x, flag = None):
    linear = self.linear(x);  x = None
    add = linear + 1.0;  linear = None
    relu = torch.relu(add);  add = None
    sum_1 = relu.sum(dim = -1);  relu = None
    scale = self.scale
    mul = sum_1 * scale;  sum_1 = scale = None
    return mul
"""


def test_texts():
    traced = fx.symbolic_trace(Net())
    assert traced.code.strip() == CODE.strip()
    assert str(traced.graph).splitlines()[3:6] == [
        "    %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})",
        "    %add : [num_users=1] = call_function[target=operator.add](args = (%linear, 1.0), kwargs = {})",
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})",
    ]


def test_a_traced_module_computes_and_learns_as_the_module():
    net, x = Net(), pellucid.rand(4, 2)
    traced = fx.symbolic_trace(net)
    assert traced.linear is net.linear and pellucid.equal(traced(x[:3]), net(x[:3]))
    traced(x[:3]).sum().backward()
    assert net.linear.weight.grad is not None and net.scale.grad is not None
    again = pickle.loads(pickle.dumps(traced))
    assert pellucid.equal(again(x[:3]), net(x[:3])) and again.code == traced.code


def test_functions_are_what_they_were_before_and_after():
    gc.collect()  # what other tests have left
    functions = [pellucid.exp, pellucid.nn.functional.relu, pellucid.Tensor.mul, pellucid.zeros]
    bodies = [each.__code__ for each in functions]
    members = nn.Module.__call__, nn.Module.__getattribute__

    def traced(x):
        assert pellucid.exp is functions[0] and pellucid.exp.__code__ is not bodies[0]
        return pellucid.exp(x)

    [_, node, _] = fx.symbolic_trace(traced).graph.nodes
    assert node.target is pellucid.exp
    with contextlib.suppress(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: x if x else -x)
    gc.collect()
    assert [each.__code__ for each in functions] == bodies and not border.LIVE and not border.BODIES
    assert members == (nn.Module.__call__, nn.Module.__getattribute__)
    assert "__getattribute__" not in vars(nn.Module)
    proxy = fx.Proxy(fx.Graph().placeholder("x"))
    assert isinstance(pellucid.exp(proxy), fx.Proxy) and pellucid.exp(pellucid.zeros(1)).item() == 1.0
    del proxy
    assert pellucid.exp.__code__ is bodies[0]


def test_operations_with_names_of_their_own_are_recorded():
    @pellucid.library.custom_op("fx_tests::twice", mutates_args=())
    def twice(x):
        return x * 2

    traced = fx.symbolic_trace(lambda x: pellucid.ops.fx_tests.twice(x) + 1)
    assert "torch.ops.fx_tests.twice(x)" in traced.code and traced(pellucid.ones(1)).item() == 3.0


def test_a_table_needs_tabulate(capsys):
    graph = fx.symbolic_trace(lambda x: x + 1).graph
    try:
        graph.print_tabular()
        assert "call_function" in capsys.readouterr().out
    except ImportError:
        assert "pip install tabulate" in capsys.readouterr().out


def test_a_graph_that_names_what_is_not_there_is_refused():
    graph = fx.Graph()
    graph.output(graph.call_module("nothing", (graph.placeholder("x"),)))
    with pytest.raises(RuntimeError, match="nothing"):
        fx.GraphModule({}, graph)
    with pytest.raises(AssertionError, match="_legal_ops"):
        graph.create_node("call_everything", "x")
