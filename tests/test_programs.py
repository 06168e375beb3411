"""Programs written for PyTorch: the modules they import are there, and their idioms give PyTorch's numbers.

Each source below is a short program of our own around one idiom that public programs use. It runs with Pellucid
under the name torch and, where PyTorch is installed, with PyTorch, and must print the same.
"""

import contextlib
import io
import pickle
import subprocess
import sys
import warnings

import pytest

import pellucid
from pellucid.shim import as_torch

MODULES = """
torch.accelerator torch.amp torch.ao torch.ao.quantization torch.autograd.forward_ad torch.autograd.function
torch.autograd.functional torch.autograd.grad_mode torch.autograd.graph torch.autograd.profiler
torch.autograd.variable torch.backends.cuda torch.backends.cudnn torch.backends.mkl torch.backends.mps
torch.backends.openmp torch.compiler torch.cpu torch.cpu.amp torch.cuda torch.cuda.amp torch.cuda.nvtx
torch.distributed torch.distributions torch.distributions.bernoulli torch.distributions.beta
torch.distributions.binomial torch.distributions.categorical torch.distributions.constraints
torch.distributions.dirichlet torch.distributions.distribution torch.distributions.exponential
torch.distributions.gamma torch.distributions.independent torch.distributions.kl torch.distributions.laplace
torch.distributions.mixture_same_family torch.distributions.multivariate_normal torch.distributions.normal
torch.distributions.relaxed_categorical torch.distributions.one_hot_categorical torch.distributions.poisson
torch.distributions.studentT torch.distributions.transformed_distribution torch.distributions.transforms
torch.distributions.uniform torch.distributions.utils torch.export torch.fft torch.func torch.fx torch.hub torch.jit
torch.library torch.linalg torch.multiprocessing torch.nested torch.nn.functional torch.nn.init torch.nn.modules.conv
torch.nn.modules.utils torch.nn.parallel torch.nn.parameter torch.nn.utils.parametrizations torch.nn.utils.rnn
torch.onnx torch.optim.lr_scheduler torch.optim.optimizer torch.optim.swa_utils torch.overrides torch.profiler
torch.quantization torch.random torch.sparse torch.special torch.storage torch.testing torch.torch_version torch.types
torch.utils._pytree torch.utils.benchmark torch.utils.checkpoint torch.utils.collect_env torch.utils.data
torch.utils.data.dataloader torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler
torch.utils.dlpack torch.utils.hooks torch.utils.model_zoo torch.version torch._C torch._dynamo torch._dynamo.config
torch._inductor.config torch.functional torch.distributed.optim torch.distributed.fsdp.wrap
"""


@pytest.mark.parametrize("name", MODULES.split())
def test_modules_can_be_imported(name):
    with as_torch():
        scope = {}
        exec(f"import {name}\nfound = {name}\nimport {name} as same", scope)
        assert scope["found"] is scope["same"]


