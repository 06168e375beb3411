"""Schedules of the learning rate and averaged models: every one against PyTorch, number for number."""

import copy
import pickle

import numpy as np
import pytest

import pellucid as pl
from pellucid import nn, optim
from pellucid.optim import lr_scheduler, swa_utils

# By name: a schedule of an optimizer with two groups. `s` is the module lr_scheduler, which also has SWALR here.
TABLE = {
    "lambda": lambda s, o, **k: s.LambdaLR(o, lambda epoch: 0.9**epoch, **k),
    "two lambdas": lambda s, o, **k: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)], **k),
    "multiplicative": lambda s, o, **k: s.MultiplicativeLR(o, lambda epoch: 0.95, **k),
    "step": lambda s, o, **k: s.StepLR(o, 3, 0.5, **k),
    "multi step": lambda s, o, **k: s.MultiStepLR(o, [3, 7, 7, 12], 0.3, **k),
    "constant": lambda s, o, **k: s.ConstantLR(o, 0.5, 4, **k),
    "linear": lambda s, o, **k: s.LinearLR(o, 0.2, 0.9, 6, **k),
    "exponential": lambda s, o, **k: s.ExponentialLR(o, 0.9, **k),
    "polynomial": lambda s, o, **k: s.PolynomialLR(o, 9, 2.0, **k),
    "cosine": lambda s, o, **k: s.CosineAnnealingLR(o, 5, 0.01, **k),
    "cyclic": lambda s, o, **k: s.CyclicLR(o, 0.01, 0.2, 4, **k),
    "cyclic, halving": lambda s, o, **k: s.CyclicLR(
        o, [0.01, 0.02], [0.2, 0.3], 3, 5, mode="triangular2", base_momentum=[0.7, 0.6], **k
    ),
    "cyclic, falling": lambda s, o, **k: s.CyclicLR(
        o, 0.01, 0.2, 4, mode="exp_range", gamma=0.97, cycle_momentum=False, **k
    ),
    "cyclic, own": lambda s, o, **k: s.CyclicLR(o, 0.01, 0.2, 4, scale_fn=lambda x: 0.5 / x, **k),
    "cyclic, own by iteration": lambda s, o, **k: s.CyclicLR(
        o, 0.01, 0.2, 4, scale_fn=lambda x: 1 / (x + 1), scale_mode="iterations", **k
    ),
    "warm restarts": lambda s, o, **k: s.CosineAnnealingWarmRestarts(o, 4, **k),
    "warm restarts, doubling": lambda s, o, **k: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001, **k),
    "one cycle": lambda s, o, **k: s.OneCycleLR(o, 0.5, total_steps=30, **k),
    "one cycle, three phases": lambda s, o, **k: s.OneCycleLR(
        o, [0.5, 0.3], epochs=5, steps_per_epoch=7, three_phase=True, anneal_strategy="linear", pct_start=0.25, **k
    ),
    "one cycle without momentum": lambda s, o, **k: s.OneCycleLR(
        o, 0.5, total_steps=40, cycle_momentum=False, div_factor=5.0, final_div_factor=10.0, **k
    ),
    "swa": lambda s, o, **k: s.SWALR(o, 0.03, 5, **k),
    "swa, linear": lambda s, o, **k: s.SWALR(o, [0.03, 0.5], 4, "linear", **k),
    "swa at once": lambda s, o, **k: s.SWALR(o, 0.03, 0, **k),
}
COMBINED = {
    "warmup, cosine, decay": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 8), s.ExponentialLR(o, 0.8)], [5, 13]
    ),
    "restarts come last": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 20), s.StepLR(o, 2, 0.5), s.CosineAnnealingWarmRestarts(o, 4)], [4, 9]
    ),
    "sequence in a sequence": lambda s, o: s.SequentialLR(
        o, [s.SequentialLR(o, [s.ConstantLR(o, 0.1, 20), s.StepLR(o, 2, 0.5)], [3]), s.ExponentialLR(o, 0.7)], [8]
    ),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9), s.StepLR(o, 5)]),
    "chained in a sequence": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)]), s.StepLR(o, 5, 0.5)], [6]
    ),
}


