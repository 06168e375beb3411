"""Optimizers: every option against PyTorch over many steps by one table, and what surrounds a step."""

import copy
import gc
import pickle
import tracemalloc
import weakref

import numpy as np
import pytest

import pellucid as pl
from pellucid import nn, optim
from pellucid.core import commit
from pellucid.errors import CaptureError, InplaceError
from pellucid.optim._line_search import Point, cubic_minimum

TABLE = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adam", {"betas": (0.0, 0.9), "maximize": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.01}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.6, 1.3), "step_sizes": (1e-3, 0.5), "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.05, "lambd": 0.01, "alpha": 0.6, "t0": 20, "weight_decay": 0.1, "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.01, "weight_decay": 0.1, "eps": (1e-4, 1e-2), "d": 2.0, "maximize": True}),
    ("Adafactor", {"beta2_decay": -0.5}),
]
FIRST = dict(reversed(TABLE))  # one row of each
ROWS = [pytest.param(name, options, id=f"{name}-{'-'.join(options)}") for name, options in TABLE]
SHAPES = [(3, 4), (5,), (), (2, 3, 2), (100, 90)]  # the last one is large enough to be updated alone


class Problem:
    """Parameters and a sequence of gradients that a library's optimizer goes through, from one seed."""

    def __init__(self, lib, name, options, dtype="float64", shapes=SHAPES):
        draw = np.random.default_rng(0)
        self.lib, self.draw = lib, np.random.default_rng(1)
        self.params = [self.tensor(self.numbers(draw, shape, dtype)).requires_grad_() for shape in shapes]
        self.optimizer = getattr(lib.optim, name)(self.params, **options)
        self.steps = 0

    def tensor(self, array):
        return self.lib.from_numpy(np.array(array))

    @staticmethod
    def numbers(draw, shape, dtype):
        values = draw.normal(size=shape) + (1j * draw.normal(size=shape) if dtype.startswith("complex") else 0)
        return np.asarray(values, dtype)

    def step(self, steps=1):
        """Every gradient pulls to zero and is noisy; the second parameter sometimes has none."""
        for _ in range(steps):
            for i, p in enumerate(self.params):
                value = p.detach().numpy()
                noise = self.numbers(self.draw, value.shape, str(value.dtype))
                p.grad = None if i == 1 and self.steps % 7 == 3 else self.tensor(0.3 * value + noise)
            self.optimizer.step()
            self.steps += 1
        return self

    def values(self):
        return [p.detach().numpy().copy() for p in self.params]

    def state(self):
        return {
            key: {name: np.asarray(value) for name, value in kept.items()}
            for key, kept in self.optimizer.state_dict()["state"].items()
        }


def assert_near(ours, theirs, tolerance):
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    assert ours.dtype == theirs.dtype


@pytest.mark.parametrize(("dtype", "steps", "tolerance"), [("float64", 60, 1e-12), ("float32", 20, 1e-5)])
@pytest.mark.parametrize(("name", "options"), ROWS)
def test_steps_equal_torch(torch, name, options, dtype, steps, tolerance):
    ours, theirs = (Problem(lib, name, options, dtype).step(steps) for lib in (pl, torch))
    for mine, other in zip(ours.values(), theirs.values()):
        assert_near(mine, other, tolerance)
    state, wanted = ours.state(), theirs.state()
    assert {key: list(kept) for key, kept in state.items()} == {key: list(kept) for key, kept in wanted.items()}
    for key, kept in state.items():
        for slot, value in kept.items():
            assert_near(value, wanted[key][slot], tolerance)
    assert str(ours.optimizer.state_dict()["param_groups"]) == str(theirs.optimizer.state_dict()["param_groups"])
    assert repr(ours.optimizer) == repr(theirs.optimizer)


@pytest.mark.parametrize("name", [name for name in FIRST if name != "Adafactor"])
def test_complex_parameters(torch, name):
    options = {"initial_accumulator_value": 0.5} if name == "Adagrad" else {}
    ours, theirs = (Problem(lib, name, options, "complex128", SHAPES[:4]).step(10) for lib in (pl, torch))
    for mine, other in zip(ours.values(), theirs.values()):
        assert_near(mine, other, 1e-12)


