"""nn.Module itself against PyTorch's: attributes, the tree, hooks, saving and loading, containers, lazy modules.

A story does something with one of the two libraries and returns what it saw; both must have seen the same.
"""

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import pellucid

STORIES = {}


def story(function: Any) -> Any:
    """Tell a story with both libraries."""
    STORIES[function.__name__.replace("_", " ")] = function
    return function


def refused(function: Any, *args: Any, **kwargs: Any) -> str:
    """The class of the error that a call raises, or what it returns."""
    try:
        return f"no error: {function(*args, **kwargs)!r}"
    except Exception as error:
        return type(error).__name__


def plain(value: Any) -> Any:
    """Anything with tensors in it as Python numbers, which the two libraries have in common."""
    if hasattr(value, "detach"):
        return np.round(value.detach().numpy().astype(float), 4).tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def net(torch: Any) -> Any:
    """A small model with parts of every kind."""
    torch.manual_seed(0)
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.scale = nn.Parameter(torch.ones(2))
            self.nothing = None
            self.register_parameter("absent", None)
            self.register_buffer("steps", torch.tensor(3))
            self.register_buffer("cache", torch.zeros(1), persistent=False)

        def forward(self, x: Any, power: int = 1) -> Any:
            return self.fc(x) * self.scale**power

    return nn.Sequential(OrderedDict(first=Block(), middle=nn.Tanh(), last=nn.Linear(2, 1)))


# --- attributes


@story
def assigned_members_are_registered(torch):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2))
    module.part = torch.nn.Linear(1, 1)
    module.number, module.tensor = 3, torch.ones(1)
    module.buffer = torch.nn.Buffer(torch.zeros(1), persistent=False)
    seen = [[*module._parameters], [*module._modules], [*module._buffers], [*module.state_dict()]]
    module.weight = None
    seen += [module.weight, [*module._parameters], [*module.parameters()] == [*module.part.parameters()]]
    module.part = None
    return [*seen, module.part, [*module._modules], module.number, plain(module.tensor)]


@story
def a_name_changes_its_kind(torch):
    nn = torch.nn
    module = nn.Module()
    module.x = 1
    module.x = nn.Parameter(torch.ones(1))
    seen = [[*module._parameters], "x" in module._buffers]
    module.x = None
    del module.x
    seen.append(hasattr(module, "x"))
    module.x = nn.Linear(1, 2)
    seen.append([[*module._parameters], [*module._modules], module.x.out_features])
    module.x = nn.Parameter(torch.zeros(1))
    seen.append([[*module._parameters], [*module._modules]])
    del module.x
    module.register_buffer("x", torch.ones(3), persistent=False)
    module.x = torch.zeros(2)
    seen.append([[*module._buffers], plain(module.x), [*module.state_dict()]])
    module.x = nn.Parameter(torch.zeros(1))
    return [*seen, [*module._buffers], [*module.state_dict()]]


@story
def wrong_members_are_refused(torch):
    nn = torch.nn
    module = nn.Linear(2, 1)
    module.register_buffer("buffer", torch.ones(1))
    module.plain = 1
    leafless = nn.Parameter(torch.ones(1))
    leafless_product = leafless * 2
    seen = [
        refused(setattr, module, "weight", torch.ones(1)), refused(setattr, module, "weight", 3),
        refused(setattr, module, "buffer", 3), refused(module.register_parameter, "w", torch.ones(1)),
        refused(module.register_parameter, "w", leafless_product), refused(module.register_buffer, "b", 3),
        refused(module.register_buffer, "weight", torch.ones(1)),
        refused(module.register_buffer, "plain", torch.ones(1)),
        refused(module.register_parameter, "plain", nn.Parameter(torch.ones(1))),
        refused(module.add_module, "weight", nn.Identity()), refused(module.add_module, "a.b", nn.Identity()),
        refused(module.add_module, "", nn.Identity()), refused(module.add_module, 3, nn.Identity()),
        refused(module.add_module, "m", 3), refused(module.register_parameter, "a.b", nn.Parameter(torch.ones(1))),
        refused(module.register_buffer, "a.b", torch.ones(1)), refused(module.register_buffer, 3, torch.ones(1)),
        refused(setattr, module, "plain", nn.Buffer(torch.ones(1))), refused(getattr, module, "missing"),
        refused(delattr, module, "missing"), refused(nn.Module, 1), refused(nn.Module, a=1),
    ]  # fmt: skip
    module.add_module("part", nn.Identity())
    seen += [refused(setattr, module, "part", 3), refused(setattr, module, "part", torch.ones(1))]
    return [seen, module.plain, [*module._parameters], [*module._buffers], [*module._modules]]


@story
def members_before_init_are_refused(torch):
    nn = torch.nn

    class Early(nn.Module):
        def __init__(self, what: Any) -> None:
            self.member = what

    class EarlyBuffer(nn.Module):
        def __init__(self) -> None:
            self.register_buffer("b", torch.ones(1))

    class EarlyParameter(nn.Module):
        def __init__(self) -> None:
            self.register_parameter("p", None)

    class NoInit(nn.Module):
        def __init__(self) -> None:
            pass

    return [
        refused(Early, nn.Parameter(torch.ones(1))), refused(Early, nn.Linear(1, 1)), refused(EarlyBuffer),
        refused(EarlyParameter), refused(NoInit()), type(Early(3)).__name__,
    ]  # fmt: skip


