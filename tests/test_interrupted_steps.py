"""A step that is interrupted has happened, or it has not: parameters, momenta, counters, rates and scales together."""

import contextlib
import os
import random
import re
import signal
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import pellucid as torch
from interrupts import Interrupter, bits, everywhere
from pellucid import nn, optim
from pellucid.core import commit, modes

SOAK = bool(os.environ.get("PELLUCID_SOAK"))
END = 150  # instructions
STRIDE = 1 if SOAK else 41  # lines; `make soak` takes every one, and then every instruction

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD decaying": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "SGD nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "SGD at rest": lambda p: optim.SGD(p, lr=0.0, momentum=0.9),
    "Adam": lambda p: optim.Adam(p, foreach=True),
    "Adam amsgrad": lambda p: optim.Adam(p, amsgrad=True, weight_decay=0.1, lr=torch.tensor(0.1)),
    "AdamW": lambda p: optim.AdamW(p, fused=True),
    "Adamax": optim.Adamax,
    "NAdam": lambda p: optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, betas=(0.6, 0.7)),
    "Adagrad": optim.Adagrad,
    "Adadelta": lambda p: optim.Adadelta(p, capturable=True),
    "RMSprop": optim.RMSprop,
    "RMSprop centered": lambda p: optim.RMSprop(p, momentum=0.9, centered=True),
    "Rprop": optim.Rprop,
    "ASGD": optim.ASGD,
    "Adafactor": lambda p: optim.Adafactor(p, weight_decay=0.1),
    "Muon": optim.Muon,
    "SGD differentiable": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, differentiable=True),
    "Adam differentiable": lambda p: optim.Adam(p, differentiable=True),
}


def numbers(draw, *shape):
    return torch.tensor(draw.normal(size=shape).astype(np.float32))


class Step:
    """An optimizer at a step: blocks of one parameter and of several, dtypes, memory in another order, two groups."""

    def __init__(self, name, steps, act=None):
        draw = np.random.default_rng(0)
        matrices = [numbers(draw, 3, 4), numbers(draw, 90, 100), nn.Parameter(numbers(draw, 3, 2).t())]
        others = [numbers(draw, 4), numbers(draw), numbers(draw, 0), numbers(draw, 2, 3).to(torch.bfloat16)]
        others += [numbers(draw, 2, 3).double(), numbers(draw, 5)]
        tensors = matrices if name == "Muon" else matrices + others
        self.params = [tensor.requires_grad_() for tensor in tensors]
        if "differentiable" in name:  # parameters that were computed: a step becomes part of their history
            self.params = [p.clone() for p in (self.params[0], self.params[3])]
        first = len(matrices) if len(self.params) > len(matrices) else 1
        self.optimizer = OPTIMIZERS[name]([{"params": self.params[:first]}, {"params": self.params[first:]}])
        self.act, self.steps = act or self.optimizer.step, 0
        for _ in range(steps):
            self.grow()
            self.optimizer.step()
        self.grow()

    def grow(self):
        draw = np.random.default_rng(self.steps)
        self.steps += 1
        for p in self.params:
            p.grad = numbers(draw, *p.shape).to(p.dtype)

    def bits(self):
        return bits([self.params, self.optimizer.state_dict()])


def check_everywhere(make, event="line", stride=STRIDE, offset=0, least=3, again=True):
    """Interrupt at one place after the other: never half done, and what was not done can be done."""
    places = undone = 0
    for subject, before, after in everywhere(make, event, stride, offset):
        now = subject.bits()
        assert now in (before, after), f"half done, interrupted at place {offset + places * stride}"
        try:
            assert modes.MODE.get() is None, "gradients stay off"
        finally:
            modes.MODE.set(None)  # for the tests after this one
        places, undone = places + 1, undone + (now == before)
        if now == before and again:
            subject.act()
            assert subject.bits() == after, f"not the same when done again, after place {offset + places * stride}"
    assert min(places, undone) >= least, "hardly any interrupt came: the test proves nothing"