@pytest.mark.parametrize("name", list(FIRST))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(torch, name, dtype):
    def train(lib):
        draw = np.random.default_rng(0)
        p = lib.tensor(draw.normal(size=(3, 4)).astype("float32")).to(getattr(lib, dtype)).requires_grad_()
        optimizer = getattr(lib.optim, name)([p])
        for _ in range(5):
            p.grad = lib.tensor(draw.normal(size=(3, 4)).astype("float32")).to(getattr(lib, dtype))
            optimizer.step()
        return p.detach().float().numpy(), [str(value.dtype) for value in optimizer.state[p].values()]

    (mine, kinds), (other, wanted) = train(pl), train(torch)
    np.testing.assert_allclose(mine, other, rtol=0.02, atol=0.02)
    assert kinds == wanted


def test_muon(torch):
    for options in (
        {},
        {"lr": 0.05, "nesterov": False, "weight_decay": 0.0},
        {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "momentum": 0.8, "ns_steps": 3},
    ):
        ours, theirs = (Problem(lib, "Muon", options, "float32", [(4, 6), (7, 3)]).step(5) for lib in (pl, torch))
        for mine, other in zip(ours.values(), theirs.values()):
            np.testing.assert_allclose(mine, other, atol=1e-3)  # computed in bfloat16


# --- numbers that PyTorch 2.13 gave: two parameters, three steps, the sums of what came out

GOLDEN = {
    "SGD": (2.1511585696, 0.122338377791),
    "Adam": (2.3800571192, 0.999845520181),
    "AdamW": (2.37858229662, 0.999244462043),
    "NAdam": (2.39760400001, 0.999038581323),
    "RAdam": (2.12423355401, -0.243671140048),
    "Adamax": (2.38074327835, 0.998475983297),
    "Adagrad": (2.40907170986, 0.999138361628),
    "Adadelta": (2.4996117086, 0.999999983339),
    "RMSprop": (1.6378317135, 0.89763909392),
    "Rprop": (2.3544, 1.0),
    "ASGD": (2.15114551182, 0.12233798014),
    "Adafactor": (2.27219502583, 0.996704491884),
}


def after_three_steps(lib, name, options):
    p = lib.tensor([[1.0, -2.0], [0.5, 3.0]], dtype=lib.float64).requires_grad_()
    q = lib.tensor([2.0, -1.0], dtype=lib.float64).requires_grad_()
    optimizer = getattr(lib.optim, name)([p, q], **options)
    for _ in range(3):
        optimizer.zero_grad()
        ((p * p).sum() + (q**4).sum() + (p @ q).sum()).backward()
        optimizer.step()
    return p.sum().item(), q.sum().item()


@pytest.mark.parametrize("name", list(FIRST))
def test_golden(name):
    np.testing.assert_allclose(after_three_steps(pl, name, {"lr": 0.02}), GOLDEN[name], rtol=1e-9)


# --- LBFGS


def rosenbrock(lib, steps, **options):
    draw = np.random.default_rng(0)
    x = lib.from_numpy(draw.normal(size=4)).requires_grad_()
    z = lib.from_numpy(draw.normal(size=(2, 1)) + 1j * draw.normal(size=(2, 1))).requires_grad_()
    optimizer = lib.optim.LBFGS([x, z], **options)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + ((z - 1).abs() ** 4).sum()
        loss.backward()
        seen.append(loss.item())
        return loss

    for _ in range(steps):
        optimizer.step(closure)
    state = optimizer.state_dict()["state"][0]
    return seen, x.detach().numpy(), z.detach().numpy(), list(state), state["func_evals"], state["n_iter"]


@pytest.mark.parametrize(
    "options",
    [
        {"lr": 0.003, "max_iter": 5},
        {"lr": 0.005, "history_size": 2, "max_iter": 7},
        {"line_search_fn": "strong_wolfe", "max_iter": 10},
        {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 8, "lr": 0.5},
        {"line_search_fn": "strong_wolfe", "max_eval": 3},
    ],
)
def test_lbfgs_equals_torch(torch, options):
    mine, other = (rosenbrock(lib, 3, **options) for lib in (pl, torch))
    for got, wanted in zip(mine[:3], other[:3]):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
    assert mine[3:] == other[3:]


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_fifty_steps_of_lbfgs_equal_torch(torch, line_search):
    """On a valley without turns, where rounding is not magnified: each parameter to 1e-12."""

    def train(lib):
        draw = np.random.default_rng(0)
        x, target = lib.from_numpy(draw.normal(size=(12, 4))), lib.from_numpy(draw.normal(size=(12, 2)))
        weights = [lib.from_numpy(draw.normal(size=shape)).requires_grad_() for shape in ((4, 2), (2,))]
        optimizer = lib.optim.LBFGS(weights, lr=0.1, max_iter=2, line_search_fn=line_search)

        def closure():
            optimizer.zero_grad()
            loss = ((x @ weights[0] + weights[1] - target) ** 2).mean() + sum((w**4).sum() for w in weights)
            loss.backward()
            return loss

        for _ in range(50):
            optimizer.step(closure)
        return [w.detach().numpy() for w in weights]

    for mine, other in zip(train(pl), train(torch)):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12)