@story
def dictionaries_of_members_may_be_written(torch):
    nn = torch.nn
    layer = nn.Linear(2, 1)
    weight, layer._parameters["weight"] = layer._parameters["weight"], nn.Parameter(torch.ones(1, 2))
    seen = [plain(layer.weight), plain(layer(torch.ones(1, 2)) - layer.bias)]
    del layer._parameters["bias"]
    seen.append(hasattr(layer, "bias"))
    layer._parameters.update(weight=weight, bias=None)
    seen += [layer.weight is weight, layer.bias]
    layer._parameters.pop("bias")
    seen += [hasattr(layer, "bias"), layer._parameters.pop("bias", 7), refused(layer._parameters.pop, "bias")]
    layer._buffers.setdefault("count", torch.tensor(1))
    seen.append(plain(layer.count))
    layer._buffers.clear()
    layer._modules |= {"part": nn.Identity()}
    seen += [hasattr(layer, "count"), repr(layer.part)]
    layer._parameters = OrderedDict(other=weight)
    return [*seen, hasattr(layer, "weight"), layer.other is weight, [*layer.state_dict()]]


@story
def an_own_attribute_hides_a_member(torch):
    layer = torch.nn.Linear(2, 1)
    layer.__dict__["weight"] = "mine"
    seen = [layer.weight]
    del layer.__dict__["weight"]
    return [*seen, plain(layer.weight.shape)]


@story
def getattr_of_a_subclass(torch):
    class Wrapper(torch.nn.Module):
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

    wrapper = Wrapper(torch.nn.Linear(3, 2))
    return [wrapper.in_features, plain(wrapper.weight.shape), refused(getattr, wrapper, "missing")]


@story
def dir_lists_the_members(torch):
    names = dir(net(torch).first)
    return [name in names for name in ("fc", "scale", "steps", "cache", "nothing", "absent", "forward", "training")]


@story
def super_init_is_called_on_demand(torch):
    seen = []

    class Other:
        def __init__(self, note: str) -> None:
            seen.append(note)

    class Both(torch.nn.Module, Other):
        call_super_init = True

        def __init__(self) -> None:
            super().__init__(note="called")

    Both()
    return seen


# --- the tree


@story
def names_of_everything(torch):
    model = net(torch)
    model.first.twin = model.first.fc
    model.tied = model.last
    return [
        [name for name, _ in model.named_modules()], [name for name, _ in model.named_modules(prefix="p")],
        [name for name, _ in model.named_modules(remove_duplicate=False)], [name for name, _ in model.named_children()],
        [name for name, _ in model.named_parameters()], [name for name, _ in model.named_parameters("p", False)],
        [name for name, _ in model.named_parameters(remove_duplicate=False)],
        [name for name, _ in model.first.named_parameters(recurse=False)],
        [name for name, _ in model.named_buffers()], [name for name, _ in model.named_buffers(recurse=False)],
        len([*model.parameters()]), len([*model.buffers()]), len([*model.modules()]), len([*model.children()]),
        [*model.state_dict()],
    ]  # fmt: skip


@story
def places_in_the_tree(torch):
    model = net(torch)
    seen = [
        repr(model.get_submodule("first.fc")), model.get_submodule("") is model,
        plain(model.get_parameter("first.scale")), plain(model.get_buffer("first.steps")),
        refused(model.get_submodule, "first.no"), refused(model.get_submodule, "first.scale"),
        refused(model.get_parameter, "first.steps"), refused(model.get_parameter, "first.no"),
        refused(model.get_buffer, "first.scale"), refused(model.get_buffer, "no.scale"),
    ]  # fmt: skip
    model.set_submodule("first.fc", torch.nn.Identity())
    seen += [repr(model.first.fc), refused(model.set_submodule, "", torch.nn.Identity())]
    seen += [refused(model.set_submodule, "first.scale", torch.nn.Identity())]
    seen += [refused(model.set_submodule, "first.no", torch.nn.Identity(), strict=True)]
    return seen


@story
def apply_goes_from_the_inside(torch):
    order = []
    model = net(torch)
    assert model.apply(lambda module: order.append(type(module).__name__)) is model
    return order


@story
def training_is_set_everywhere(torch):
    model = net(torch)
    model.eval()
    seen = [[module.training for module in model.modules()]]
    model.first.train()
    seen += [[module.training for module in model.modules()], model.train() is model]
    return [*seen, [module.training for module in model.modules()], refused(model.train, "yes")]


@story
def freezing_and_forgetting_gradients(torch):
    model = net(torch)
    model.requires_grad_(False)
    seen = [[p.requires_grad for p in model.parameters()]]
    model.last.requires_grad_()
    model(torch.ones(1, 2)).sum().backward()
    seen.append([plain(p.grad) for p in model.parameters()])
    model.zero_grad(set_to_none=False)
    seen.append([plain(p.grad) for p in model.parameters()])
    model.zero_grad()
    return [*seen, [p.grad for p in model.parameters()]]