@pytest.mark.parametrize("steps", [0, 2], ids=["first", "later"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_interrupted_at_any_line(name, steps):
    check_everywhere(lambda: Step(name, steps), offset=len(name) % STRIDE)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 2], ids=["first", "later"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_interrupted_at_any_instruction(name, steps):
    check_everywhere(lambda: Step(name, steps), event="opcode", again=False)


def test_what_is_interrupted_has_blocks_of_several_parameters():
    subject = Step("Adam", 1)
    blocks = [block for plan in subject.optimizer._plans.values() for block in plan.blocks if block is not None]
    assert {len(block.parameters) for block in blocks} == {1, 4}


class Other:
    """Anything that changes several things: what to do, and what is changed by it."""

    def __init__(self, act, changed):
        self.act, self.changed = act, changed

    def bits(self):
        return bits(self.changed())


def embedding(steps):
    table = nn.Embedding(6, 3, sparse=True, _weight=numbers(np.random.default_rng(0), 6, 3))
    other = nn.Embedding(4, 2, sparse=True, _weight=numbers(np.random.default_rng(1), 4, 2))
    optimizer = optim.SparseAdam([table.weight, other.weight], lr=0.1)
    for step in range(steps + 1):
        optimizer.zero_grad()
        (table(torch.tensor([step, 3])).sum() + other(torch.tensor([1])).square().sum()).backward()
        if step < steps:
            optimizer.step()
    return Other(optimizer.step, lambda: [table.weight, other.weight, optimizer.state_dict()])


def lbfgs(search):
    def make(steps):
        params = [numbers(np.random.default_rng(i), 2).requires_grad_() for i in range(2)]
        optimizer = optim.LBFGS(params, lr=0.3, max_iter=3, line_search_fn=search)

        def closure():
            loss = 0.0
            for i, p in enumerate(params):
                p.grad = torch.tensor(4 * (p.detach().array - i) ** 3)
                loss += float(((p.detach().array - i) ** 4).sum())
            return torch.tensor(loss)

        for _ in range(steps):
            optimizer.step(closure)
        return Other(lambda: optimizer.step(closure), lambda: [params, optimizer.state_dict()])

    return make


def averaged(**options):
    def make(steps):
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        fill(model, 0)
        average = optim.swa_utils.AveragedModel(model, **options)
        for step in range(steps):
            fill(model, step + 1)
            average.update_parameters(model)
        fill(model, 9)
        return Other(lambda: average.update_parameters(model), average.state_dict)

    return make


def fill(model, seed):
    draw = np.random.default_rng(seed)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.tensor(draw.integers(1, 9, tuple(tensor.shape))))


def in_place(kept, current, count):
    for mine, new in zip(kept, current):
        mine.add_(new).mul_(0.5)


def scheduled(kind, **options):
    def make(steps):
        p = torch.zeros(1)
        groups = [{"params": [p]}, {"params": [torch.zeros(2)], "lr": torch.tensor(0.5)}]
        optimizer = optim.SGD(groups, lr=1.0, momentum=0.9)
        scheduler = kind(optimizer, **options)
        arguments = (5.0,) if kind is optim.lr_scheduler.ReduceLROnPlateau else ()
        optimizer.step()
        for _ in range(steps):
            scheduler.step(*arguments)

        def changed():
            return [scheduler.state_dict(), [{**group, "params": None} for group in optimizer.param_groups]]

        return Other(lambda: scheduler.step(*arguments), changed)

    return make


def sequence(optimizer):
    parts = [optim.lr_scheduler.ExponentialLR(optimizer, 0.5), optim.lr_scheduler.LinearLR(optimizer, 0.5)]
    return optim.lr_scheduler.SequentialLR(optimizer, parts, [2])


def chain(optimizer):
    parts = [optim.lr_scheduler.ExponentialLR(optimizer, gamma) for gamma in (0.5, 0.25)]
    return optim.lr_scheduler.ChainedScheduler(parts)


def with_gradients(act):
    def make(steps):
        subject = Step("SGD momentum", steps)
        return Other(lambda: act(subject), lambda: [p.grad for p in subject.params])

    return make


def watched(make):
    """The same while somebody looks at every operation: then NumPy is not called behind their back."""

    def act(inner):
        with torch.autograd.detect_anomaly():
            inner()

    def made(steps):
        subject = make(steps)
        return Other(lambda: modes.apart(act, subject.act), subject.changed)

    return made


def twice(kind, **options):
    def make(steps):
        p, q = (numbers(np.random.default_rng(i), 2, 3).requires_grad_() for i in range(2))
        with pytest.warns(UserWarning, match="duplicate parameters"):
            optimizer = kind([p, q, p], lr=0.1, **options)
        for step in range(steps + 1):
            p.grad, q.grad = (numbers(np.random.default_rng(step + i), 2, 3) for i in range(2))
            if step < steps:
                optimizer.step()
        return Other(optimizer.step, lambda: [p, q, optimizer.state_dict()])

    return make


def unscaling(steps):
    subject, scaler = Step("Adam", steps), torch.amp.GradScaler("cpu", init_scale=4.0)
    return Other(
        lambda: scaler.unscale_(subject.optimizer),
        lambda: [[p.grad for p in subject.params], list(scaler._stages.values()), list(scaler._found.values())],
    )


def updating(steps):
    subject, scaler = Step("Adam", 0), torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for _ in range(steps):
        scaler.unscale_(subject.optimizer)
        scaler.update()
    scaler.unscale_(subject.optimizer)
    return Other(
        scaler.update, lambda: [scaler.state_dict(), list(scaler._stages.values()), list(scaler._found.values())]
    )


def loading(steps):
    saved = Step("Adam", 3).optimizer.state_dict()
    for group in saved["param_groups"]:  # as an old file has it
        del group["amsgrad"]
    subject = Step("AdamW", steps)
    return Other(lambda: subject.optimizer.load_state_dict(saved), subject.optimizer.state_dict)


class Halving:
    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


def loading_a_scheduler(kind):
    def make(steps):
        def made():
            return kind(optim.SGD([torch.zeros(1)], lr=1.0))

        saved, scheduler = made(), made()
        saved.optimizer.step()
        for _ in range(steps + 1):
            saved.step()
        saved = saved.state_dict()
        return Other(lambda: scheduler.load_state_dict(saved), scheduler.state_dict)

    return make


def loading_a_module(steps):
    model, saved = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    fill(model, 1)
    fill(saved, 2)
    saved = saved.state_dict()
    return Other(lambda: model.load_state_dict(saved), model.state_dict)


OTHERS = {
    "SparseAdam": embedding,
    "LBFGS": lbfgs(None),
    "LBFGS searching": lbfgs("strong_wolfe"),
    "SWA": averaged(),
    "SWA by a function": averaged(avg_fn=lambda kept, new, count: (kept + new) / 2),
    "SWA by a function of lists": averaged(multi_avg_fn=in_place),
    "EMA": averaged(multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True),
    "StepLR": scheduled(optim.lr_scheduler.StepLR, step_size=1),
    "OneCycleLR": scheduled(optim.lr_scheduler.OneCycleLR, max_lr=2.0, total_steps=9),
    "CyclicLR": scheduled(optim.lr_scheduler.CyclicLR, base_lr=0.1, max_lr=2.0),
    "CosineAnnealingWarmRestarts": scheduled(optim.lr_scheduler.CosineAnnealingWarmRestarts, T_0=3),
    "ReduceLROnPlateau": scheduled(optim.lr_scheduler.ReduceLROnPlateau, patience=0),
    "SequentialLR": scheduled(sequence),
    "ChainedScheduler": scheduled(chain),
    "a parameter twice, SGD": twice(optim.SGD, momentum=0.9),
    "a parameter twice, Adam": twice(optim.Adam),
    "a parameter twice, Muon": twice(optim.Muon),
    "clip_grad_norm_": with_gradients(lambda subject: nn.utils.clip_grad_norm_(subject.params, 0.1)),
    "clip_grad_value_": with_gradients(lambda subject: nn.utils.clip_grad_value_(subject.params, 0.1)),
    "zero_grad": with_gradients(lambda subject: subject.optimizer.zero_grad()),
    "zero_grad to zero": with_gradients(lambda subject: subject.optimizer.zero_grad(set_to_none=False)),
    "GradScaler.unscale_": unscaling,
    "GradScaler.update": updating,
    "load_state_dict": loading,
    "SequentialLR.load_state_dict": loading_a_scheduler(sequence),
    "ChainedScheduler.load_state_dict": loading_a_scheduler(chain),
    "LambdaLR.load_state_dict": loading_a_scheduler(lambda o: optim.lr_scheduler.LambdaLR(o, Halving(0.5))),
    "load_state_dict of a module": loading_a_module,
}
WRITERS = ("clip_grad_norm_", "clip_grad_value_", "zero_grad to zero", "GradScaler.unscale_", "SWA", "EMA")
OTHERS |= {f"{name}, watched": watched(OTHERS[name]) for name in WRITERS}


SHORT = ("zero_grad", "GradScaler.update")


@pytest.mark.parametrize("steps", [0, 2], ids=["first", "later"])
@pytest.mark.parametrize("name", OTHERS)
def test_what_surrounds_a_step_is_whole_too(name, steps):
    long = ("LBFGS", "load", "SWA", "EMA")
    stride = STRIDE if name.startswith(long) else 1 if name in SHORT else max(1, STRIDE // 8)
    check_everywhere(lambda: OTHERS[name](steps), stride=stride)


@contextlib.contextmanager
def watched(how, folder):
    if how == "anomaly mode":
        with torch.autograd.set_detect_anomaly(True):
            yield
    else:
        with torch.Recorder(nn.Linear(2, 2), path=folder / "flight"):
            yield


@pytest.mark.parametrize("how", ["anomaly mode", "a recorder"])
@pytest.mark.parametrize("name", OTHERS)
def test_what_surrounds_a_step_is_whole_when_somebody_watches(name, how, tmp_path):
    """Then tensors are written one after the other, by operations that can be seen."""
    places = 0
    with watched(how, tmp_path):
        mode = modes.MODE.get()
        stride = 1 if name in SHORT else STRIDE
        for subject, before, after in everywhere(lambda: OTHERS[name](0), stride=stride, offset=len(name) % stride):
            assert subject.bits() in (before, after), f"half done, interrupted at place {places}"
            assert modes.MODE.get() is mode
            places += 1
    assert places >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_what_surrounds_a_step_is_whole_at_any_instruction(name):
    check_everywhere(lambda: OTHERS[name](0), event="opcode", again=False)


@pytest.mark.parametrize("name", [*OPTIMIZERS, *OTHERS])
def test_the_end_of_a_first_step_instruction_by_instruction(name):
    """Where the writes are."""

    def make():
        return Step(name, 0) if name in OPTIMIZERS else OTHERS[name](0)

    make().act()  # the first time it also loads and compiles
    counting = Interrupter(1 << 60, "opcode")
    counting(make().act)
    offset = max(0, (1 << 60) - counting.left - END)
    check_everywhere(make, event="opcode", stride=1, offset=offset, least=1, again=False)


@pytest.mark.parametrize("name", ["Adam", "SGD momentum", "Adafactor", "Muon", "ASGD"])
def test_no_memory(name):
    """The same for MemoryError, wherever a line may ask for memory."""
    whole = Step(name, 0)
    before = whole.bits()
    whole.act()
    after, at, came = whole.bits(), 3, True
    while came:
        subject = Step(name, 0)
        came = Interrupter(at, "line", MemoryError)(subject.act)
        assert subject.bits() in (before, after)
        at += STRIDE


@pytest.mark.parametrize("name", ["Adam", "SGD momentum", "SGD", "RAdam"])
@pytest.mark.parametrize("steps", [0, 2], ids=["first", "later"])
def test_memory_is_looked_for_before_the_first_write(name, steps, monkeypatch):
    """A ufunc makes an iterator, a dictionary grows: by then the parameters must not be half written."""

    def refuse(*_):
        raise MemoryError

    subject = Step(name, steps)
    before = subject.bits()
    with monkeypatch.context() as patch:
        patch.setattr(commit.np, "empty", lambda *args: refuse() if args == (commit.ROOM,) else np.zeros(*args))
        with pytest.raises(MemoryError):
            subject.act()
    assert subject.bits() == before

    class Full(type(subject.optimizer.state)):
        update = refuse

    subject = Step(name, 0)
    subject.optimizer.state = Full(dict)
    before = subject.bits()
    if name != "SGD":  # which has no state
        with pytest.raises(MemoryError):
            subject.act()
        assert subject.bits() == before


def test_an_interrupt_of_update_bn_leaves_the_layers_as_they_were_told_to_be():
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3)).eval()

    def batches():
        yield torch.ones(3, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        optim.swa_utils.update_bn(batches(), model)
    assert model[0].momentum == 0.3 and not model.training


@contextlib.contextmanager
def strict(how):
    if how == "errors of NumPy":
        with np.errstate(all="raise"):
            yield
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield


@pytest.mark.parametrize("how", ["errors of NumPy", "warnings as errors"])
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "differentiable" not in name])
def test_numbers_out_of_range(name, how):
    """Gradients that overflow in the middle of a step: NumPy's complaint, if any, comes before it or never."""
    for value in (3e38, np.nan):
        subject, other = Step(name, 1), Step(name, 1)
        for p in (*subject.params[-1:], *other.params[-1:]):
            p.grad.fill_(value)
        before = subject.bits()
        with np.errstate(all="ignore"):
            other.act()
        with strict(how), contextlib.suppress(FloatingPointError, RuntimeWarning):
            subject.act()
        assert subject.bits() in (before, other.bits())