def plain(value):
    """A structure with numbers in the place of tensors."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value


class Schedules:
    """The namespace lr_scheduler of a library, with SWALR."""

    def __init__(self, lib):
        self.lib = lib

    def __getattr__(self, name):
        module = self.lib.optim.swa_utils if name == "SWALR" else self.lib.optim.lr_scheduler
        return getattr(module, name)


def optimizer_of(lib, kind="SGD", tensor=False, resumed=False):
    lr = (lambda value: lib.tensor(value, dtype=lib.float64)) if tensor else float
    groups = [{"params": [lib.zeros(2)], "lr": lr(0.1)}, {"params": [lib.zeros(1)], "lr": lr(0.05)}]
    if resumed:
        bounds = {"max_lr": 0.5, "min_lr": 0.001, "max_momentum": 0.95, "base_momentum": 0.8}
        groups = [{**group, **bounds, "initial_lr": lr(0.2)} for group in groups]
    return getattr(lib.optim, kind)(groups, **({"momentum": 0.5} if kind == "SGD" else {}))


def history(optimizer, scheduler, steps=20, step=lambda scheduler, i: scheduler.step()):
    """What the groups hold after every step, and the scheduler's state at the end."""
    seen = []
    for i in range(steps):
        groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        seen.append(plain([groups, scheduler.get_last_lr()]))
        optimizer.step()
        step(scheduler, i)
    return seen, plain(scheduler.state_dict())


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", TABLE)
def test_schedules_equal_torch(torch, name, kind):
    for tensor in (False, True):
        for options in ({}, {"last_epoch": 0}, {"last_epoch": 4}):
            results = []
            for lib in (pl, torch):
                optimizer = optimizer_of(lib, kind, tensor, resumed=bool(options))
                results.append(history(optimizer, TABLE[name](Schedules(lib), optimizer, **options)))
            assert results[0] == results[1]


# A scheduler in a scheduler makes its first step twice, of which PyTorch warns too.
TWICE = "ignore:Detected call of `lr_scheduler.step"


@pytest.mark.filterwarnings(TWICE)
@pytest.mark.parametrize("name", COMBINED)
def test_combined_schedules_equal_torch(torch, name):
    results = []
    for lib in (pl, torch):
        optimizer = optimizer_of(lib)
        results.append(history(optimizer, COMBINED[name](Schedules(lib), optimizer)))
    assert results[0] == results[1]


def parameters_after(lib, name, steps=50):
    """What a schedule makes of two parameters that go downhill in float64; schedules with an end go to it."""
    params = [lib.tensor(values, dtype=lib.float64).requires_grad_() for values in ([1.0, -2.0], [0.5])]
    optimizer = lib.optim.SGD([{"params": [p], "lr": lr} for p, lr in zip(params, (0.1, 0.05))], momentum=0.5)
    scheduler = (TABLE | COMBINED)[name](Schedules(lib), optimizer)
    for _ in range(min(steps, getattr(scheduler, "total_steps", steps) - 1)):
        optimizer.zero_grad()
        sum((p**2 + p.sin()).sum() for p in params).backward()
        optimizer.step()
        scheduler.step()
    return [p.detach().numpy() for p in params]


@pytest.mark.filterwarnings(TWICE)
@pytest.mark.parametrize("name", [*TABLE, *COMBINED])
def test_parameters_after_fifty_steps(torch, name):
    for mine, other in zip(parameters_after(pl, name), parameters_after(torch, name)):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith(("one", "swa"))])
def test_going_to_an_epoch(torch, name):
    results = []
    for lib in (pl, torch):
        optimizer = optimizer_of(lib)
        scheduler = TABLE[name](Schedules(lib), optimizer)
        results.append(history(optimizer, scheduler, 6, lambda scheduler, i: scheduler.step([7, 3, 0, 11, 5, 2][i])))
    assert results[0] == results[1]