def test_a_missing_module_names_the_scripts_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nimport torch.nothing_like_this\n")
    run = subprocess.run([sys.executable, "-m", "pellucid", "run", str(script)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "Pellucid has no torch.nothing_like_this" in run.stderr and "script.py:2" in run.stderr


def test_what_is_not_here_says_so_when_it_is_used():
    with as_torch():
        import torch
        from torch.ao.quantization import quantize_dynamic
        from torch.distributed.optim import ZeroRedundancyOptimizer
        from torch.export import ExportedProgram
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.onnx import export

        class Mine(ExportedProgram):  # a class may inherit from it: only its use is refused
            pass

        for use in (Mine, export, make_fx, quantize_dynamic, ZeroRedundancyOptimizer, torch.distributed.nn.all_reduce):
            with pytest.raises(NotImplementedError, match=r"Pellucid has no torch\.[\s\S]*test_programs.py"):
                use()


def test_tensors_say_that_they_are_torchs_inside_a_run():
    """Libraries that serve several frameworks choose their functions by `type(x).__module__`."""
    own = [(each, each.__module__) for each in (pellucid.Tensor, pellucid.nn.Parameter)]
    with as_torch() as torch:
        with as_torch():
            pass
        weight = torch.nn.Parameter(torch.ones(2))
        assert str(type(weight.data)) == "<class 'torch.Tensor'>"
        assert str(type(weight)) == "<class 'torch.nn.parameter.Parameter'>"
        for part, name in ((weight.shape, "Size"), (weight.dtype, "dtype"), (weight.device, "device")):
            assert str(type(part)) == f"<class 'torch.{name}'>"
        stored = pickle.dumps([weight, weight.data, weight.shape, weight.dtype, weight.device])
        named = pickle.dumps(torch.ones(2).max(0))
    assert [(each, each.__module__) for each, _ in own] == own
    again, plain, *parts = pickle.loads(stored)  # a pickle made in a run can be read outside
    assert type(again) is pellucid.nn.Parameter and type(plain) is pellucid.Tensor and plain.tolist() == [1, 1]
    assert parts == [plain.shape, plain.dtype, plain.device] and parts[1] is pellucid.float32
    assert pickle.loads(named).indices.item() == 0


def test_a_run_may_last_until_the_program_ends():
    lasting = "import contextlib, pellucid\nopened = contextlib.ExitStack()\nopened.enter_context(pellucid.as_torch())"
    run = subprocess.run([sys.executable, "-c", lasting], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


PROGRAMS = {
    "a model without memory": """
import copy
import torch
from torch import nn
torch.manual_seed(0)
with torch.device("meta"):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.LSTM(4, 3), nn.BatchNorm2d(3), nn.Embedding(5, 2))
    steps = torch.outer(torch.arange(4.0), 1 / 10 ** torch.linspace(0, 1, 3)).cos()[None, :, None]
    print(steps, torch.randn(2, device="cpu").device, torch.tensor([1, 2]), torch.eye(2).new_ones(3).device)
    print(torch.randperm(3), torch.randint(3, (2,)).device, torch.get_default_device(), torch.zeros(1).is_meta)
for parameter in model.parameters():
    nn.init.trunc_normal_(parameter, std=0.02)
print({p.device for p in model.parameters()}, {b.device for b in model.buffers()}, type(model[0].weight).__name__)
print(model[0](torch.ones(2, 3, device="meta")).relu(), copy.deepcopy(model)[0].bias.is_cpu)
layer = nn.Linear(3, 4, device="meta")
layer.weight.copy_(torch.ones(4, 3)) if not layer.weight.requires_grad else layer.weight.data.mul_(2)
layer.load_state_dict(nn.Linear(3, 4).state_dict(), assign=True)
print(layer(torch.ones(1, 3)), torch.rand(1))  # no numbers were drawn for the others
print(model.to_empty(device="cpu")[0].weight.device, nn.Linear(2, 2).to("meta").weight.requires_grad)
nothing = torch.empty(3, 4, device="meta")
print(nothing.stride(), nothing.is_contiguous(), nothing[0].shape, (nothing @ nothing.T).shape, nothing.data_ptr())
print(torch.zeros_like(nothing, device="cpu").sum(), torch.rand_like(nothing).device, (nothing > 0).dtype)
for use in (nothing.cpu, nothing.tolist, nothing.numpy, nothing.sum().item, lambda: nothing.to("cpu")):
    try:
        use()
    except (NotImplementedError, RuntimeError, TypeError):
        print("no data")
""",
    "operations with names of their own": """
import torch
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
print(torch.ops.mine.twice(torch.ones(2)), torch.ops.mine.twice.default(torch.ones(1)))
library = torch.library.Library("ours", "DEF")
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: x * 3, "CPU")
library.impl("thrice", lambda x: x * 4, "Meta")
torch.library.define("ours::more", "(Tensor x) -> Tensor")
@torch.library.impl("ours::more", "cpu")
def more(x):
    return x + 1
@torch.library.register_fake("ours::more")
def shape_of(x):
    return torch.empty_like(x)
print(torch.ops.ours.thrice(torch.ones(2)), torch.ops.ours.more(torch.ones(2)))
""",
    "names that torchvision imports": """
import torch
import torch._custom_ops
from torch._dynamo.utils import is_compile_supported
from torch.hub import _get_torch_home
from torch.jit.annotations import BroadcastingList2
from torch.onnx import symbolic_opset11
from torch.onnx.symbolic_helper import parse_args
from torch.utils.model_zoo import tqdm
with tqdm(total=2, disable=True) as bar:
    bar.update(1)
torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
class Module(torch.nn.Module):
    @torch.jit._overload_method
    def forward(self, x: BroadcastingList2[int]):
        pass
    def forward(self, x):
        return x
try:
    torch.ops.load_library("/there/is/no.so")
except OSError:
    print("not loaded")
print(Module()(2), _get_torch_home().endswith("torch"))
""",
    "looking at the hooks of a module": """
import torch
from torch.nn.utils import prune
layer = torch.nn.Linear(4, 2)
prune.random_unstructured(layer, "weight", amount=0.5)
prune.l1_unstructured(layer, "weight", amount=1)
print([type(hook).__name__ for hook in layer._forward_pre_hooks.values() if hook._tensor_name == "weight"])
seen = []
layer.register_forward_hook(lambda *given: seen.append(len(given)), with_kwargs=True)
layer.register_forward_hook(lambda *given: seen.append(len(given)))
layer(torch.ones(1, 4))
print(seen, len(layer._forward_hooks), list(layer._forward_hooks_with_kwargs.values()))
layer._forward_hooks.clear()
layer(torch.ones(1, 4))
print(seen)
""",
    "what a node has saved": """
import torch
a, b = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
y = a * b
print(y.grad_fn._saved_self is a, y.grad_fn._saved_other is b)
z = y.exp()
print(z.grad_fn._saved_result.equal(z), z.grad_fn._saved_result is z, hasattr(z.grad_fn, "_saved_other"))
z.sum().backward()
try:
    z.grad_fn._saved_result
except RuntimeError as error:
    print("second time" in str(error))
""",
    "a tangent is given back as it came": """
import torch
from torch.autograd import forward_ad
primal, tangent = torch.ones(2, 2, dtype=torch.double), torch.full((2, 2), 2.0)
with forward_ad.dual_level():
    dual = forward_ad.make_dual(primal, tangent)
    print(forward_ad.unpack_dual(dual).tangent is tangent, forward_ad.unpack_dual(dual * dual).tangent)
""",
    "two tensors exchanged": """
import torch
a, b = torch.nn.Parameter(torch.ones(2)), torch.zeros(3)
a.grad = torch.full((2,), 5.0)
torch.utils.swap_tensors(a, b)
(b * 2).sum().backward()
print(a, b, a.grad, b.grad, type(b).__name__)
""",
    "models as functions, of old": """
import torch
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
torch.manual_seed(3)
net = torch.nn.Linear(2, 1)
function, parameters = make_functional(net)
gradients = grad(lambda given, x: function(given, x).square().sum())(parameters, torch.ones(3, 2))
print([g.tolist() for g in gradients], [p.requires_grad for p in parameters])
models = [torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).eval() for _ in range(3)]
function, parameters, buffers = combine_state_for_ensemble(models)
print(vmap(function, in_dims=(0, 0, None))(parameters, buffers, torch.ones(1, 2)))
print([tuple(p.shape) for p in make_functional_with_buffers(models[0])[2]])
""",
    "names that libraries import": """
import torch
from torch.distributions.utils import _standard_normal, _sum_rightmost
from torch.functional import einsum, norm
from torch.serialization import MAP_LOCATION
from functorch import grad, vmap
from torch.utils.benchmark import Timer
from torch.utils.checkpoint import get_device_states, set_device_states
torch.manual_seed(3)
print(_standard_normal(torch.Size([2]), torch.float32, None), _sum_rightmost(torch.ones(2, 3), 1))
set_device_states(*get_device_states(torch.ones(2)))
print(torch.cuda._initialized, torch.version.__version__.split("+")[0] == torch.__version__.split("+")[0])
timer = Timer('''
    y = torch.ones(2)
    y + x
    ''', globals={"x": 1})
print(vmap(grad(torch.sin))(torch.zeros(2)))
print(timer.timeit(3).number_per_run, einsum("i,i", torch.ones(2), torch.ones(2)))
""",
    # a scaler that is meant for CUDA does nothing: the loss that goes back is the loss
    "mixed precision for CUDA on a machine without": """
import torch
w = torch.ones(3, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
scaler = torch.cuda.amp.GradScaler(enabled=True)
with torch.cuda.amp.autocast(enabled=False):
    loss = (w * w).sum()
scaler.scale(loss).backward()
scaler.unscale_(opt)
torch.nn.utils.clip_grad_norm_([w], 1.0)
scaler.step(opt)
scaler.update()
print(w.tolist(), scaler.get_scale(), scaler.is_enabled(), torch.amp.GradScaler().is_enabled())
""",
    "actions drawn one by one": """
import torch
from torch.distributions.categorical import Categorical
torch.manual_seed(3)
probs = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
print([Categorical(probs).sample().tolist() for _ in range(8)])
print(Categorical(logits=probs).sample((3,)).tolist(), torch.multinomial(probs, 1, replacement=True).tolist())
print(torch.rand(1).item())
""",
    "gamma, beta, Dirichlet": """
import torch
from torch.distributions import Beta, Chi2, Dirichlet, Gamma, StudentT
torch.manual_seed(3)
few = torch.tensor([0.3, 1.0, 7.0])
for d in (Gamma(few, few), Beta(few, 2.0), Dirichlet(few), Chi2(few), StudentT(few)):
    print(type(d).__name__, [f"{v:.4g}" for v in d.sample((3,)).flatten().tolist()])
print(torch.rand(1).item())
""",
    "soft choices": """
import torch
from torch.distributions import FisherSnedecor, LogisticNormal, RelaxedBernoulli, RelaxedOneHotCategorical
torch.manual_seed(3)
p = torch.tensor([0.1, 0.2, 0.7], requires_grad=True)
show = lambda t: [f"{v:.4g}" for v in t.flatten().tolist()]
few = torch.tensor([3.0, 5.0])
for d in (
    RelaxedBernoulli(torch.tensor(0.5), p), RelaxedBernoulli(torch.tensor([0.5]), logits=p),
    RelaxedOneHotCategorical(torch.tensor(0.5), p), RelaxedOneHotCategorical(torch.tensor([2.0]), logits=p),
    LogisticNormal(few, few), FisherSnedecor(few, few + 4),
):
    x = d.rsample((2,))
    print(type(d).__name__, d.batch_shape, d.event_shape, show(x), show(d.log_prob(x.detach())))
RelaxedOneHotCategorical(torch.tensor(0.5), p).rsample((4,)).pow(2).sum().backward()
f = FisherSnedecor(few, few + 4)
print(show(p.grad), show(f.mean), show(f.variance), show(f.mode))
""",
    "Poisson, binomial, negative binomial": """
import torch
from torch.distributions import Binomial, NegativeBinomial, Poisson
torch.manual_seed(3)
print(torch.poisson(torch.tensor([0.0, 0.5, 4.0, 9.9, 10.0, 50.0, 900.0])).tolist())
print(Poisson(torch.tensor([3.0, 30.0])).sample((9,)).tolist())
print(Binomial(torch.tensor([5, 100]), torch.tensor([0.3, 0.7])).sample((9,)).tolist())
print(Binomial(torch.tensor([0, 3, 900]), torch.tensor([0.3, 1.0, 0.2])).sample((9,)).tolist())
print(NegativeBinomial(torch.tensor([5.0]), torch.tensor([0.3])).sample((9,)).tolist(), torch.rand(1).item())
""",
    "weights of a truncated normal distribution": """
import torch
from torch.nn.init import trunc_normal_
torch.manual_seed(0)
show = lambda t: [round(v, 5) for v in t.tolist()]
print(show(trunc_normal_(torch.empty(40), std=1.0)), show(trunc_normal_(torch.empty(20), std=0.02)))
print(show(trunc_normal_(torch.empty(30), mean=0.5, std=2.0, a=0, b=1)), torch.rand(1).item())
""",
    "old names of initialisers": """
import torch
from torch import nn
torch.manual_seed(0)
w = torch.empty(3, 4)
for name in ("xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "uniform", "normal", "orthogonal"):
    getattr(nn.init, name)(w)
    print(name, [round(v, 5) for v in w.flatten().tolist()])
""",
    "old types of tensor": """
import torch
Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
images = torch.ones(2, dtype=torch.float64).type(Tensor)
print(images.dtype, images.type(torch.LongTensor).dtype, images.type("torch.DoubleTensor").type())
torch.set_default_tensor_type("torch.DoubleTensor")
print(torch.ones(1).dtype)
torch.set_default_tensor_type(torch.FloatTensor)
print(torch.ones(1).dtype, list(reversed(torch.arange(3))))
""",
    "names of arguments": """
import torch
x = torch.arange(12.0).reshape(4, 3)
print([part.shape for part in x.split(split_size=3, dim=0)], [p.shape for p in torch.split(x, [1, 2], dim=1)])
print(torch.complex(real=x[0], imag=x[1]), torch.polar(abs=x[1], angle=x[2]).abs())
""",
    "a graph as a sparse matrix": """
import torch
indices = torch.tensor([[0, 1, 1, 2], [2, 0, 0, 1]])
adjacency = torch.sparse_coo_tensor(indices, torch.tensor([3.0, 4.0, 5.0, 6.0]), (3, 3)).coalesce()
x = torch.ones(3, 2, requires_grad=True)
torch.sparse.mm(adjacency, x).pow(2).sum().backward()
print(x.grad.tolist(), torch.spmm(adjacency, x).tolist(), adjacency.indices().tolist(), adjacency.values().tolist())
print(adjacency.to_dense().tolist())
""",
    "containers of tensors": """
import torch
from collections import OrderedDict, namedtuple
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten
Pair = namedtuple("Pair", "left right")
tree = {"b": [torch.ones(2), 3], "a": Pair(torch.zeros(1), None), "c": OrderedDict(x=(1, 2))}
leaves, spec = tree_flatten(tree)
print(leaves, tree_unflatten(range(len(leaves)), spec), spec.num_leaves)
print(tree_map(lambda leaf: type(leaf).__name__, tree), tree_map_only(int, lambda n: -n, tree)["c"], tree_leaves(7))
""",
    "a profiled step": """
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule
model = torch.nn.Linear(3, 2)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
    with record_function("a step"):
        model(torch.ones(4, 3)).sum().backward()
names = {event.key for event in found.key_averages()}
print("a step" in names, len(found.key_averages().table(sort_by="cpu_time_total", row_limit=5)) > 0)
print([schedule(wait=1, warmup=1, active=2, repeat=1)(i).name for i in range(6)])
""",
    "an operation of one's own": """
import torch
@torch.library.custom_op("programs::cube", mutates_args=())
def cube(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() ** 3)
@cube.register_fake
def _(x):
    return torch.empty_like(x)
def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
def backward(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * g * x * x
cube.register_autograd(backward, setup_context=keep)
x = torch.tensor([1.0, 2.0], requires_grad=True)
cube(x).sum().backward()
print(x.grad)
""",
    "memory that is shared": """
import torch
x = torch.zeros(3, 4)
print(x[1:].untyped_storage().nbytes(), x[1].untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
print(x.is_shared(), x.share_memory_().is_shared(), torch.is_storage(x.untyped_storage()))
""",
    "hooks of one's own": """
import torch
from collections import OrderedDict
from torch.utils.hooks import RemovableHandle
hooks = OrderedDict()
handle = RemovableHandle(hooks)
hooks[handle.id] = print
print(len(hooks))
handle.remove()
print(len(hooks), isinstance(torch.nn.Linear(1, 1).register_forward_hook(lambda *a: None), RemovableHandle))
""",
    "comparison in tests": """
import torch
from torch.testing import assert_close, make_tensor
x = make_tensor(2, 3, dtype=torch.float64, device="cpu", low=1, high=2)
print(x.shape, x.dtype, bool((x >= 1).all() and (x < 2).all()))
print(make_tensor((4,), dtype=torch.int64, device="cpu").dtype)
assert_close({"a": [x, None]}, {"a": [x.clone(), None]})
for call in (
    lambda: assert_close(x, x + 1, msg="not equal"), lambda: assert_close({"a": x}, {"b": x}),
    lambda: assert_close([x], [x, x]), lambda: assert_close(x, x, rtol=1.0),
):
    try:
        call()
    except (AssertionError, ValueError) as error:
        print(type(error).__name__, str(error) if "not equal" in str(error) else "")
""",
    "the version": """
import torch
from torch.torch_version import TorchVersion
v = torch.__version__
print(v >= "2.2", v > "1.13.1", v < (2, 100), v >= (2, 0), v <= "2.9", str(v).split("+")[0], isinstance(v, str))
print(TorchVersion("1.10.0") > "1.9", TorchVersion("1.10") >= "1.10.0")
""",
    "libraries that ask first": """
import torch
from torch.overrides import has_torch_function, is_tensor_like
from torch.types import Device, Number
print(has_torch_function((torch.ones(1),)), is_tensor_like(torch.ones(1)), is_tensor_like([1.0]))
print(torch.jit.annotate(int, 3), issubclass(torch.jit.ScriptModule, torch.nn.Module))
print(isinstance(torch.OutOfMemoryError(), RuntimeError), torch.get_deterministic_debug_mode())
""",
    "an error in a module under vmap, and what a named result says of itself": """
import torch
from torch import nn
base = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
try:
    torch.vmap(base)(torch.ones(3, 2))
except RuntimeError as error:
    print(str(error)[:60])
print(type(torch.svd(torch.eye(2))), type(torch.ones(2).topk(1)))
""",
}


def printed(source: str) -> str:
    """What a program prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "<program>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_they_print_with_pytorch(name, torch):
    with as_torch():
        ours = printed(PROGRAMS[name])
    assert ours == printed(PROGRAMS[name])


SETTINGS = """
import torch
import torch._dynamo
torch._dynamo.config.suppress_errors = True
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision("high")
torch.set_num_threads(1)
@torch.compile
def double(x):
    return x * 2
@torch.compiler.disable
def triple(x):
    return x * 3
print(double(torch.ones(1)), triple(torch.ones(1)), torch.compiler.is_compiling(), torch.jit.is_scripting())
print(torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.ones(1),)))
"""


def test_settings_have_no_effect():
    with as_torch():  # PyTorch would compile here, for ten seconds
        assert printed(SETTINGS) == "tensor([2.]) tensor([3.]) False False\ntensor([2.])\n"


def test_processes_share_memory():
    with as_torch():
        import torch.multiprocessing as mp
        from torch import nn

        model = nn.Linear(2, 1)
        model.share_memory()

        def train(rank, amount):
            model.weight.data.fill_(amount + rank)

        mp.spawn(train, args=(5.0,), nprocs=1)
        assert model.weight.tolist() == [[5.0, 5.0]]
        worker = mp.get_context("spawn").Process(target=train, args=(1, 7.0))
        worker.start()
        worker.join()
        assert worker.exitcode == 0 and model.weight.tolist() == [[8.0, 8.0]]
        with pytest.raises(mp.ProcessRaisedException, match="process 0"):
            mp.spawn(lambda rank: sys.exit(3), nprocs=1)


def test_draws_are_the_same_for_the_same_seed():
    with as_torch() as torch:
        torch.manual_seed(3)
        assert torch.distributions.Gamma(2.0, 1.0).sample((2,)).tolist() == pytest.approx([2.933645725, 1.902717829])