def test_accumulation_out_of_range_is_whole():
    """Two gradients, of which one overflows when it is added to: both are added to, or none."""
    for order in (1, -1):
        leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
        leaves[0].grad, leaves[1].grad = torch.full((2,), 3e38), torch.ones(2)
        loss = sum((leaf * 2e38).sum() for leaf in leaves[::order])
        with np.errstate(all="raise"), contextlib.suppress(FloatingPointError):
            loss.backward()
        assert leaves[0].grad.isinf().all() == (leaves[1].grad > 1).all()


def test_an_error_of_a_hook_or_a_closure():
    def fail(*_):
        raise ValueError("no")

    for name in ("Adam", "SGD momentum"):
        subject, whole = Step(name, 1), Step(name, 1)
        before = subject.bits()
        whole.act()
        with pytest.raises(ValueError, match="no"):
            subject.optimizer.step(fail)
        handle = subject.optimizer.register_step_pre_hook(fail)
        with pytest.raises(ValueError, match="no"):
            subject.act()
        handle.remove()
        assert subject.bits() == before
        subject.optimizer.register_step_post_hook(fail)
        with pytest.raises(ValueError, match="no"):
            subject.act()
        assert subject.bits() == whole.bits()


@pytest.mark.parametrize("which", [1, 0, 3], ids=["alone", "first of a block", "in a block"])
def test_a_gradient_that_does_not_fit_is_refused_before_anything_is_written(which):
    for name in ("SGD momentum", "Adam", "Adafactor"):
        subject = Step(name, 1)
        before, shape = subject.bits(), tuple(subject.params[which].shape)
        subject.params[which].grad.data = torch.ones(7)
        message = f"the gradient has shape (7,), its parameter has shape {shape}"
        with pytest.raises(RuntimeError, match=re.escape(message)):
            subject.act()
        assert subject.bits() == before