def test_warm_restarts_at_fractions_of_epochs(torch):
    results = []
    for lib in (pl, torch):
        optimizer = optimizer_of(lib)
        scheduler = TABLE["warm restarts, doubling"](Schedules(lib), optimizer)
        results.append(history(optimizer, scheduler, 25, lambda scheduler, i: scheduler.step(i * 0.7)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "factor": 0.5, "patience": 2},
        {"threshold_mode": "abs", "threshold": 0.3, "patience": 1, "cooldown": 3},
        {"mode": "max", "threshold_mode": "abs", "threshold": 0.1, "patience": 0, "min_lr": [0.01, 0.02]},
    ],
)
def test_plateau_equals_torch(torch, options):
    losses = np.random.default_rng(0).normal(size=40).cumsum()
    results = []
    for lib in (pl, torch):
        optimizer = optimizer_of(lib, tensor=options == {})
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        results.append(history(optimizer, scheduler, 40, lambda s, i, lib=lib: s.step(lib.tensor(losses[i]))))
    assert results[0] == results[1]


def test_plateau_follows_a_group_that_is_added():
    optimizer = optimizer_of(pl)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    optimizer.add_param_group({"params": [pl.zeros(3)], "lr": 1.0})
    for _ in range(3):
        scheduler.step(1.0)
    assert scheduler.get_last_lr() == [0.025, 0.0125, 0.25]
    fixed = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.0, 0.0, 0.0])
    optimizer.add_param_group({"params": [pl.zeros(4)]})
    fixed.step(1.0)
    with pytest.raises(RuntimeError, match="differs from when `ReduceLROnPlateau` was initialized"):
        fixed.step(1.0)


@pytest.mark.filterwarnings(TWICE)
@pytest.mark.parametrize("name", [*TABLE, *COMBINED])
def test_a_saved_schedule_goes_on(name):
    make = {**TABLE, **COMBINED}[name]

    def fresh():
        optimizer = optimizer_of(pl)
        return optimizer, make(Schedules(pl), optimizer)

    optimizer, scheduler = fresh()
    history(optimizer, scheduler, 7)
    saved = pickle.loads(pickle.dumps((optimizer.state_dict(), scheduler.state_dict())))
    other_optimizer, other = fresh()
    other_optimizer.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert history(optimizer, scheduler, 9) == history(other_optimizer, other, 9)


class Warmup:
    """A function with an attribute, which is saved."""

    def __init__(self, length):
        self.length = length

    def __call__(self, x):
        return min(1.0, (x + 1) / self.length)


def test_attributes_of_callable_objects_are_saved():
    for make in (lr_scheduler.LambdaLR, lambda o, f: lr_scheduler.CyclicLR(o, 0.1, 1.0, 5, scale_fn=f)):
        saved = make(optimizer_of(pl), Warmup(4)).state_dict()
        other = make(optimizer_of(pl), Warmup(100))
        other.load_state_dict(saved)
        function = other.lr_lambdas[0] if hasattr(other, "lr_lambdas") else other._scale_fn_custom
        assert function.length == 4


def test_golden_rates():
    def rates(name):
        optimizer = optimizer_of(pl)
        seen, _ = history(optimizer, TABLE[name](Schedules(pl), optimizer), 6)
        return [round(lrs[0], 10) for _, lrs in seen]

    assert rates("step") == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05]
    assert rates("cosine") == [0.1, 0.0914057647, 0.0689057647, 0.0410942353, 0.0185942353, 0.01]
    assert rates("linear") == [0.02, 0.0316666667, 0.0433333333, 0.055, 0.0666666667, 0.0783333333]
    assert rates("one cycle") == [0.02, 0.0382689122, 0.0902943725, 0.1681559762, 0.26, 0.3518440238]
    assert rates("cyclic, halving") == [0.01, 0.0733333333, 0.1366666667, 0.2, 0.162, 0.124]


# --- warnings and errors