def test_lbfgs_stops_where_the_gradient_is_small(torch):
    def scenario(lib):
        x = lib.ones(2).requires_grad_()
        optimizer = lib.optim.LBFGS([x], tolerance_grad=1e3)

        def closure():
            optimizer.zero_grad()
            loss = (x * x).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).item(), optimizer.state[x], x.tolist()

    assert scenario(pl) == scenario(torch)


@pytest.mark.parametrize(
    ("slope", "line_search"), [(0.0, None), (0.0, "strong_wolfe"), (1.0, None), (3.0, None), (np.nan, None)]
)
def test_lbfgs_on_a_line(torch, slope, line_search):
    """Without gradient, and without curvature, a division by zero gives what it gives in PyTorch."""

    def scenario(lib):
        x = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
        optimizer = lib.optim.LBFGS([x], tolerance_grad=-1.0, max_iter=3, line_search_fn=line_search)

        def closure():
            optimizer.zero_grad()
            loss = (x * slope).sum()
            loss.backward()
            return loss

        return [optimizer.step(closure).item(), x.tolist(), optimizer.state[x]["n_iter"]]

    assert str(scenario(pl)) == str(scenario(torch))


def test_a_straight_line_is_lowest_at_the_bound():
    a, b = (Point(t, -2 * t, np.array([-2.0]), -2.0) for t in (0.0, 1.0))
    assert cubic_minimum(a, b, (1.01, 10.0)) == 10.0