@story
def dtypes_change_together(torch):
    model = net(torch)
    model(torch.ones(1, 2)).sum().backward()
    weight = model.last.weight
    seen = []
    for change in (
        lambda: model.double(), lambda: model.half(), lambda: model.bfloat16(), lambda: model.float(),
        lambda: model.to(torch.float64), lambda: model.to("cpu", torch.float32),
        lambda: model.to(torch.ones(1, dtype=torch.float64)),
        lambda: model.to(dtype=torch.float32), lambda: model.cpu(), lambda: model.type(torch.float64),
    ):  # fmt: skip
        assert change() is model
        seen.append([str(t.dtype) for t in (*model.parameters(), *model.buffers(), model.last.weight.grad)])
    seen += [model.last.weight is weight, refused(model.to, torch.int64)]
    return seen


@story
def new_memory_of_the_same_shapes(torch):
    model = net(torch)
    model.to_empty(device="cpu")
    return [plain(list(p.shape)) for p in model.parameters()]


# --- calling


@story
def arguments_reach_forward(torch):
    class Keep(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

    return [Keep()(1, 2, a=3), refused(torch.nn.Module()), refused(torch.nn.Linear(1, 1)), refused(torch.nn.Identity())]


@story
def forward_hooks_in_order(torch):
    seen = []
    layer = torch.nn.Identity()
    layer.register_forward_hook(lambda m, args, out: seen.append(("second", plain(args), plain(out))))
    layer.register_forward_hook(lambda m, args, out: seen.append(("first", plain(args))), prepend=True)
    double = layer.register_forward_hook(lambda m, args, out: out * 2)
    layer.register_forward_hook(lambda m, args, kw, out: seen.append(("last", plain(kw))), with_kwargs=True)
    seen.append(plain(layer(torch.ones(1))))
    double.remove()
    double.remove()
    seen.append(plain(layer(input=torch.ones(1))))
    with layer.register_forward_hook(lambda m, args, out: out + 5):
        seen.append(plain(layer(torch.ones(1))))
    return [*seen, plain(layer(torch.ones(1)))]


@story
def forward_pre_hooks_in_order(torch):
    seen = []

    class Sum(torch.nn.Module):
        def forward(self, x: Any, y: Any = 0) -> Any:
            return x + y

    layer = Sum()
    layer.register_forward_pre_hook(lambda m, args: seen.append(("second", plain(args))))
    layer.register_forward_pre_hook(lambda m, args: args[0] * 2, prepend=True)
    layer.register_forward_pre_hook(lambda m, args, kw: (args, {**kw, "y": 10}), with_kwargs=True)
    seen.append(plain(layer(torch.ones(1))))
    wrong = layer.register_forward_pre_hook(lambda m, args, kw: args, with_kwargs=True)
    seen.append(refused(layer, torch.ones(1)))
    wrong.remove()
    return [*seen, plain(layer(torch.ones(1)))]


@story
def hooks_that_are_always_called(torch):
    seen = []

    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    layer = Fails()
    layer.register_forward_hook(lambda m, args, out: seen.append("never"))
    layer.register_forward_hook(lambda m, args, out: seen.append(("always", out)), always_call=True)
    layer.register_forward_hook(lambda m, a, kw, out: seen.append(("kwargs", kw)), always_call=True, with_kwargs=True)
    seen.append(refused(layer, x=1))
    fine = torch.nn.Identity()

    def fail(*args: Any) -> None:
        raise KeyError("hook")

    fine.register_forward_hook(lambda m, args, out: seen.append("before"), always_call=True)
    fine.register_forward_hook(fail)
    fine.register_forward_hook(lambda m, args, out: seen.append("after"), always_call=True)
    return [*seen, refused(fine, 1)]


@story
def global_hooks(torch):
    seen = []
    module = torch.nn.modules.module
    handles = [
        module.register_module_forward_pre_hook(lambda m, args: seen.append(("pre", type(m).__name__))),
        module.register_module_forward_hook(lambda m, args, out: seen.append(("post", type(m).__name__))),
        module.register_module_full_backward_pre_hook(lambda m, g: seen.append(("back pre", type(m).__name__))),
        module.register_module_full_backward_hook(lambda m, a, g: seen.append(("back", type(m).__name__))),
    ]
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    model[0].register_forward_hook(lambda m, args, out: seen.append("own"))
    model(torch.ones(1, 2)).sum().backward()
    for handle in handles:
        handle.remove()
    model(torch.ones(1, 2)).sum().backward()
    return seen


@story
def registration_hooks(torch):
    seen = []
    module = torch.nn.modules.module
    handles = [
        getattr(module, f"register_module_{kind}_registration_hook")(
            lambda m, name, value, kind=kind: seen.append((kind, type(m).__name__, name))
        )
        for kind in ("parameter", "buffer", "module")
    ]
    model = net(torch)
    model.append(torch.nn.ReLU())
    model[0].scale = torch.nn.Parameter(torch.zeros(1))
    model[0].steps = torch.ones(1)
    model[0].part = torch.nn.Identity()
    replaced = module.register_module_parameter_registration_hook(lambda m, name, value: torch.nn.Parameter(value * 0))
    layer = torch.nn.Linear(1, 1)
    for handle in (*handles, replaced):
        handle.remove()
    torch.nn.Linear(1, 1)
    return [*seen, plain(layer.weight.shape)]


@story
def backward_hooks(torch):
    seen = []
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
    for name in ("0", "1", "2", ""):
        part = model.get_submodule(name)
        part.register_full_backward_hook(lambda m, gin, gout, n=name: seen.append((n, plain(gin), plain(gout))))
        part.register_full_backward_pre_hook(lambda m, gout, n=name: seen.append((n, "pre", plain(gout))))
    model(torch.ones(1, 2)).sum().backward()
    x = torch.ones(1, 2, requires_grad=True)
    model(x).sum().backward()
    return [*seen, plain(x.grad), [plain(p.grad) for p in model.parameters()]]


@story
def backward_hooks_change_gradients(torch):
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_pre_hook(lambda m, gout: (gout[0] * 2,))
    layer.register_full_backward_hook(lambda m, gin, gout: (gin[0] * 10,))
    layer.register_full_backward_hook(lambda m, gin, gout: (gin[0] + 1,), prepend=True)
    x = torch.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    seen = [plain(x.grad), plain(layer.weight.grad)]
    layer.register_full_backward_hook(lambda m, gin, gout: (gin[0], gin[0]))
    return [*seen, refused(layer(x).sum().backward)]


@story
def backward_hooks_of_many_inputs_and_outputs(torch):
    seen = []

    class Mixed(torch.nn.Module):
        def forward(self, x: Any, flag: Any, y: Any) -> Any:
            return x * y, flag, y + 1, (x + y).detach()

    layer = Mixed()
    layer.register_full_backward_hook(lambda m, gin, gout: seen.append((plain(gin), plain(gout))))
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    a, flag, b, c = layer(x, "flag", y)
    a.sum().backward()
    seen += [flag, plain(b), plain(c), b.requires_grad, plain(x.grad)]
    return seen


@story
def backward_hooks_without_inputs_that_learn(torch):
    seen = []
    torch.manual_seed(0)
    layer = torch.nn.Linear(2, 1)
    layer.register_full_backward_hook(lambda m, gin, gout: seen.append((plain(gin), plain(gout))))
    layer(torch.ones(3, 2)).sum().backward()
    layer.register_full_backward_hook(lambda m, gin, gout: (gout[0],))
    return [*seen, refused(layer(torch.ones(3, 2)).sum().backward)]


# --- text


@story
def text_of_a_model(torch):
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU())
            self.gone = None
            self.add_module("empty", None)

        def extra_repr(self) -> str:
            return "one\ntwo"

    class Short(torch.nn.Linear):
        def extra_repr(self) -> str:
            return ""

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.nn.Identity()

        def extra_repr(self) -> str:
            return "in one line"

    return [repr(net(torch)), repr(Odd()), repr(Short(1, 1)), repr(Line()), repr(torch.nn.Module()), str(Line())]