def test_the_order_of_steps_is_watched():
    scheduler = lr_scheduler.StepLR(optim.SGD([pl.zeros(1)], lr=0.1), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        scheduler.step()
    scheduler.step()  # said once
    optimizer = optim.SGD([pl.zeros(1)], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match=r"Seems like `optimizer.step\(\)` has been overridden"):
        scheduler.step()
    optimizer = optim.SGD([pl.zeros(1)], lr=0.1)
    first, second = lr_scheduler.StepLR(optimizer, 3), lr_scheduler.ExponentialLR(optimizer, 0.9)
    optimizer.step()
    first.step()
    second.step()  # both have seen the step


def test_asking_between_steps_is_warned_of():
    optimizer = optim.SGD([pl.zeros(1)], lr=0.1)
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        lr_scheduler.ExponentialLR(optimizer, 0.9).get_lr()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.9)
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in `scheduler.step"):
        scheduler.step(2)


REFUSED = [
    (lambda s, o: s.StepLR(3, 3), TypeError, "int is not an Optimizer"),
    (lambda s, o: s.StepLR(o, 3, last_epoch=3), KeyError, "param 'initial_lr' is not specified in param_groups[0]"),
    (lambda s, o: s.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
    (lambda s, o: s.MultiplicativeLR(o, 3), TypeError, "lr_lambda should be a function, but got int"),
    (lambda s, o: s.ConstantLR(o, factor=3), ValueError, "Constant multiplicative factor expected to be between 0 and"),
    (lambda s, o: s.LinearLR(o, 0), ValueError, "Starting multiplicative factor expected to be greater than 0"),
    (lambda s, o: s.LinearLR(o, 1, 2), ValueError, "Ending multiplicative factor expected to be between 0 and 1."),
    (lambda s, o: s.SequentialLR(o, [], []), ValueError, "SequentialLR expects at least one scheduler"),
    (lambda s, o: s.SequentialLR(o, [s.StepLR(o, 3)], [1]), ValueError, "Sequential Schedulers expects number of"),
    (lambda s, o: s.SequentialLR(o, [3], []), TypeError, "SequentialLR at index 0 should have `optimizer` as its"),
    (lambda s, o: s.ChainedScheduler([]), ValueError, "ChainedScheduler expects at least one scheduler to be chained"),
    (lambda s, o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]), ValueError, "ChainedScheduler does not support `Reduc"),
    (
        lambda s, o: s.ChainedScheduler([s.StepLR(o, 3), s.StepLR(optimizer_of(pl), 3)]),
        ValueError,
        "ChainedScheduler expects all schedulers to belong to the same optimizer",
    ),
    (lambda s, o: s.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be < 1.0."),
    (lambda s, o: s.ReduceLROnPlateau(o, mode="x"), ValueError, "mode x is unknown!"),
    (lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold mode x is unknown!"),
    (lambda s, o: s.ReduceLROnPlateau(o, min_lr=[1]), ValueError, "expected 2 min_lrs, got 1"),
    (lambda s, o: s.CyclicLR(o, 0.1, 0.2, mode="x"), ValueError, "mode is invalid and scale_fn is None"),
    (lambda s, o: s.CyclicLR(o, [0.1], 0.2), ValueError, "base_lr must have the same length as optimizer.param_groups"),
    (lambda s, o: s.CyclicLR(optim.Adagrad([pl.zeros(1)]), 0.1, 1), ValueError, "optimizer must support momentum or"),
    (lambda s, o: s.CosineAnnealingWarmRestarts(o, 0), ValueError, "Expected positive integer T_0, but got 0"),
    (lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, 0), ValueError, "Expected integer T_mult >= 1, but got 0"),
    (lambda s, o: s.CosineAnnealingWarmRestarts(o, 1).step(-1), ValueError, "Expected non-negative epoch, but got -1"),
    (lambda s, o: s.OneCycleLR(o, 0.1), ValueError, "You must define either total_steps OR (epochs AND steps_per"),
    (lambda s, o: s.OneCycleLR(o, 0.1, total_steps=0), ValueError, "Expected positive integer total_steps, but got 0"),
    (lambda s, o: s.OneCycleLR(o, 0.1, total_steps=3, pct_start=2), ValueError, "Expected float between 0 and 1 pct"),
    (lambda s, o: s.SWALR(o, 0.1, anneal_strategy="x"), ValueError, "anneal_strategy must be one of 'cos' or"),
    (lambda s, o: s.SWALR(o, 0.1, anneal_epochs=-1), ValueError, "anneal_epochs must be equal or greater than 0"),
    (lambda s, o: s.LRScheduler(o), NotImplementedError, "LRScheduler is missing its get_lr()"),
]


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused(make, error, text):
    with pytest.raises(error) as caught:
        make(Schedules(pl), optimizer_of(pl))
    assert str(caught.value.args[0]).startswith(text)