def test_lbfgs_restores_parameters_when_the_closure_fails():
    x = pl.tensor([3.0, 1.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure():
        calls.append(None)
        if len(calls) == 2:
            raise KeyError("lost")
        optimizer.zero_grad()
        loss = (x**4).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert x.tolist() == [3.0, 1.0]
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS([x], line_search_fn="other").step(closure)


# --- saving and loading


@pytest.mark.parametrize("name", list(FIRST))
def test_state_goes_to_torch_and_back(torch, name):
    def carried(state_dict, lib):
        states = {
            key: {slot: lib.from_numpy(np.asarray(value).copy()) for slot, value in kept.items()}
            for key, kept in state_dict["state"].items()
        }
        return {"state": states, "param_groups": copy.deepcopy(state_dict["param_groups"])}

    options = FIRST[name]
    for there, back in ((pl, torch), (torch, pl)):
        first, second = Problem(there, name, options, "float32").step(5), Problem(back, name, options, "float32")
        for p, value in zip(second.params, first.values()):
            with back.no_grad():
                p.copy_(second.tensor(value))
        second.optimizer.load_state_dict(carried(first.optimizer.state_dict(), back))
        second.draw, second.steps = copy.deepcopy(first.draw), first.steps
        first.step(5)
        second.step(5)
        for mine, other in zip(first.values(), second.values()):
            assert_near(mine, other, 1e-6)


@pytest.mark.parametrize("name", list(FIRST))
@pytest.mark.parametrize("way", ["pickle", "deepcopy", "state_dict"])
def test_training_goes_on_bit_for_bit(name, way):
    first = Problem(pl, name, FIRST[name], "float32").step(4)
    if way == "state_dict":
        second = Problem(pl, name, {"lr": 9.0}, "float32")
        for p, value in zip(second.params, first.params):
            p.data.copy_(value.data)
        second.optimizer.load_state_dict(first.optimizer.state_dict())
        second.draw, second.steps = copy.deepcopy(first.draw), first.steps
    else:
        second = copy.copy(first)
        pair = first.optimizer, first.params, first.draw
        copied = copy.deepcopy(pair) if way == "deepcopy" else pickle.loads(pickle.dumps(pair))
        second.optimizer, second.params, second.draw = copied
        assert second.optimizer.param_groups[0]["params"][0] is second.params[0]
    untouched = [value.copy() for value in second.values()]
    first.step(3)
    for mine, other in zip(second.values(), untouched):
        assert np.array_equal(mine, other)  # nothing is shared
    second.step(3)
    for mine, other in zip(first.values(), second.values()):
        assert np.array_equal(mine, other)


def test_loading_refuses_what_does_not_fit_and_changes_nothing():
    problem = Problem(pl, "Adam", {}).step(2)
    before = copy.deepcopy(problem.state())
    other = Problem(pl, "Adam", {}, shapes=[(3,)]).step(1)
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        problem.optimizer.load_state_dict(other.optimizer.state_dict())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        problem.optimizer.load_state_dict({"state": {}, "param_groups": []})
    assert str(before) == str(problem.state())


@pytest.mark.parametrize(("name", "late"), [("Adam", "decoupled_weight_decay"), ("Adafactor", "maximize")])
def test_old_counters_and_options_are_completed(name, late):
    problem = Problem(pl, name, {}).step(1)
    saved = problem.optimizer.state_dict()
    for kept in saved["state"].values():
        kept["step"] = 7
    del saved["param_groups"][0][late]
    problem.optimizer.load_state_dict(saved)
    assert problem.optimizer.state[problem.params[0]]["step"].item() == 7.0
    problem.step(1)
    assert problem.optimizer.state[problem.params[0]]["step"].item() == 8.0


def test_adamw_takes_state_of_adam():
    adam, adamw = Problem(pl, "Adam", {}).step(1), Problem(pl, "AdamW", {})
    adamw.optimizer.load_state_dict(adam.optimizer.state_dict())
    assert adamw.optimizer.param_groups[0]["decoupled_weight_decay"] is True


def test_hooks_of_saving_and_loading():
    log = []
    optimizer = optim.SGD([pl.zeros(1)], lr=0.1)
    optimizer.register_state_dict_pre_hook(lambda o: log.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_state_dict_post_hook(lambda o, state: log.append(sorted(state)), prepend=True)
    saved = optimizer.state_dict()
    assert saved["extra"] == 1 and log == ["before", ["param_groups", "state"]]
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {**state, "state": {}})
    optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
    optimizer.load_state_dict({**saved, "state": {0: {"momentum_buffer": pl.ones(1)}}})
    assert log[-1] == "loaded" and not optimizer.state


# --- hooks around a step


def test_step_hooks(torch):
    def scenario(lib):
        log = []
        optimizer_module = __import__(f"{lib.__name__}.optim.optimizer", fromlist=["x"])
        p = lib.tensor([1.0], requires_grad=True)
        p.grad = lib.tensor([1.0])
        optimizer = lib.optim.SGD([p], lr=0.1)
        closure = lambda: lib.tensor(5.0)
        handles = [
            optimizer_module.register_optimizer_step_pre_hook(lambda o, args, kwargs: log.append("any before")),
            optimizer_module.register_optimizer_step_post_hook(lambda o, args, kwargs: log.append("any after")),
            optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(("before", len(args), len(kwargs)))),
            optimizer.register_step_pre_hook(lambda o, args, kwargs: ((*args, closure), kwargs)),
            optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", p.item(), len(args)))),
        ]
        log.append(optimizer.step().item())
        for handle in handles:
            handle.remove()
        optimizer.step()
        optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
        try:
            optimizer.step()
        except RuntimeError as error:
            log.append(str(error).partition("must")[2])
        return log

    assert scenario(pl) == scenario(torch)


def test_a_users_optimizer(torch):
    def scenario(lib):
        optimizer_module = __import__(f"{lib.__name__}.optim.optimizer", fromlist=["x"])

        class Signed(optimizer_module.Optimizer):
            def __init__(self, params, lr=optimizer_module.required, cut=0.5):
                super().__init__(params, {"lr": lr, "cut": cut})

            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        state["count"] = state.get("count", 0) + 1
                        p.data.add_(p.grad.sign(), alpha=-group["lr"])

        p = lib.tensor([1.0, -1.0], requires_grad=True)
        optimizer = Signed([{"params": [p], "lr": 0.25}])
        optimizer.register_step_post_hook(lambda o, args, kwargs: args[0].state[p].update(hooked=True))
        (p * p).sum().backward()
        optimizer.step()
        try:
            Signed([lib.zeros(1)])
        except ValueError as error:
            refused = str(error)
        return p.tolist(), optimizer.state[p], optimizer.state_dict(), refused, repr(optimizer)

    assert scenario(pl) == scenario(torch)


# --- groups, options and errors


def test_groups_with_options_of_their_own(torch):
    def scenario(lib):
        p, q, r = (lib.full((2,), value, dtype=lib.float64).requires_grad_() for value in (1.0, 2.0, 3.0))
        optimizer = lib.optim.SGD([{"params": [("p", p)], "lr": 0.5}, {"params": [("q", q)], "momentum": 0.9}], lr=0.1)
        optimizer.add_param_group({"params": [("r", r)], "weight_decay": 0.5})
        for _ in range(3):
            optimizer.zero_grad()
            (p * q * r).sum().backward()
            optimizer.step()
        return p.tolist(), q.tolist(), r.tolist(), str(optimizer.state_dict()["param_groups"]), repr(optimizer)

    ours, theirs = scenario(pl), scenario(torch)
    assert ours[3:] == theirs[3:]
    np.testing.assert_allclose(ours[:3], theirs[:3], rtol=1e-14)


def test_learning_rate_and_betas_as_tensors():
    plain = Problem(pl, "Adam", {"lr": 0.03125, "betas": (0.5, 0.75)}).step(5)
    options = {"lr": pl.tensor(0.03125), "betas": (pl.tensor(0.5), pl.tensor(0.75))}
    tensors = Problem(pl, "Adam", options).step(5)
    for mine, other in zip(plain.values(), tensors.values()):
        assert np.array_equal(mine, other)
    assert "lr: 0.03125" in repr(tensors.optimizer)


RECORDED = [
    ("SGD", {"lr": 0.1}, {}, 1e-14), ("SGD", {"lr": 0.1, "maximize": True}, {"weight_decay": 0.1}, 1e-14),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"lr": 0.1}, 1e-13),
    # PyTorch rounds Adam's 1 - beta ** step to float32 here.
    ("Adam", {}, {"lr": 0.1}, 5e-4), ("Adam", {"lr": 0.1}, {"weight_decay": 0.1}, 5e-4),
    ("AdamW", {}, {"lr": 0.1}, 5e-4), ("AdamW", {"lr": 0.1}, {"weight_decay": 0.1}, 5e-4),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}, {}, 1e-7),
    ("RAdam", {"weight_decay": 0.1}, {"lr": 0.1}, 1e-13), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}, {}, 1e-13),
    ("Adadelta", {"lr": 0.1}, {}, 1e-13), ("RMSprop", {"lr": 0.1}, {}, 1e-13), ("ASGD", {"lr": 0.1}, {}, 1e-13),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "tensors", "tolerance"), RECORDED)