# --- saving and loading


@story
def state_of_a_model(torch):
    model = net(torch)
    state = model.state_dict()
    state["last.bias"].fill_(7)  # shares the model's memory
    return [
        plain(state), type(state).__name__, plain(model.last.bias), [*state._metadata],
        state["last.bias"].requires_grad, [*model.state_dict(prefix="p.")],
        model.state_dict(keep_vars=True)["last.bias"] is model.last.bias,
        model.state_dict(destination=OrderedDict(a=1))["a"],
    ]  # fmt: skip


@story
def loading_what_fits(torch):
    model, other = net(torch), net(torch)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor += 1
    weight = model.last.weight
    report = model.load_state_dict(other.state_dict())
    return [repr(report), plain(model.state_dict()), model.last.weight is weight, model.last.weight.requires_grad]


@story
def loading_what_does_not_fit(torch):
    model = net(torch)
    state = model.state_dict()
    state["strange"], state["first.strange"], state["middle.w"] = torch.ones(1), torch.ones(1), torch.ones(1)
    del state["last.bias"], state["first.fc.weight"]
    report = model.load_state_dict(state, strict=False)
    seen = [report.missing_keys, report.unexpected_keys, refused(model.load_state_dict, state)]
    state = net(torch).state_dict()
    state["last.bias"] = torch.ones(3)
    seen += [refused(model.load_state_dict, state), refused(model.load_state_dict, state, strict=False)]
    return [*seen, refused(model.load_state_dict, [1]), refused(model.load_state_dict, {"a": 1})]


@story
def errors_list_everything(torch):
    model = net(torch)
    state = model.state_dict()
    state["strange"] = torch.ones(1)
    state["last.weight"] = torch.ones(4, 4)
    del state["last.bias"]
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        return str(error).split("\n  where")[0]
    return "no error"


@story
def loading_by_assignment(torch):
    model = net(torch).requires_grad_(False)
    state = {key: value.double() for key, value in net(torch).state_dict().items()}
    model.load_state_dict(state, assign=True)
    seen = [str(p.dtype) for p in model.parameters()] + [p.requires_grad for p in model.parameters()]
    mine = torch.nn.Parameter(torch.ones(1))
    model.load_state_dict({**state, "last.bias": mine}, assign=True)
    return [*seen, model.last.bias is mine, mine.requires_grad, type(model.last.weight).__name__]


@story
def scalars_saved_as_vectors(torch):
    module = torch.nn.Module()
    module.scale = torch.nn.Parameter(torch.tensor(1.0))
    module.load_state_dict({"scale": torch.tensor([3.0])})
    return plain(module.scale)