def test_gradients_of_one_block_that_have_changed_places_are_refused():
    """Together they are as long as they should be."""
    short, long = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    optimizer = optim.Adam([long, short])
    for _ in range(2):
        (short.sum() + 2 * long.sum()).backward()
        before = bits([short, long, optimizer.state_dict()])
        short.grad.data, long.grad.data = long.grad.data, short.grad.data
        with pytest.raises(RuntimeError, match=r"the gradient has shape \(2,\), its parameter has shape \(3,\)"):
            optimizer.step()
        assert bits([short, long, optimizer.state_dict()]) == before
        short.grad.data, long.grad.data = long.grad.data, short.grad.data
        optimizer.step()


@pytest.mark.parametrize("kind", [optim.NAdam, optim.SparseAdam])
def test_a_parameter_twice_in_a_group_steps_twice(kind):
    p, q = torch.ones(2, 2, requires_grad=True), torch.ones(2, 2, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        twice = kind([p, p])
    once = kind([q])
    for each in (p, q):
        nn.functional.embedding(torch.tensor([1]), each, sparse=True).sum().backward()
    twice.step()
    once.step()
    once.step()
    assert bits(p) == bits(q) and bits(twice.state[p]) == bits(once.state[q])


def test_gradients_are_not_held_after_a_step():
    """What a step was going to do is forgotten, also when it fails."""
    subject = Step("Adam", 1)
    subject.act()
    held = [weakref.ref(p.grad.array) for p in subject.params]
    subject.optimizer.zero_grad()
    assert not any(ref() is not None for ref in held)


# --- real signals


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if "differentiable" not in name])
def test_signals_at_random_moments(name):
    """A handler that raises, of a real timer, while kernels and BLAS have threads of their own."""

    def interrupt(*_):
        raise KeyboardInterrupt

    def after_steps(steps):
        subject = Step(name, 0)
        found = [subject.bits()]
        for _ in range(steps):
            subject.act()
            found.append(subject.bits())
        return found

    many, draws = 20, random.Random(name)
    known = after_steps(many)
    subject = Step(name, 0)
    started = time.perf_counter()
    for _ in range(many):
        subject.act()
    duration = time.perf_counter() - started
    old = signal.signal(signal.SIGALRM, interrupt)
    within = 0
    try:
        for _ in range(1000 if SOAK else 20):
            subject = Step(name, 0)
            steps = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, draws.uniform(1e-6, duration))
                while steps < many:
                    subject.act()
                    steps += 1
                time.sleep(1)
            except KeyboardInterrupt:
                pass
            now = subject.bits()
            within += steps < many
            assert now in (known[steps], known[min(steps + 1, many)]), f"half done, interrupted in step {steps}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert within, "no interrupt came during a step: the test proves nothing"