def test_gradients_flow_through_differentiable_steps(torch, name, options, tensors, tolerance):
    def scenario(lib):
        target = lib.tensor([1.0, 2.0, -0.5], dtype=lib.float64)
        hyper = {key: lib.tensor(value, dtype=lib.float64, requires_grad=True) for key, value in tensors.items()}
        start = lib.tensor([0.5, -1.2, 2.0], dtype=lib.float64, requires_grad=True)
        weight = start.clone()
        optimizer = getattr(lib.optim, name)([weight], differentiable=True, **options, **hyper)
        for _ in range(7):
            current = weight.clone()
            loss = ((current - target) ** 2).sum() + (current**3).sum() / 10
            (weight.grad,) = lib.autograd.grad(loss, current, create_graph=True)
            optimizer.step()
        gradients = lib.autograd.grad((weight**2).sum(), [start, *hyper.values()])
        kept = [value for value in optimizer.state[weight].values() if value.ndim]
        return [value.detach().numpy() for value in (weight, *gradients, *kept)]

    for mine, other in zip(scenario(pl), scenario(torch), strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [name for name in FIRST if name not in ("Adafactor", "Muon")])
def test_a_differentiable_step_is_the_step(name):
    """The same numbers as without recording, complex ones too; the gradient comes back to where it should."""
    for dtype in ("float64", "complex128"):
        plain, recorded = (pl.tensor([0.5, -1.2, 2.0], dtype=getattr(pl, dtype)) for _ in range(2))
        one = getattr(optim, name)([plain])
        other = getattr(optim, name)([recorded], differentiable=True)
        for step in range(7):
            plain.grad = pl.tensor([1.0, -0.5, 0.25 * step], dtype=plain.dtype)
            recorded.grad = plain.grad.clone().requires_grad_()
            one.step()
            other.step()
        np.testing.assert_allclose(recorded.detach().numpy(), plain.numpy(), rtol=1e-9)  # counters are float32
        assert recorded.requires_grad and recorded.grad_fn is not None


def test_a_differentiable_step_refuses_leaves():
    weight = parameter()
    weight.grad = pl.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        optim.SGD([weight], differentiable=True).step()
    assert weight.tolist() == [1.0, 1.0]


def test_options_may_change_between_steps(torch):
    def scenario(lib):
        problem = Problem(lib, "SGD", {"lr": 0.1}).step(2)
        group = problem.optimizer.param_groups[0]
        for changed in ({"momentum": 0.9}, {"lr": 0.01, "weight_decay": 0.1}, {"momentum": 0}, {"momentum": 0.5}):
            group.update(changed)
            problem.step(2)
        return problem.values()

    for mine, other in zip(scenario(pl), scenario(torch)):
        assert_near(mine, other, 1e-13)