@story
def state_hooks(torch):
    seen = []
    model = net(torch)
    first = model.first
    first.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("save pre", prefix, keep)))
    first.register_state_dict_post_hook(lambda m, state, prefix, meta: seen.append(("save post", [*state], prefix)))
    first._register_state_dict_hook(lambda m, state, prefix, meta: state.update(extra=torch.ones(1)))
    first.register_load_state_dict_pre_hook(
        lambda m, state, prefix, meta, strict, *rest: seen.append((type(m).__name__, prefix, strict))
    )
    first._register_load_state_dict_pre_hook(
        lambda state, prefix, *rest: state.pop("extra", None) and seen.append("popped")
    )
    model.register_load_state_dict_post_hook(lambda m, keys: seen.append((keys.missing_keys, keys.unexpected_keys)))
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = model.state_dict()
    seen.append([*state])
    del state["extra"], state["last.bias"]
    seen.append(repr(model.load_state_dict(state)))
    first.register_state_dict_post_hook(lambda m, state, prefix, meta: state)
    return [*seen, refused(model.state_dict)]


@story
def extra_state(torch):
    class Counting(torch.nn.Linear):
        count = 0

        def get_extra_state(self) -> Any:
            return {"count": self.count}

        def set_extra_state(self, state: Any) -> None:
            self.count = state["count"]

    layer, other = Counting(1, 1), Counting(1, 1)
    layer.count = 5
    other.load_state_dict(layer.state_dict())
    state = layer.state_dict()
    del state["_extra_state"]
    plainer = torch.nn.Linear(1, 1)
    return [
        [*layer.state_dict()], other.count, refused(other.load_state_dict, state),
        other.load_state_dict(state, strict=False).missing_keys, refused(plainer.load_state_dict, layer.state_dict()),
        plainer.load_state_dict(layer.state_dict(), strict=False).unexpected_keys, refused(plainer.get_extra_state),
    ]  # fmt: skip


# --- copies


@story
def copies_are_apart(torch):
    model = net(torch)
    model.first.twin = model.first.fc
    model(torch.ones(1, 2)).sum().backward()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.last.bias.fill_(9)
    return [
        repr(model) == repr(other), plain(other.last.bias), plain(model.last.bias), other.first.twin is other.first.fc,
        other.first.fc.weight is model.first.fc.weight, other.last.bias.grad, [*other.state_dict()],
        plain(other(torch.ones(1, 2)) - model(torch.ones(1, 2)) + model.last.bias),
    ]  # fmt: skip


@story
def copies_keep_their_hooks(torch):
    seen = []
    layer = torch.nn.Linear(1, 1)
    layer.register_forward_hook(Note(seen))
    layer.register_load_state_dict_pre_hook(note_module)
    other = copy.deepcopy(layer)
    other(torch.ones(1, 1))
    other.load_state_dict(layer.state_dict())
    return [seen, len(other._forward_hooks), getattr(other, "noted", None), getattr(layer, "noted", None)]