def test_more_steps_than_one_cycle_has():
    optimizer = optimizer_of(pl)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    with pytest.raises(ValueError, match="Tried to step 6 times"):
        history(optimizer, scheduler, 9)


# --- averaged models


def averaged_of(lib, **options):
    """An averaged model after four updates, and the models it was updated with."""
    draw = np.random.default_rng(0)
    model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3)).double()
    averaged = lib.optim.swa_utils.AveragedModel(model, **options)
    for _ in range(4):
        with lib.no_grad():
            for p in model.parameters():
                p.copy_(lib.from_numpy(draw.normal(size=tuple(p.shape))))
        model(lib.from_numpy(draw.normal(size=(5, 2))))  # moves the buffers
        averaged.update_parameters(model)
    return averaged


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("kind", ["default", "swa", "multi swa", "ema", "multi ema"])
def test_averaged_models_equal_torch(torch, kind, use_buffers):
    if kind == "multi swa" and use_buffers:
        pytest.skip("PyTorch cannot average integer buffers so")

    def options(lib):
        utils = lib.optim.swa_utils
        return {
            "default": {},
            "swa": {"avg_fn": utils.get_swa_avg_fn()},
            "multi swa": {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
            "ema": {"avg_fn": utils.get_ema_avg_fn(0.75)},
            "multi ema": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.75)},
        }[kind]

    ours, theirs = (averaged_of(lib, use_buffers=use_buffers, **options(lib)) for lib in (pl, torch))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    tolerance = 1e-6 if kind == "multi swa" else 1e-12  # PyTorch's weight 1 / (n + 1) is float32 there
    for name, wanted in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), wanted.numpy(), rtol=tolerance, err_msg=name)
    x = np.random.default_rng(1).normal(size=(4, 2))
    results = [model.eval()(lib.from_numpy(x)).detach().numpy() for lib, model in ((pl, ours), (torch, theirs))]
    np.testing.assert_allclose(*results, rtol=tolerance)


def test_an_averaged_model_is_apart():
    model = nn.Linear(1, 1)
    averaged = swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    nn.init.constant_(model.weight, 9.0)
    assert averaged.module.weight.item() != 9.0 and averaged.n_averaged.item() == 1
    other = swa_utils.AveragedModel(nn.Linear(1, 1))
    other.load_state_dict(copy.deepcopy(averaged.state_dict()))
    assert other.n_averaged.item() == 1
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(model, avg_fn=1, multi_avg_fn=1)
    with pytest.raises(ValueError, match=r"Invalid decay value 2.0 provided"):
        swa_utils.get_ema_avg_fn(2.0)


def test_update_bn_equals_torch(torch):
    def scenario(lib):
        draw = np.random.default_rng(0)
        model = lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.Identity()).double().eval()
        batches = [lib.from_numpy(draw.normal(size=(6, 2))) for _ in range(3)]
        lib.optim.swa_utils.update_bn(batches[:2], model)
        lib.optim.swa_utils.update_bn([(batch, 0) for batch in batches], model)
        lib.optim.swa_utils.update_bn(batches, lib.nn.Linear(2, 2).double())  # nothing to do
        return {name: value.tolist() for name, value in model.state_dict().items()}, model[0].momentum, model.training

    (state, *rest), (wanted, *wanted_rest) = scenario(pl), scenario(torch)
    assert rest == wanted_rest and list(state) == list(wanted)
    for name in state:
        np.testing.assert_allclose(state[name], wanted[name], rtol=1e-12)