def test_zero_grad():
    p = pl.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.zero_grad()
    (p * p).sum().backward()
    memory = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is memory and p.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None
    (p * p).sum().backward(create_graph=True)
    optimizer.zero_grad(set_to_none=False)
    assert not p.grad.requires_grad


def test_closure_is_recorded_also_under_no_grad():
    p = pl.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with pl.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == [0.5, 0.5]


def parameter(*shape):
    return nn.Parameter(pl.ones(*shape or (2,)))


def stepped_densely(optimizer, p):
    p.grad = pl.ones(p.shape)
    optimizer.step()


REFUSED = [
    (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.SGD([p], lr=pl.tensor([0.1, 0.2])), ValueError, "Tensor lr must be 1-element"),
    (lambda p: optim.SGD([p], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` toge"),
    (lambda p: optim.SGD([p], fused=True, differentiable=True), RuntimeError, "`fused` does not support `different"),
    (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda p: optim.Adam([p], betas=(1.0, 0.9)), ValueError, "Invalid beta parameter at index 0: 1.0"),
    (lambda p: optim.Adam([p], betas=(pl.tensor(0.9), 0.9)), ValueError, "betas must be either both floats or both"),
    (lambda p: optim.Adam([p], lr=pl.tensor(0.1), foreach=True), ValueError, "lr as a Tensor is not supported for"),
    (lambda p: optim.Adadelta([p], rho=1.5), ValueError, "Invalid rho value: 1.5"),
    (lambda p: optim.Rprop([p], etas=(1.5, 2)), ValueError, "Invalid eta values: 1.5, 2"),
    (lambda p: optim.Adafactor([p], d=0.5), ValueError, "Clipping threshold d should be >= 1 but is: 0.5"),
    (lambda p: optim.Muon([p]), ValueError, "Muon only supports 2D parameters whereas we found a parameter with size"),
    (lambda p: optim.LBFGS([{"params": [p]}, {"params": [parameter()]}]), ValueError, "LBFGS doesn't support per-par"),
    (lambda p: stepped_densely(optim.SparseAdam([p]), p), RuntimeError, "SparseAdam does not support dense gradients"),
    (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.SGD(p), TypeError, "params argument given to the optimizer should be an iterable of Tensors"),
    (lambda p: optim.SGD([1]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "some parameters appear in more than one"),
    (lambda p: optim.SGD([{"params": {p}}]), TypeError, "optimizer parameters need to be organized in ordered coll"),
    (lambda p: optim.SGD([("w", p), parameter()]), ValueError, "all optimizer params should be with/without names"),
    (lambda p: optim.SGD([p]).add_param_group(3), TypeError, "param_group must be a dict, but got <class 'int'>"),
    (lambda p: optim.Optimizer([p], {}).step(), NotImplementedError, "Optimizer is missing its step()"),
]


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(make, error, text):
    with pytest.raises(error) as caught:
        make(parameter())
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_changes_the_rows_that_were_looked_up_as_pytorch_does(kind, maximize):
    """Also rows whose gradient is exactly zero, sums of several backwards, and gradients that are zeroed in place."""
    torch = pytest.importorskip("torch")

    def trained(t):
        draw = np.random.RandomState(0)
        table = getattr(t.nn, kind)(
            12, 4, sparse=True, padding_idx=3, _weight=t.tensor(draw.randn(12, 4).astype("float32"))
        )
        optimizer = t.optim.SparseAdam(list(table.parameters()), lr=0.05, maximize=maximize)
        for i in range(20):
            index = t.tensor(draw.randint(0, 12, (3, 4)))
            chosen = t.tensor((draw.rand(3, *[1] * (2 - (kind == "EmbeddingBag"))) > 0.5).astype("float32"))
            for _ in range(1 + (i % 3 == 0)):
                (table(index) * chosen).square().sum().backward()
            if i % 5 != 4:
                optimizer.step()
            if i % 4:
                optimizer.zero_grad(set_to_none=bool(i % 2))
        state = optimizer.state_dict()["state"][0]
        return table.weight.detach().numpy(), state["step"], state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()

    for ours, theirs in zip(trained(pl), trained(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_group_that_is_refused_changes_nothing():
    p, q = parameter(), parameter()
    optimizer = optim.SGD([p], lr=0.1)
    group = {"params": (q, p)}
    with pytest.raises(ValueError, match="more than one"):
        optimizer.add_param_group(group)
    assert group == {"params": (q, p)} and len(optimizer.param_groups) == 1


def test_duplicates_are_warned_of():
    p = parameter()
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.Adam([p, p], lr=0.1)
    p.grad = pl.ones(2)
    optimizer.step()  # as in PyTorch each place counts
    assert optimizer.state[p]["step"].item() == 2.0


def test_memory_that_cannot_be_written_is_refused():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        p = pl.from_numpy(array).requires_grad_()
    p.grad = pl.ones(3)
    with pytest.raises(RuntimeError, match="read-only"):
        optim.SGD([p], lr=0.1).step()
    shared = pl.ones(1).expand(3).requires_grad_()
    shared.grad = pl.ones(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        optim.Adam([shared], lr=0.1).step()


# --- what a step does to memory


def test_overwriting_a_saved_value_is_caught():
    p = pl.ones(2, requires_grad=True)
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = pl.ones(2)
    loss = (p * p).sum()
    optimizer.step()
    with pytest.raises(InplaceError, match=r"overwritten by Adam\.step"):
        loss.backward()
    assert p._version == 1


@pytest.mark.parametrize("name", [name for name in FIRST if name != "Adafactor"])
def test_a_step_allocates_nothing(name):
    problem = Problem(pl, name, FIRST[name], "float32", [(300, 100), (20, 30), (20, 30), (30,)])
    for p in problem.params:
        p.grad = pl.ones_like(p)
    for _ in range(3):
        problem.optimizer.step()
    tracemalloc.start()
    problem.optimizer.step()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    problem.optimizer.step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    room = 8 * commit.ROOM  # given back at once
    assert peak - before < room + 4096  # the 600 numbers of small ones would be 2 400 bytes more, the large one 120 000


def test_gradients_are_left_alone():
    for name, options in FIRST.items():
        problem = Problem(pl, name, {**options, "maximize": True})
        for p in problem.params:
            p.grad = pl.ones_like(p)
        problem.optimizer.step()
        assert all(bool((p.grad == 1).all()) for p in problem.params)


def test_parameters_of_any_layout(torch):
    def scenario(lib):
        array = np.arange(24.0).reshape(4, 6)
        views = [lib.tensor(array).t(), lib.tensor(array)[:, ::2], lib.tensor(array[0])[1::2]]
        params = [view.detach().requires_grad_() for view in views]
        optimizer = lib.optim.Adam(params, lr=0.1, weight_decay=0.1)
        for step in range(4):
            for p in params:
                p.grad = p.detach() * 0.1 + step
            optimizer.step()
        return [p.detach().numpy() for p in params] + [optimizer.state[p]["exp_avg"].numpy() for p in params]

    for mine, other in zip(scenario(pl), scenario(torch)):
        assert_near(np.ascontiguousarray(mine), np.ascontiguousarray(other), 1e-13)


def test_empty_parameters():
    for name in FIRST:
        if name != "Adafactor":
            p, q = pl.zeros(0, 3).requires_grad_(), pl.zeros(2).requires_grad_()
            p.grad, q.grad = pl.zeros(0, 3), pl.ones(2)
            getattr(optim, name)([p, q], lr=0.1).step()
            getattr(optim, name)([p], lr=0.1).step()


def test_a_step_of_zero_keeps_nan(torch):
    def scenario(lib):
        p = lib.tensor([1.0, 2.0], requires_grad=True)
        p.grad = lib.tensor([float("nan"), 1.0])
        lib.optim.SGD([p], lr=0.0).step()
        return [str(value) for value in p.tolist()]

    assert scenario(pl) == scenario(torch) == ["nan", "2.0"]


def test_state_belongs_to_the_user_too():
    """State that is replaced, changed in place, or removed between steps counts from then on."""
    problem = Problem(pl, "Adam", {"lr": 0.1}).step(2)
    first, second, third = problem.params[0], problem.params[1], problem.params[2]
    state = problem.optimizer.state
    state[first]["exp_avg"] = pl.zeros_like(first)
    state[first]["exp_avg_sq"].fill_(1.0)
    state[second]["step"].fill_(100.0)
    del state[third]
    kept = state[first]["exp_avg"]
    problem.step(1)
    assert state[first]["exp_avg"] is kept and bool((kept != 0).all())
    assert bool((state[first]["exp_avg_sq"] > 0.9).all())
    assert [state[p]["step"].item() for p in problem.params] == [3.0, 101.0, 1.0, 3.0, 3.0]
    problem.optimizer.state.clear()
    problem.step(1)
    assert state[first]["step"].item() == 1.0


def test_counters_are_told_apart(torch):
    def scenario(lib):
        problem = Problem(lib, "Adam", {"lr": 0.1}, shapes=[(2,), (3,), ()]).step(2)
        problem.optimizer.state[problem.params[2]]["step"].fill_(50.0)
        return problem.step(1).values()

    for mine, other in zip(scenario(pl), scenario(torch)):
        assert_near(mine, other, 1e-13)


def test_parameters_whose_data_is_replaced():
    problem = Problem(pl, "Adam", {"lr": 0.1}, "float64", [(2,), (3,)]).step(1)
    p = problem.params[0]
    p.data = pl.zeros(2, dtype=pl.float64)
    problem.step(1)
    assert abs(p.detach()).max() < 0.2


def test_an_optimizer_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        optimizer = optim.Adam([parameter()], lr=0.1)
        optim.lr_scheduler.StepLR(optimizer, 3)
        optimizer.param_groups[0]["params"][0].grad = pl.ones(2)
        optimizer.step()
        alive = weakref.ref(optimizer)
        del optimizer
        assert alive() is None
    finally:
        gc.enable()


# --- transforms and captures


CAPTURED = ("SGD", "Adam", "AdamW", "NAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD", "Adafactor")


def test_steps_inside_a_captured_program():
    """A whole training step replays like eager, but for rounding: counters are float32, and BLAS rounds once."""

    def training():
        pl.manual_seed(0)
        models = [nn.Linear(4, 3).double() for _ in CAPTURED]
        optimizers = []
        for name, model in zip(CAPTURED, models):
            options = {"momentum": 0.9} if name == "SGD" else {}
            optimizers.append(getattr(optim, name)(model.parameters(), lr=pl.tensor(0.01), **options))

        def step(x):
            for model, optimizer in zip(models, optimizers):
                optimizer.zero_grad()
                (model(x).tanh() ** 2).sum().backward()
                optimizer.step()

        return models, step

    data = pl.from_numpy(np.random.default_rng(0).normal(size=(10, 6, 4)))
    (eager, step), (replayed, other_step) = training(), training()
    for x in data[:3]:
        step(x)
        other_step(x)
    program = pl.capture(other_step, data[3])
    for x in data[3:]:
        step(x)
    for x in data[4:]:
        program(x)
    for name, model, other in zip(CAPTURED, eager, replayed):
        for mine, wanted in zip(model.parameters(), other.parameters()):
            np.testing.assert_allclose(mine.detach().numpy(), wanted.detach().numpy(), rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", [name for name in CAPTURED if name != "Adagrad"])  # which has its state from the start
def test_a_step_that_makes_the_state_of_an_optimizer_cannot_be_captured(name):
    p = parameter()
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(optim, name)([p], lr=0.1, **options)

    def step():
        p.grad = None
        (p * p).sum().backward()
        optimizer.step()

    with pytest.raises(CaptureError, match=f"{name}.step: the optimizer makes its state"):
        pl.capture(step)
    step()
    pl.capture(step)()


def test_an_optimizer_made_inside_a_captured_program_starts_anew_at_every_replay():
    p = parameter()

    def step():
        p.grad = None
        (p * p).sum().backward()
        optim.SGD([p], lr=0.1, momentum=0.9).step()

    other = p.detach().clone()
    program = pl.capture(step)
    program()
    assert pl.allclose(p, other * 0.8 * 0.8)


def test_a_step_that_decides_by_value_cannot_be_captured():
    p = parameter()
    p.grad = pl.ones(2)
    optimizer = optim.RAdam([p], lr=0.1)
    optimizer.step()
    with pytest.raises(CaptureError, match="Python looks at a value"):
        pl.capture(optimizer.step)


def test_swapping_parameters_and_state(torch):
    def scenario(lib):
        own, other = lib.ones(2, requires_grad=True), lib.zeros(2, requires_grad=True)
        optimizer = lib.optim.Adam([own], lr=0.1)
        own.grad, other.grad = lib.ones(2), lib.ones(2)
        optimizer.step()
        saved = copy.deepcopy(optimizer.state_dict())
        saved["param_groups"][0]["lr"] = 0.5
        with lib.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, saved):
            optimizer.step()
        return [t.tolist() for t in (own, other, optimizer.state[own]["step"], saved["state"][0]["step"])]

    np.testing.assert_allclose(scenario(pl)[:2], scenario(torch)[:2], rtol=1e-6)
    assert scenario(pl)[2:] == scenario(torch)[2:]