class Note:
    """A hook that notes its calls, and stays itself when it is copied."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        self.seen.append(type(module).__name__)

    def __deepcopy__(self, memo: Any) -> "Note":
        return self


@story
def handles_are_copied_with_their_hooks(torch):
    layer = torch.nn.Linear(1, 1)
    layer.handle = layer.register_forward_hook(Note([]))
    other, pickled = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    other.handle.remove()
    pickled.handle.remove()
    seen = [len(module._forward_hooks) for module in (layer, other, pickled)]
    lazy = torch.nn.LazyLinear(1)
    others = [copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))]
    for module in (*others, lazy):
        module(torch.ones(1, 3)), module(torch.ones(1, 3))
        seen.append((repr(module), len(module._forward_pre_hooks)))
    return seen


def note_module(module: Any, *rest: Any) -> None:
    module.noted = True


@story
def a_copy_by_hand(torch):
    layer = torch.nn.Linear(2, 1)
    clone = layer.__class__.__new__(layer.__class__)
    for name, value in layer.__dict__.items():
        setattr(clone, name, copy.deepcopy(value))
    clone.weight = torch.nn.Parameter(torch.zeros(1, 2))
    replica = layer.__new__(type(layer))
    replica.__dict__ = layer.__dict__.copy()
    replica._parameters = replica._parameters.copy()
    replica._parameters["bias"] = torch.nn.Parameter(torch.full((1,), 5.0))
    replica.extra = 1
    return [
        plain(clone.weight), plain(clone(torch.ones(1, 2)) - clone.bias), layer.weight is clone.weight,
        plain(replica.bias), replica.weight is layer.weight, plain(layer.bias) == plain(replica.bias),
        hasattr(layer, "extra"),
    ]  # fmt: skip


# --- containers


@story
def sequential(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    seen = [repr(model), len(model), repr(model[1]), repr(model[-1]), repr(model[:2]), repr(model[::2])]
    model.append(nn.Tanh()).insert(0, nn.Identity())
    model.extend([nn.Sigmoid()])
    seen += [repr(model), [*model._modules]]
    model[1] = nn.Flatten()
    del model[0], model[1:3]
    seen += [repr(model), repr(model.pop(-1)), repr(model + nn.Sequential(nn.GELU())), repr(model * 2), repr(2 * model)]
    model += nn.Sequential(nn.ELU())
    seen += [repr(model), [repr(part) for part in model], plain(nn.Sequential()(torch.ones(1)))]
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    seen += [repr(named), repr(named.a), repr(named[:1]), repr(named.pop(1))]
    return [
        seen, refused(lambda: model[9]), refused(lambda: model["a"]), refused(nn.Sequential, 3),
        refused(model.append, 3), refused(lambda: model + 3), refused(lambda: model * 0), refused(lambda: model * 1.5),
        refused(model.insert, 99, nn.ReLU()),
        refused(model.__setitem__, 9, nn.ReLU()), refused(model, 1, 2),
    ]  # fmt: skip


@story
def module_list(torch):
    nn = torch.nn
    parts = nn.ModuleList([nn.Linear(1, 2) for _ in range(3)] + [nn.ReLU()])
    seen = [repr(parts), len(parts), repr(parts[-1]), repr(parts[1:]), [*parts._modules], parts[0] in parts]
    parts.append(nn.Tanh()).extend([nn.ELU()])
    parts.insert(1, nn.Identity())
    parts[0] = nn.Flatten()
    seen += [repr(parts), repr(parts.pop(2)), repr(parts.__add__([nn.GELU()]))]
    del parts[0], parts[-2:]
    parts += [nn.Sigmoid()]
    seen += [repr(parts), [repr(part) for part in parts], repr(nn.ModuleList())]
    seen.append([name for name, _ in parts.named_modules()])
    nested = nn.ModuleList([nn.Sequential(nn.Linear(1, 1)) for _ in range(2)])
    return [
        seen, repr(nested), refused(lambda: parts[9]), refused(lambda: parts["a"]), refused(parts.extend, 3),
        refused(parts.append, 3), refused(parts, torch.ones(1)), refused(nn.ModuleList, 3),
    ]  # fmt: skip


@story
def module_dict(torch):
    nn = torch.nn
    parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(1, 2)})
    parts["c"] = nn.Tanh()
    parts.update([("d", nn.ELU())])
    parts.update(OrderedDict(e=nn.Identity()))
    parts.update(nn.ModuleDict({"f": nn.GELU()}))
    seen = [repr(parts), len(parts), [*parts], [*parts.keys()], [repr(v) for v in parts.values()], "a" in parts]
    seen += [repr(parts.pop("a")), repr(parts.b), [(k, repr(v)) for k, v in parts.items()]]
    del parts["b"]
    seen.append([*parts])
    seen += [refused(lambda: parts["b"]), refused(parts.update, 3), refused(parts.__setitem__, "x", 3)]
    seen.append(refused(parts, 1))
    seen += [refused(parts.__setitem__, "keys", nn.ReLU()), refused(parts.__setitem__, 3, nn.ReLU())]
    seen += [refused(parts.update, [("a",)]), refused(parts.update, [3])]
    parts.clear()
    return [*seen, len(parts), repr(parts)]


@story
def parameter_list(torch):
    nn = torch.nn
    values = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1, 3)), "word"])
    values.append(torch.ones(())).extend([torch.ones(1)])
    values[0] = torch.full((2,), 4.0)
    seen = [repr(values), len(values), [name for name, _ in values.named_parameters()], plain(values[0]), values[2]]
    seen += [plain(list(values[3:])), type(values[-1]).__name__, [plain(v) for v in values], [*values.state_dict()]]
    values += [torch.zeros(2)]
    seen += [len(values), refused(lambda: values[9]), refused(values.extend, 3), refused(values, 1)]
    return [*seen, refused(nn.ParameterList, 3)]


@story
def parameter_dict(torch):
    nn = torch.nn
    values = nn.ParameterDict({"a": torch.ones(2), "b": nn.Parameter(torch.zeros(1))})
    values["c"] = torch.full((3,), 2.0)
    values.update({"d": torch.ones(1), "word": "text"})
    seen = [repr(values), len(values), [*values], [*values.keys()], plain(values["a"]), "a" in values, values.get("no")]
    seen += [plain(list(values.values())), [k for k, _ in values.items()], [*reversed(values)], [*values.state_dict()]]
    seen += [plain(values.pop("a")), values.popitem()[0], plain(values.setdefault("z", torch.ones(1)))]
    other = values | nn.ParameterDict({"y": torch.ones(1)})
    values |= nn.ParameterDict({"x": torch.ones(1)})
    del values["b"]
    seen += [[*other], [*values], [*values.copy()], [*values.fromkeys(["p", "q"], torch.ones(1))]]
    seen += [refused(lambda: values["no"]), refused(values.update, 3), refused(values, 1), hasattr(values, "c")]
    values.clear()
    return [*seen, len(values), repr(values), [*values.parameters()]]


# --- parameters


@story
def parameters_and_buffers(torch):
    nn = torch.nn
    data = torch.ones(2)
    parameter = nn.Parameter(data)
    data[0] = 5
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)
    other = copy.deepcopy(parameter)
    return [
        repr(parameter), plain(parameter), parameter.requires_grad, parameter.is_leaf, repr(frozen), plain(other),
        isinstance(other, nn.Parameter), isinstance(parameter * 1, nn.Parameter), isinstance(data, nn.Parameter),
        type(parameter).__name__, type(parameter.data).__name__, type(parameter.detach()).__name__,
        isinstance(nn.Buffer(torch.ones(1)), nn.Buffer), isinstance(torch.ones(1), nn.Buffer),
        isinstance(parameter, torch.Tensor), refused(nn.Parameter, torch.ones(1, dtype=torch.int64)),
        repr(nn.Parameter(torch.ones(1, dtype=torch.int64), requires_grad=False)),
    ]  # fmt: skip


# --- lazy modules


@story
def lazy_modules(torch):
    nn = torch.nn
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(1, bias=False))
    seen = [repr(model), repr(model[0].weight), model[0].has_uninitialized_params(), [*model.state_dict()]]
    seen += [refused(lambda: model[0].weight.shape), [repr(p) for p in model.parameters()]]
    model.double()
    model(torch.ones(2, 5).double())
    seen += [repr(model), [plain(list(p.shape)) for p in model.parameters()], str(model[0].weight.dtype)]
    lazy = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(1, bias=False))
    lazy.load_state_dict(model.state_dict())
    seen += [plain(list(lazy[0].weight.shape)), repr(lazy), lazy[0].has_uninitialized_params()]
    seen.append(plain(lazy(torch.ones(2, 5))) == plain(model(torch.ones(2, 5).double())))
    seen += [repr(lazy), repr(copy.deepcopy(nn.LazyLinear(2)))]
    fresh = nn.LazyLinear(3)
    fresh.load_state_dict(nn.LazyLinear(3).state_dict())
    return [*seen, fresh.has_uninitialized_params(), refused(nn.LazyLinear(3), torch.ones(()))]


# --- found by PyTorch's own tests


@story
def a_handle_takes_its_hook_away_with_what_was_noted_of_it(torch: Any) -> Any:
    layer = torch.nn.Linear(1, 1)
    handles = [
        layer.register_forward_hook(lambda *_: None, with_kwargs=True, always_call=True),
        layer.register_forward_pre_hook(lambda *_: None, with_kwargs=True),
    ]
    noted = layer._forward_hooks_with_kwargs, layer._forward_hooks_always_called, layer._forward_pre_hooks_with_kwargs
    seen = [[len(flags) for flags in noted], len(handles[0].hooks_dict_ref())]
    for handle in handles:
        handle.remove()
    own, flags = OrderedDict(), OrderedDict()
    handle = torch.utils.hooks.RemovableHandle(own, extra_dict=flags)
    own[handle.id] = flags[handle.id] = True
    handle.remove()
    return [*seen, [len(flags) for flags in noted], len(handles[0].hooks_dict_ref()), own, flags]


@story
def a_full_hook_without_gradients_of_inputs_warns(torch: Any) -> Any:
    layer = torch.nn.Linear(1, 1)
    seen = []
    for register in (layer.register_full_backward_pre_hook, layer.register_full_backward_hook):
        register(lambda *_: None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer(torch.ones(1, 1)).sum().backward()
        seen.append([each.category.__name__ for each in caught])
    return seen


@story
def what_is_refused_before_it_is_used(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    x, cpu = torch.ones(1), torch.device("cpu")
    lazy = torch.nn.LazyLinear(2)
    return [
        refused(model.set_submodule, "0", "no module"), refused(model.to, cpu, True), refused(model.to, None, True),
        refused(x.to, cpu, True), refused(x.to, "cpu", True), refused(x.to, []), refused(x.to, cpu, torch.ones(1)),
        refused(lazy.share_memory), refused(torch.nn.utils.spectral_norm, lazy), [k for k in dir(model) if k[0] == "0"],
        refused(torch.nn.FractionalMaxPool3d, 0, 1), model.to(cpu, torch.float64, True) is model,
    ]  # fmt: skip


@story
def a_lazy_parameter_gets_its_shape(torch: Any) -> Any:
    parameters = [torch.nn.UninitializedParameter() for _ in range(3)]
    for parameter, shape in zip(parameters, (4, (2, 3), torch.Size([1])), strict=True):
        parameter.materialize(shape)
    return [list(parameter.shape) for parameter in parameters]


@story
def the_future_is_an_attribute(torch: Any) -> Any:
    return torch.__future__.get_swap_module_params_on_conversion()


# ---


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_story_is_pytorchs(torch, name):
    assert STORIES[name](pellucid) == STORIES[name](torch)


# --- what PyTorch does not have, or has otherwise


def state_of(model: Any) -> list[Any]:
    return [(name, tensor.numpy().tobytes()) for name, tensor in model.state_dict().items()]


FAILED_LOADS = {
    "a missing key": lambda state: state.pop("last.bias"),
    "a strange key": lambda state: state.update(strange=pellucid.ones(1)),
    "another shape": lambda state: state.update({"last.bias": pellucid.ones(3)}),
    "no tensor": lambda state: state.update({"last.bias": [1.0]}),
}


@pytest.mark.parametrize("what", FAILED_LOADS)
@pytest.mark.parametrize("assign", [False, True])
def test_a_failed_load_changes_nothing(what, assign):
    model, other = net(pellucid), net(pellucid)
    before, tensors = state_of(model), [*model.parameters(), *model.buffers()]
    state = other.state_dict()
    for tensor in state.values():
        tensor.add_(1)
    FAILED_LOADS[what](state)
    with pytest.raises(RuntimeError, match=r"Error\(s\) in loading state_dict for Sequential") as failure:
        model.load_state_dict(state, assign=assign)
    assert "nothing was loaded" in str(failure.value) and __file__ in str(failure.value)
    assert state_of(model) == before
    assert all(a is b for a, b in zip(tensors, [*model.parameters(), *model.buffers()]))


def test_a_failed_load_leaves_lazy_parameters_lazy():
    model = pellucid.nn.Sequential(pellucid.nn.LazyLinear(3), pellucid.nn.Linear(3, 1))
    state = pellucid.nn.Sequential(pellucid.nn.Linear(2, 3), pellucid.nn.Linear(3, 1)).state_dict()
    state["1.bias"] = pellucid.ones(7)
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.load_state_dict(state)
    assert model[0].has_uninitialized_params()
    assert model(pellucid.ones(1, 5)).shape == (1, 1)  # still takes any size


def test_a_refused_member_leaves_the_old_one():
    layer = pellucid.nn.Linear(2, 1)
    weight, bias = layer.weight, layer.bias
    product = pellucid.nn.Parameter(pellucid.ones(1, 2)) * 2
    product.__class__ = pellucid.nn.Parameter
    for name, value in (("weight", pellucid.ones(1)), ("weight", 3), ("bias", product)):
        with pytest.raises((TypeError, ValueError)):
            setattr(layer, name, value)
    assert layer.weight is weight and layer.bias is bias and list(layer._parameters) == ["weight", "bias"]


class Encoder(pellucid.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = pellucid.nn.Linear(4, 5), pellucid.nn.Linear(6, 2)

    def forward(self, x):
        return self.fc2(self.fc1(x).flatten(1))


class Model(pellucid.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x)


def test_a_shape_error_names_the_module():
    with pytest.raises(RuntimeError) as failure:
        Model()(pellucid.ones(1, 1, 4))
    text = str(failure.value)
    assert "mat1 and mat2 shapes cannot be multiplied (1x5 and 6x2)" in text
    assert text.count("module:") == 1
    last = text.splitlines()[-1]
    assert last.startswith("  module: encoder.fc2, Linear(6 -> 2), got (1, 5); that shape was made at ")
    assert "test_module.py:" in last and last.endswith("self.fc2(self.fc1(x).flatten(1)) by reshape")


def test_an_error_of_the_user_keeps_its_text():
    class Picky(pellucid.nn.Module):
        def forward(self, x):
            raise ValueError("too small", x.shape)

    model = pellucid.nn.Sequential(pellucid.nn.Identity(), Picky())
    with pytest.raises(ValueError, match="too small") as failure:
        model(pellucid.ones(2))
    assert failure.value.args == ("too small", pellucid.Size([2]))
    assert failure.value.__notes__ == ["  module: 1, Picky(), got (2,)"]
    assert pickle.loads(pickle.dumps(failure.value)).args == failure.value.args  # without the module


def test_a_node_knows_its_module():
    from pellucid.nn.modules.calls import module_of

    model, inside = Model(), []
    model.encoder.fc2 = pellucid.nn.Linear(5, 2)
    model.encoder.register_forward_hook(lambda module, args, output: inside.append(module_of(output.grad_fn)))
    y = model(pellucid.ones(1, 4))
    assert module_of(y.grad_fn) == ("encoder.fc2", model.encoder.fc2) == inside[0]
    assert module_of((y * 2).grad_fn) is None


def test_models_are_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        model = net(pellucid)
        model(pellucid.ones(1, 2)).sum().backward()
        alive = [weakref.ref(model), weakref.ref(model.last.weight)]
        del model
        assert [reference() for reference in alive] == [None, None]
    finally:
        gc.enable()


def test_a_pickle_carries_no_mirrors():
    layer = pellucid.nn.Linear(2, 1)
    state = layer.__getstate__()
    assert "weight" not in state and type(state["_parameters"]) is dict
    other = pickle.loads(pickle.dumps(layer))
    assert "weight" in other.__dict__ and other.weight is other._parameters["weight"]
    assert copy.copy(layer).weight is layer.weight


def test_a_module_that_pytorch_pickled_keeps_its_hooks():
    state = pellucid.nn.Linear(2, 1).__getstate__()
    seen = []
    state["_forward_hooks"] = OrderedDict({0: lambda m, a, kw, out: seen.append(kw), 1: lambda m, a, out: out * 0})
    state["_forward_hooks_with_kwargs"] = OrderedDict({0: True})
    state["_backward_hooks"] = OrderedDict({2: lambda m, gin, gout: seen.append(plain(gout))})
    layer = pellucid.nn.Linear.__new__(pellucid.nn.Linear)
    layer.__setstate__(state)
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        layer(input=pellucid.ones(1, 2)).sum().backward()
    assert plain(seen) == [{"input": [[1.0, 1.0]]}, [[[1.0]]]]


def test_other_tensors_take_the_place_of_parameters():
    layer = pellucid.nn.Linear(2, 1)
    weight = layer.weight
    given = {"weight": pellucid.ones(1, 2), "bias": pellucid.tensor([5.0])}
    assert plain(pellucid.func.functional_call(layer, given, pellucid.ones(1, 2))) == [[7.0]]
    assert layer.weight is weight


def test_attributes_are_found_without_a_detour(monkeypatch):
    model = net(pellucid)

    def detour(self, name):
        raise AssertionError(f"{name} was looked for the long way")

    monkeypatch.setattr(pellucid.nn.Module, "__getattr__", detour)
    model(pellucid.ones(1, 2))
    assert model.first.fc.weight is model.first.fc._parameters["weight"] and model.first.steps.item() == 3
