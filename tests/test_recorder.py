"""The flight recorder: steps replay bit for bit in another process; triggers, bounds, damage, hostile files."""

import contextlib
import hashlib
import io
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import textwrap
import time
import warnings
import weakref
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import modes
from pellucid.core.modes import LOGGED
from pellucid.diagnose import flight, plain
from pellucid.diagnose.flight import bare_name, read_record, same_program
from pellucid.diagnose.recorder import Recorder
from pellucid.diagnose.replay import print_replay, replay
from pellucid.diagnose.tape import MANY, MOST_LINES
from pellucid.serialization import DamagedFileError
from pellucid.serialization.archive import Writer
from pellucid.shim import as_torch

nn, F = torch.nn, torch.nn.functional
SOAK = bool(os.environ.get("PELLUCID_SOAK"))
SOURCE = Path(torch.__file__).parents[1]


# --- programs


def perceptron():
    model = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Dropout(), nn.Linear(9, 2))
    return model, lambda: F.mse_loss(model(torch.randn(7, 5)), torch.randn(7, 2))


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.2),
        nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip
    return model, lambda: F.cross_entropy(model(torch.randn(6, 1, 8, 8)), torch.randint(0, 5, (6,)))


def recurrent():
    words, states, output = nn.Embedding(11, 6), nn.LSTM(6, 8, 2, batch_first=True, dropout=0.3), nn.Linear(8, 11)

    def loss():
        scores = output(states(words(torch.randint(0, 11, (3, 7))))[0])
        return F.cross_entropy(scores.flatten(0, 1), torch.randint(0, 11, (21,)))

    return nn.ModuleList([words, states, output]), loss


def transformer():
    model = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    return model, lambda: model(torch.randn(2, 5, 16), src_mask=mask).square().mean()


def writes_and_views():
    weight = nn.Parameter(torch.randn(4, 4))
    mask = torch.eye(4).bool()

    def loss():
        h = weight * 2
        h[0] = h[1] * 3
        h[:, 1].mul_(2)
        part = h[2]
        h.add_(1)
        z = torch.zeros(4, 4)
        z[1:3] = h[:2]
        z[mask] = 0.5
        h.masked_fill_(mask, 7.0)
        return (z * h).sum() + (part * part.detach()).sum() + h.t().contiguous().view(-1)[::3].sum()

    return nn.ParameterList([weight]), loss


def gradient_penalty():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def loss():
        x = torch.randn(5, 3, requires_grad=True)
        y = model(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return y + ((g.norm(dim=1) - 1) ** 2).mean()

    return model, loss


def micro_batches():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))

    def loss():
        for _ in range(2):
            (model(torch.randn(3, 4)).sum() / 3).backward()
        return model(torch.randn(3, 4)).sum() / 3

    return model, loss


def odd_layouts():
    model, data = nn.Linear(4, 4), torch.randn(40, 9)

    def loss():
        with torch.no_grad():
            x, e = data[::2, 1:5].t().flip(0).t(), torch.randn(1, 4).expand(20, 4)
        return (model(x) * model(e)).sum()

    return model, loss


def half_precision():
    model = nn.Linear(4, 4).to(torch.bfloat16)
    return model, lambda: model(torch.randn(3, 4).to(torch.bfloat16)).float().square().sum()


def checkpointed():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    return model, lambda: torch.utils.checkpoint.checkpoint(model, torch.randn(5, 4), use_reentrant=False).sum()


def norms():
    model = nn.Sequential(nn.Linear(6, 12), nn.LayerNorm(12, elementwise_affine=False), nn.GroupNorm(3, 12))

    def loss():
        y = F.rms_norm(model(torch.randn(5, 6)), (12,))
        return F.layer_norm(y, (12,)).pow(3).mean() + F.instance_norm(y.view(5, 3, 4)).square().mean()

    return model, loss


def several_results():
    weight = nn.Parameter(torch.randn(6, 6))

    def loss():
        a, b, c = (weight * weight).tanh().chunk(3)
        a = a + b
        a.add_(c * 2).sigmoid_()
        largest, where = a.max(1)
        values, _ = b.topk(2)
        first, *_ = a.unbind(1)
        attended = F.scaled_dot_product_attention(a[None], b[None], c[None])
        return (largest * first).sum() + (values * where[:, None]).sum() + attended.sum()

    return nn.ParameterList([weight]), loss


def passing_leaves():
    model, table = nn.Linear(4, 3), nn.Parameter(torch.randn(12)).requires_grad_()
    seen = table.view(3, 4)  # made once, before the steps: its node is older than all of them

    def noise():
        return torch.randn(5, 4, requires_grad=True).tanh()  # the leaf is gone when its gradient comes

    return nn.ParameterList([*model.parameters(), table]), lambda: (model(noise()) @ seen).square().mean()


PROGRAMS = [
    perceptron, convolutions, recurrent, transformer, writes_and_views, gradient_penalty, micro_batches, odd_layouts,
    half_precision, checkpointed, norms, several_results, passing_leaves,
]  # fmt: skip


def train(make, path, steps: int = 4, seed: int = 1, dump: bool = True, **options):
    """Train with a recorder, dump before the last update; the parameters at the end."""
    torch.manual_seed(seed)
    model, loss_of = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with Recorder(model, optimizer, path, **options) as recorder:
        for step in range(steps):
            optimizer.zero_grad()
            loss_of().backward()
            if dump and step == steps - 1:
                recorder.dump("test")
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    return [p.detach().numpy().copy() for p in model.parameters()]


def run_python(code: str, *arguments: str, folder=None, **environment: str) -> subprocess.CompletedProcess:
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=folder, timeout=120)


def replayed_elsewhere(paths) -> list[dict]:
    """What a new process finds in all steps of these files."""
    done = run_python(
        """
        import json, sys
        from pellucid.diagnose.flight import read_record
        from pellucid.diagnose.replay import replay
        for path in sys.argv[1:]:
            for step in read_record(path).steps:
                result = replay(path, step.number)
                print(json.dumps([path, step.number, result.exact, result.compared, result.different, result.error]))
        """,
        *map(str, paths),
    )
    assert done.returncode == 0, done.stderr
    names = ("path", "step", "exact", "compared", "different", "error")
    return [dict(zip(names, json.loads(line), strict=True)) for line in done.stdout.splitlines()]


# --- bit for bit


def test_every_recorded_step_replays_bit_for_bit_in_a_new_process(tmp_path):
    paths = [tmp_path / f"{make.__name__}.flight" for make in PROGRAMS]
    for make, path in zip(PROGRAMS, paths, strict=True):
        train(make, path, keep=3)
    results = replayed_elsewhere(paths)
    assert len(results) == 3 * len(PROGRAMS)
    for result in results:
        assert result["exact"] and not result["error"], result
        assert result["compared"] >= 2, result


class Onlooker:
    """Another observer, who is told of every operation; the recorder beside it then is told too."""

    only_recording, gradient = True, None

    def operation(self, p, tensors, params, outs):
        """Nothing to do."""

    def write(self, target, name):
        """Nothing to do."""


@pytest.mark.parametrize("make", PROGRAMS)
def test_the_log_and_being_told_lead_to_the_same_program(make, tmp_path):
    train(make, tmp_path / "logged", keep=1)
    with modes.switched(observers=(Onlooker(),)):
        train(make, tmp_path / "told", keep=1)
    logged, told = (read_record(tmp_path / name).steps[-1] for name in ("logged", "told"))
    assert replay(tmp_path / "logged").exact and replay(tmp_path / "told").exact
    assert logged.losses == told.losses and logged.squares == told.squares
    programs = [[(each.name, each.line, each.params) for each in step.operations] for step in (logged, told)]
    known = {"moments", "sample_counts"}  # halves of an operation: worked out by the replay, or told of
    assert str([each for each in programs[0] if each[0] not in known]) == str(
        [each for each in programs[1] if each[0] not in known]
    )


def test_what_the_first_optimizer_left_serves_the_second(tmp_path):
    """A GAN: the images were made before the discriminator's step, and take part in the generator's."""
    torch.manual_seed(0)
    maker, judge = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    first, second = torch.optim.SGD(judge.parameters(), lr=0.1), torch.optim.SGD(maker.parameters(), lr=0.1)
    with Recorder(path=tmp_path / "f", keep=4) as recorder:
        for _ in range(2):
            images = maker(torch.randn(5, 2)).tanh()
            first.zero_grad()
            (judge(images.detach()).mean() - judge(torch.randn(5, 3)).mean()).backward()
            first.step()
            second.zero_grad()
            judge(images).mean().neg().backward()
            second.step()
        recorder.dump()
    steps = read_record(tmp_path / "f").steps
    assert [step.number for step in steps] == [1, 2, 3, 4]
    assert [each.opaque for each in steps[-1].leaves if each.opaque] == ["tanh in an earlier step"]
    assert all(replay(tmp_path / "f", number).exact for number in (1, 2, 3, 4))


def by_hand(model, path, loss_of, update):
    """Train without an optimizer: `update` changes the parameters."""
    with Recorder(model, path=path) as recorder:
        for _ in range(4):
            loss_of().backward()
            update([*model.parameters()])
        recorder.dump()
    return [replay(path, step.number) for step in read_record(path).steps]


def descend(parameters):
    with torch.no_grad():
        for parameter in parameters:
            parameter -= 0.1 * parameter.grad
            parameter.grad = None


def descend_by_data(parameters):
    for parameter in parameters:
        parameter.data = parameter.data - 0.1 * parameter.grad
        parameter.grad = None


@pytest.mark.parametrize("update", [descend, descend_by_data])
def test_an_update_by_hand_ends_a_step(tmp_path, update):
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2), torch.randn(5, 3)
    replays = by_hand(model, tmp_path / "f", lambda: model(x).square().mean(), update)
    assert [each.step.number for each in replays] == [2, 3, 4]
    assert all(each.exact and each.compared >= 2 and not each.step.notes for each in replays)


def test_every_evaluation_of_a_line_search_is_a_step_of_its_own(tmp_path):
    x = torch.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([x], max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    with Recorder(path=tmp_path / "f", keep=4) as recorder:
        optimizer.step(closure)
        recorder.dump()
    replays = [replay(tmp_path / "f", step.number) for step in read_record(tmp_path / "f").steps]
    assert len(replays) == 4 and all(each.exact and len(each.losses) == 1 for each in replays)


@pytest.mark.parametrize("owner", ["optimizer", "module", "tensor"])
def test_gradients_that_are_cleared_between_two_backwards_of_a_step(tmp_path, owner):
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model, optimizer, tmp_path / "f") as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).sum().backward()
            if owner == "tensor":
                model.weight.grad = None
            else:
                (optimizer if owner == "optimizer" else model).zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
        recorder.dump()
    replays = [replay(tmp_path / "f", step.number) for step in read_record(tmp_path / "f").steps]
    assert all(each.exact and each.compared >= 3 for each in replays)


def test_a_clearing_that_concerns_nothing_in_the_step_is_left_out(tmp_path):
    first, second = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    with Recorder(path=tmp_path / "f") as recorder:
        (first(torch.ones(1, 3)) + second(torch.ones(1, 3))).sum().backward()
        optimizer.step()
        first(torch.ones(1, 3)).sum().backward()
        second.zero_grad()  # between two backwards of a step that does not use it
        first(torch.ones(1, 3)).sum().backward()
        recorder.dump()
    assert replay(tmp_path / "f").exact


def test_a_result_that_is_detached_in_place(tmp_path):
    model = nn.Linear(3, 2)
    head = nn.Linear(2, 1)
    with Recorder(path=tmp_path / "f") as recorder:
        hidden = model(torch.randn(4, 3))
        hidden.detach_()
        head(hidden).sum().backward()
        recorder.dump()
    result = replay(tmp_path / "f")
    assert result.exact and len(result.gradients) == 2


def test_gradients_of_an_earlier_step_are_left_out_and_looked_at(tmp_path):
    """The other gradients are compared, and the check for NaN sees all of them."""
    head, tail = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)  # tail's gradients pile up
    with Recorder(path=tmp_path / "f") as recorder:
        for step in range(4):
            optimizer.zero_grad()
            tail(head(torch.ones(1, 2))).sum().backward()
            if step < 3:
                optimizer.step()
        recorder.dump()
        assert (result := replay(tmp_path / "f")).exact
        assert result.compared == 3 and "2 parameters had gradients of an earlier step" in str(result)
        tail.bias.grad.fill_(float("nan"))
        tail(head(torch.ones(1, 2))).sum().backward()
    assert "the gradient of bias is nan" in read_record(tmp_path / "f").cause.text


def test_a_fault_of_the_recorder_does_not_stop_training(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(flight, "live_slots", lambda entries: 1 / 0)
    loop(tmp_path / "f", bad=lambda step, loss: (loss * 0).log() if step == 5 else loss)
    assert "was not written: division by zero" in capsys.readouterr().err


@pytest.mark.slow
def test_a_hundred_of_a_hundred_replay(tmp_path):  # T48
    makes = [perceptron, convolutions, recurrent, transformer]
    paths = []
    for number in range(100):
        paths.append(tmp_path / f"{number}.flight")
        train(makes[number % 4], paths[-1], steps=2, seed=number, keep=1)
    results = replayed_elsewhere(paths)
    assert sum(result["exact"] and result["compared"] > 1 for result in results) == 100


CORPUS = sorted((Path(__file__).parent / "doctor_corpus").glob("*/*.py"))


@pytest.mark.parametrize(
    "programs", [CORPUS[::15], pytest.param(CORPUS, marks=pytest.mark.slow)], ids=["some", "every one"]
)
def test_the_programs_of_the_doctor_replay(tmp_path, programs):
    """Broken and healthy ones, GANs, recurrences, line searches, loops by hand: what is compared is the same."""
    compared = 0
    for script in programs:
        path = tmp_path / f"{script.stem}.flight"
        silence = io.StringIO()
        with (
            contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence),
            warnings.catch_warnings(action="ignore"), as_torch(), Recorder(path=path) as recorder,
        ):  # fmt: skip
            with contextlib.suppress(Exception):
                runpy.run_path(str(script), run_name="__main__")
            recorder.dump()
        for step in read_record(path).steps:
            result = replay(path, step.number)
            assert result.exact, f"{script.name}: {result}"
            compared += result.compared
    assert compared > 3 * len(programs)


def test_recording_changes_nothing(tmp_path):
    torch.manual_seed(1)
    model, loss_of = convolutions()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss_of().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    plain = [p.detach().numpy() for p in model.parameters()]
    recorded = train(convolutions, tmp_path / "f", dump=False)
    assert all((a == b).all() for a, b in zip(plain, recorded, strict=True))
    assert not (tmp_path / "f").exists()
    assert modes.MODE.get() is None


def test_parameters_changed_between_steps_are_recorded_as_they_were_used(tmp_path):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model, optimizer, tmp_path / "f") as recorder:
        for step in range(3):
            with torch.no_grad():
                model.weight.clamp_(-0.1, 0.1)
            model.bias.data = torch.full((1,), float(step))
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            recorder.dump("look")
            optimizer.step()
    result = replay(tmp_path / "f")
    assert result.losses[0] == pytest.approx(np.frombuffer(bytes.fromhex(result.step.losses[0][1]), np.float32)[0])


def test_a_custom_function_is_said_to_be_opaque(tmp_path):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    model = nn.Linear(3, 3)
    train(lambda: (model, lambda: Square.apply(model(torch.randn(2, 3))).sum()), tmp_path / "f")
    result = replay(tmp_path / "f")
    assert result.exact and result.compared == 1  # the loss
    assert "Square, a function of the script's own" in str(result)


def test_a_forgotten_zero_grad_is_noticed(tmp_path):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model, optimizer, tmp_path / "f") as recorder:
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            recorder.dump("look")
            optimizer.step()
    result = replay(tmp_path / "f")
    assert result.exact
    assert "an earlier step" in str(result)


def test_what_was_detached_is_replayed(tmp_path):
    model = nn.Linear(3, 3)

    def loss():
        y = model(torch.randn(2, 3))
        return (y * y.detach()).sum()  # its gradient is y's, half of that of y * y

    train(lambda: (model, loss), tmp_path / "f")
    result = replay(tmp_path / "f")
    assert result.exact and result.compared == 3 and any("  detach -> (2, 3)" in line for line in result.trace)


def test_gradients_that_were_changed_since_are_compared_by_their_squares(tmp_path):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model, optimizer, tmp_path / "f") as recorder:
        model(torch.ones(2, 3)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        recorder.dump("after clipping")
    result = replay(tmp_path / "f")
    assert result.step.digests == {} and result.exact and result.compared == 2
    assert result.gradients[result.step.graded[0]].tolist() == [[2.0, 2.0, 2.0]]  # as backward left them


def test_what_has_no_plain_form_is_left_out_and_said_so(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "FORMS", {})  # as if a row took a class that is not on the list
    train(convolutions, tmp_path / "f", steps=2)
    result = replay(tmp_path / "f")
    assert "has a param that cannot be recorded (pellucid.ops.nn." in str(result)
    assert result.losses == [] and not result.error and result.different[0] == "the loss of backward 1"

    model = nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(model.parameters())]
    optimizers[0].param_groups[0]["note"] = object()
    with Recorder(model, optimizers, tmp_path / "g") as recorder:
        model(torch.ones(2, 3)).sum().backward()
        recorder.dump("look")
    assert [name for name, _ in read_record(tmp_path / "g").optimizers] == ["Adam"]


def test_programs_whose_params_are_arrays_are_not_taken_for_the_same():
    one, other = ([("row", (0,), (np.arange(3),), 1, 1, None, 0, 5)] for _ in "ab")
    assert same_program(one, one) and not same_program(one, other)


# --- triggers


def loop(path, steps=14, bad=None, **options):
    """A small training in which `bad(step, loss)` may spoil the loss; the recorder."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Recorder(model, optimizer, path, **options) as recorder:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4)).square().mean() + 1
            loss = loss if bad is None else bad(step, loss)
            loss.backward()
            optimizer.step()
    return recorder


def test_the_report_of_a_replay_names_the_first_bad_operation(tmp_path):
    loop(tmp_path / "f", bad=lambda step, loss: (loss * 0).log() if step == 3 else loss)
    report = str(replay(tmp_path / "f"))
    assert "log" in report.split("results (losses and gradients)")[1] and "test_recorder.py" in report


def test_a_loss_that_is_not_finite(tmp_path, capsys):
    loop(tmp_path / "f", bad=lambda step, loss: (loss * 0).log() if step == 5 else loss)
    record = read_record(tmp_path / "f")
    assert record.cause.kind == "non-finite" and "the loss is -inf" in record.cause.text
    assert [step.number for step in record.steps] == [3, 4, 5]  # the first bad step stays, whatever comes after
    assert "pellucid replay" in capsys.readouterr().err


def test_a_gradient_that_is_not_finite(tmp_path):
    loop(tmp_path / "f", bad=lambda step, loss: loss + (loss - loss).sqrt() if step == 5 else loss)
    record = read_record(tmp_path / "f")
    assert "the gradient of" in record.cause.text and "0.weight is nan" in record.cause.text
    assert replay(tmp_path / "f").finding.code == "sqrt-at-zero"


def test_a_loss_that_jumps(tmp_path):
    loop(tmp_path / "f", bad=lambda step, loss: loss * 50 if step == 13 else loss)
    cause = read_record(tmp_path / "f").cause
    assert cause.kind == "spike" and "jumped to" in cause.text


def test_a_noisy_loss_does_not_trigger(tmp_path):
    noise = np.random.default_rng(0).normal(1, 0.3, 200)
    loop(tmp_path / "f", steps=200, bad=lambda step, loss: loss * float(noise[step - 1]))
    assert not (tmp_path / "f").exists()


def test_an_exception(tmp_path):
    def fail(step, loss):
        if step == 4:
            raise KeyError("oh")
        return loss

    with pytest.raises(KeyError):
        loop(tmp_path / "f", bad=fail)
    record = read_record(tmp_path / "f")
    assert record.cause.text == "KeyError left the recorded block"
    assert record.cause.spot.startswith("tests/test_recorder.py:") or record.cause.spot.startswith("test_recorder.py:")
    assert record.steps[-1].number == 4
    report = str(replay(tmp_path / "f"))
    assert "nothing to compare" in report and "last:" in report and "add -> () up to" in report
    assert replay(tmp_path / "f", 3).exact


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="this system has no Ctrl-\\")
def test_control_backslash(tmp_path):
    before = signal.getsignal(signal.SIGQUIT)
    loop(tmp_path / "f", bad=lambda step, loss: (os.kill(os.getpid(), signal.SIGQUIT), loss)[1] if step == 4 else loss)
    assert read_record(tmp_path / "f").cause.kind == "signal"
    assert signal.getsignal(signal.SIGQUIT) == before


def test_a_spike_gives_way_to_a_nan(tmp_path):
    def bad(step, loss):
        return loss * 50 if step == 12 else loss * float("nan") if step == 13 else loss

    loop(tmp_path / "f", bad=bad)
    assert read_record(tmp_path / "f").cause.kind == "non-finite"


def scaled_loop(path, steps=60, bad=None, applied=None, init_scale=2.0**24):
    """The same in half precision with a GradScaler, whose first scale is far too large; the recorder."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=15)
    with Recorder(model, optimizer, path) as recorder:
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = model(torch.randn(6, 4)).float().square().mean() + 1
            loss = loss if bad is None else bad(step, loss)
            scaler.scale(loss).backward()
            scaler.step(optimizer) if applied is None else applied(optimizer)
            scaler.update(None if applied is None else 2.0**24)
    return recorder, scaler


def test_an_overflow_that_a_scaler_leaves_out_is_no_fault(tmp_path):
    recorder, scaler = scaled_loop(tmp_path / "f")
    assert scaler.get_scale() < 2.0**20, "the scaler has left out steps"
    assert not (tmp_path / "f").exists() and recorder.number == 61


def test_a_fault_after_steps_that_a_scaler_left_out_is_recorded(tmp_path):
    scaled_loop(tmp_path / "f", bad=lambda step, loss: (loss * 0).log() if step == 50 else loss)
    record = read_record(tmp_path / "f")
    assert [step.number for step in record.steps] == [48, 49, 50] and record.cause.text == "the loss is -inf"
    assert replay(tmp_path / "f").exact


def test_a_fault_at_every_scale_is_recorded_when_the_scaler_has_none_left(tmp_path):
    scaled_loop(tmp_path / "f", bad=lambda step, loss: loss + (loss - loss).sqrt(), init_scale=2.0**4)
    record = read_record(tmp_path / "f")
    assert record.steps[-1].number == 5  # 16, 8, 4, 2, and then 1: it is not the scale
    assert replay(tmp_path / "f").finding.code == "sqrt-at-zero"


@pytest.mark.parametrize("applied", [lambda optimizer: optimizer.step(), lambda optimizer: None], ids=["step", "none"])
def test_an_overflow_that_no_scaler_leaves_out_is_recorded(tmp_path, applied):
    scaled_loop(tmp_path / "f", steps=1, applied=applied)
    record = read_record(tmp_path / "f")
    assert "0.weight is" in record.cause.text and [step.number for step in record.steps] == [1]
    assert replay(tmp_path / "f").finding.code == "overflow"


def test_a_growing_scale_is_no_spike(tmp_path):
    _, scaler = scaled_loop(tmp_path / "f", init_scale=2.0)
    assert scaler.get_scale() == 32.0 and not (tmp_path / "f").exists()


def test_a_file_that_cannot_be_written_does_not_stop_training(tmp_path, capsys):
    loop(tmp_path / "missing" / "f", bad=lambda step, loss: (loss * 0).log() if step == 5 else loss)
    assert "was not written" in capsys.readouterr().err
    with pytest.raises(OSError, match="could not be written"):
        Recorder(path=tmp_path / "missing" / "f").dump()


def test_a_watcher_of_operations_alone_leaves_backward_as_it_is():
    """The recorder's way of observing: told of operations, of the end of backward, not of every gradient."""

    class Observer:
        gradient, only_recording = None, True

        def __init__(self):
            self.names, self.ends = [], []

        def operation(self, p, tensors, params, outs):
            assert all(isinstance(tensor, torch.Tensor) for tensor in (*tensors, *outs))
            self.names.append(p.name)

        def write(self, target, name):
            self.names.append(name)

        def backward(self, tensors, gradients, selective, create_graph):
            self.ends.append((tensors[0].item(), selective, create_graph))

    observer, x = Observer(), torch.ones(3, requires_grad=True)
    with modes.switched(observers=(observer,)):
        loss = ((x * 2 + torch.arange(3)) @ x).exp().sum()  # a number, another dtype, and plain floats
        loss.backward()
        with torch.no_grad():
            x.mul_(2)
            x * 3
    assert observer.names == ["mul", "cast", "add", "dot", "exp", "sum_all"]
    assert observer.ends == [(loss.item(), False, False)]


def test_bad_arguments():
    with pytest.raises(ValueError, match="keep"):
        Recorder(keep=0)


# --- the bound


def test_older_steps_give_way(tmp_path):
    def make():
        model = nn.Linear(500, 10)  # 20 kB
        return model, lambda: model(torch.randn(100, 500)).square().mean()  # 200 kB

    train(make, tmp_path / "f", steps=6, keep=5, limit=700_000)
    record = read_record(tmp_path / "f")
    assert 2 <= len(record.steps) <= 3
    assert record.left_out >= 1
    assert f"{record.left_out} earlier steps had no room" in str(replay(tmp_path / "f"))
    assert (tmp_path / "f").stat().st_size < 750_000


def test_the_memory_of_steps_that_are_gone_serves_again(tmp_path):
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    snapshots = []
    with Recorder(model, optimizer, tmp_path / "f", keep=2) as recorder:
        for _ in range(8):
            optimizer.zero_grad()
            model(torch.randn(5, 4)).square().mean().backward()
            optimizer.step()
            snapshots += recorder.steps[-1].snapshot
    assert len(snapshots) == 7  # the first step finds the parameters out
    assert len({id(array) for array in snapshots}) == 3  # two steps that are kept, and the one that runs


@pytest.mark.parametrize("retain", [False, True])
def test_a_recorded_step_holds_no_results(tmp_path, retain):
    """Nor does it where a graph is retained, or is not walked at all: the nodes are let go of."""
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    with Recorder(model, optimizer, tmp_path / "f", keep=2):
        for _ in range(4):
            optimizer.zero_grad()
            hidden = model(torch.randn(5, 4)).tanh()
            aside = hidden.exp()
            loss = hidden.square().mean()
            loss.backward(retain_graph=retain)
            kept += [weakref.ref(hidden.array), weakref.ref(aside.array)]
            optimizer.step()
            del hidden, aside, loss
        assert [reference() for reference in kept[:-2]] == [None] * (len(kept) - 2)  # the last is known by its tape


def test_graphs_that_nobody_walks_do_not_pile_up(tmp_path):
    """Evaluation without no_grad: the log holds the nodes of some operations, not of all."""
    model, held = nn.Sequential(nn.Linear(4, 30), nn.Tanh(), nn.Linear(30, 1)), []
    with Recorder(model, path=tmp_path / "f") as recorder:
        for _ in range(600):
            hidden = model[1](model[0](torch.randn(5, 4)))
            held.append(weakref.ref(hidden.array))
            model[2](hidden)
        assert sum(reference() is not None for reference in held) < MANY
        w, y = model[0].weight, model[0].weight
        for _ in range(2 * LOGGED):
            y = y * w
        assert len(recorder.tape.log) > LOGGED
        assert sum(type(said) is tuple for said in recorder.tape.log.values()) <= LOGGED
        for _ in range(MOST_LINES - 2 * LOGGED):
            y = y * w
        assert recorder.tape.overflow and not recorder.tape.log


def test_integers_are_recorded_as_they_are_used(tmp_path):
    model, labels = nn.Linear(4, 3), torch.arange(6).view(2, 3) % 3

    def loss():
        return nn.functional.cross_entropy(model(torch.randn(6, 4)), labels.view(-1) * 2 % 3)

    train(lambda: (model, loss), tmp_path / "f")
    record = read_record(tmp_path / "f")
    assert not {"mul", "remainder", "reshape"} & {each.name for each in record.steps[-1].operations}
    assert replay(tmp_path / "f").exact


def test_a_step_that_is_too_large_is_not_recorded(tmp_path):
    with pytest.warns(UserWarning, match="larger limit="):
        train(perceptron, tmp_path / "f", steps=3, dump=False, limit=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(perceptron, tmp_path / "f", steps=3, limit=300)
    assert read_record(tmp_path / "f").steps == []
    assert print_replay(str(tmp_path / "f")) == 2


def test_a_batch_out_of_a_dataset_is_recorded_without_the_dataset(tmp_path):
    data = torch.randn(3000, 100)
    model = nn.Linear(100, 1)
    train(lambda: (model, lambda: model(data[torch.randint(0, 3000, (4,))]).square().mean()), tmp_path / "f")
    assert (tmp_path / "f").stat().st_size < 100_000
    assert replay(tmp_path / "f").exact


# --- the file


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("flight") / "good"
    train(perceptron, path, steps=2)
    return path


def test_damage_anywhere_is_noticed(recorded, tmp_path):
    whole = recorded.read_bytes()
    copy = tmp_path / "copy"
    for place in np.random.default_rng(0).integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(place % 8)
        copy.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            read_record(copy)
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        copy.write_bytes(whole[:length])
        with pytest.raises(DamagedFileError):
            read_record(copy)
    assert print_replay(str(copy)) == 2


def test_there_is_no_pickle_in_it(recorded):
    with zipfile.ZipFile(recorded) as archive:
        names = [info.filename for info in archive.infolist()]
        assert all(name.startswith(("flight/data/", "flight/record.json", "flight/pellucid/")) for name in names)
        text = json.loads(archive.read("flight/record.json"))
    assert text["format"] == "pellucid flight record" and text["version"] == 1
    assert torch.load.__module__ and b"\x80\x02" not in json.dumps(text).encode()
    with pytest.raises(DamagedFileError, match=r"no data.pkl"):
        torch.load(recorded)


def test_secrets_are_not_stored(tmp_path):
    folder = tmp_path / "hidden-folder"
    folder.mkdir()
    (folder / "train.py").write_text(
        textwrap.dedent("""
        import torch
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (model(torch.ones(3, 2)) * 0).log().sum().backward()
            optimizer.step()
        """)
    )
    code = """
        import sys
        from pellucid.cli import main
        sys.exit(main(["run", "--record", "flight", sys.argv[1], "hidden-argument"]))
    """
    done = run_python(code, str(folder / "train.py"), folder=tmp_path, TOKEN="hidden-token")
    assert done.returncode == 0, done.stderr
    stored = (tmp_path / "flight").read_bytes()
    assert b"train.py" in stored
    for secret in ("hidden-token", "hidden-argument", str(tmp_path), os.path.expanduser("~") + "/"):
        assert secret.encode() not in stored
    assert bare_name("/somewhere/else/train.py") == "train.py"


def test_a_file_on_another_drive_loses_its_folder(monkeypatch):
    def relpath(path):
        raise ValueError("path is on mount 'D:', start on mount 'C:'")  # what Windows says

    monkeypatch.setattr(os.path, "relpath", relpath)
    assert bare_name("/secret/train.py") == "train.py"


def forged(path: Path, copy: Path, change) -> Path:
    """A file whose digests are right and whose contents are not."""
    with zipfile.ZipFile(path) as archive:
        parts = {i.filename.removeprefix("flight/"): archive.read(i) for i in archive.infolist()}
    document = json.loads(parts.pop("record.json"))
    parts.pop("pellucid/digests")
    changed = change(document)
    text = changed if isinstance(changed, bytes) else json.dumps(document if changed is None else changed).encode()
    with copy.open("w+b") as out:
        writer = Writer(out, "flight")
        writer.write("record.json", text)
        for name, data in parts.items():
            writer.write(name, data)
        writer.close()
    return copy


def first_operation(document):
    return document["programs"][0][0]


def last_operation(document):
    return [line for line in document["programs"][0] if line[0] != "backward"][-1]


HOSTILE = {
    "no record": lambda d: {},
    "a list": lambda d: [],
    "another version": lambda d: d.update(version=99),
    "a slot that is not there": lambda d: first_operation(d).__setitem__(1, [9999, 1, 2]),
    "a negative slot": lambda d: first_operation(d).__setitem__(1, [-1]),
    "no such operation": lambda d: first_operation(d).__setitem__(0, "__import__"),
    "a param of a foreign class": lambda d: first_operation(d).__setitem__(2, [{"form": "Popen", "fields": ["ls"]}]),
    "a param of no kind": lambda d: first_operation(d).__setitem__(2, [{"os.system": "ls"}]),
    "two leaves in one slot": lambda d: d["steps"][1]["leaves"][0].__setitem__(0, d["steps"][1]["leaves"][1][0]),
    "more results than there are": lambda d: last_operation(d).__setitem__(4, 2),
    "results of a backward": lambda d: d["programs"][0][-1].__setitem__(4, 3),
    "results of a clearing": lambda d: first_operation(d).__setitem__(slice(0, 5), ["clear", [0], [], 50, 2]),
    "too many results": lambda d: first_operation(d).__setitem__(4, 3),
    "a shape larger than its bytes": lambda d: d["blocks"][0].update(shape=[1 << 40]),
    "a negative shape": lambda d: d["blocks"][0].update(shape=[-4]),
    "strides that lead out": lambda d: d["blocks"][0].update(strides=[1 << 20, 1 << 20], offset=0),
    "an offset that leads out": lambda d: d["blocks"][0].update(strides=[4, 4], offset=-64),
    "an object dtype": lambda d: d["blocks"][0].update(dtype="O"),
    "a block that is not there": lambda d: d["steps"][0]["leaves"][0].__setitem__(1, 12345),
    "a program that is not there": lambda d: d["steps"][0].update(program=7),
    "a line that is no number": lambda d: first_operation(d).__setitem__(6, "1"),
    "nesting without end": lambda d: b"[" * 100_000 + b"]" * 100_000,
    "no JSON": lambda d: b"\xff{",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(recorded, tmp_path, name):
    path = forged(recorded, tmp_path / "forged", HOSTILE[name])
    assert print_replay(str(path), None) == 2
    with pytest.raises(DamagedFileError):
        replay(path)


# Values of every type there is in a description, as JSON.
OTHERS = [
    None, True, -1, 0, 3, 2**40, 2**70, 1.5, "x", "", [], {}, [[]], [1, 2], {"list": []}, {"slice": [None, None, None]},
    {"array": 0, "scalar": False}, {"float": "nan"}, {"dtype": "float32"}, {"row": "mul"}, {"dict": [[1, 2]]},
    {"complex": ["0x1p0", "0x1p0"]}, {"ellipsis": True}, {"tensor": 1}, {"form": "Layout", "fields": []},
]  # fmt: skip


def places(value, path=()):
    """The paths to everything in a description."""
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in members:
        yield from places(part, (*path, key))


def kinds_of_places(document):
    """The places by what stands there: of all lines of all programs the same field is one kind, of params each."""
    found = {}
    for path in places(document):
        kind = tuple("any" if type(key) is int and i != 3 else key for i, key in enumerate(path[:5]))
        found.setdefault(kind, []).append(path)
    return sorted(found.items(), key=str)


def container(document, path):
    """What holds the thing at a place."""
    for key in path[:-1]:
        document = document[key]
    return document


@pytest.mark.parametrize("make", [perceptron, norms, recurrent, several_results, micro_batches])
def test_wrong_types_are_refused_by_our_own_error(make, tmp_path):
    """Whatever stands in the place of a value, digests right: a result, or DamagedFileError; never another error."""
    train(make, tmp_path / "good", steps=2, keep=2)
    with zipfile.ZipFile(tmp_path / "good") as archive:
        document = json.loads(archive.read("flight/record.json"))
    draw, refused, tried = random.Random(make.__name__), 0, 0
    kinds = [paths for _, paths in kinds_of_places(document)] * (40 if SOAK else 1)
    changes = [(draw.choice(paths), draw.choice(OTHERS)) for paths in kinds if paths != [()]]
    lines = document["programs"][0]
    changes += [(("programs", 0, draw.choice([0, len(lines) - 1, draw.randrange(len(lines))]), 2), x) for x in OTHERS]
    for path, other in changes:

        def change(document, path=path, other=other, removed=tried % 5 == 4):
            inside = container(document, path)
            del inside[path[-1]]
            if removed:
                return
            inside.insert(path[-1], other) if isinstance(inside, list) else inside.update({path[-1]: other})

        tried += 1
        try:
            forged(tmp_path / "good", tmp_path / "forged", change)
            for step in read_record(tmp_path / "forged").steps:
                assert str(replay(tmp_path / "forged", step.number))
        except DamagedFileError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{path} = {other!r} gives {error!r}") from error
    assert tried > 40 and refused > tried // 2


WRONG = {
    "params that are a number": lambda d: first_operation(d).__setitem__(2, 5),
    "params that are text": lambda d: first_operation(d).__setitem__(2, "ab"),
    "too many params": lambda d: first_operation(d).__setitem__(2, [1, 2, 3, 4, 5, 6, 7]),
    "seeds that are a number": lambda d: d["programs"][0][-1].__setitem__(2, 7),
    "seeds that are text": lambda d: d["programs"][0][-1].__setitem__(2, ["a"]),
    "seeds that are lists": lambda d: d["programs"][0][-1].__setitem__(2, [[]]),
    "a backward without seeds": lambda d: d["programs"][0][-1].__setitem__(2, None),
    "a name that is a number": lambda d: first_operation(d).__setitem__(0, 5),
    "a slot that is text": lambda d: first_operation(d).__setitem__(1, ["0"]),
    "a slot that is true": lambda d: first_operation(d).__setitem__(1, [True, True, True]),
    "a number of a step that is text": lambda d: d["steps"][-1].update(number="2"),
    "a fraction of steps left out": lambda d: d.update(left_out=1.5),
    "a cause that is a list": lambda d: d.update(cause=["a", "b", "c"]),
    "a cause of numbers": lambda d: d["cause"].update(text=5),
    "squares that are a number": lambda d: d["steps"][-1].update(squares=1.5),
    "a leaf that is half a truth": lambda d: d["steps"][-1]["leaves"][0].__setitem__(2, 1),
    "a gradient of whole numbers": lambda d: d["blocks"][d["steps"][-1]["leaves"][0][1]].update(dtype="int32"),
    "truth that is 7": lambda d: d["blocks"][-1].update(dtype="bool"),
    "a negative block": lambda d: d["steps"][-1]["leaves"][0].__setitem__(1, -1),
    "a negative program": lambda d: d["steps"][-1].update(program=-1),
    "a file elsewhere": lambda d: first_operation(d).__setitem__(5, "/etc/passwd"),
    "a file above": lambda d: first_operation(d).__setitem__(5, "../secret.py"),
    "a generator's state of fractions": lambda d: d["steps"][-1].update(random=d["steps"][-1]["leaves"][0][1]),
    "another order of bytes": lambda d: d.update(byteorder="big" if sys.byteorder == "little" else "little"),
    "an endless leaf": lambda d: d["blocks"][0].update(shape=[1 << 20, 1 << 20], strides=[0, 0], offset=0),
    "a backward of nothing": lambda d: d["programs"][0][-1].__setitem__(1, []),
    "an optimizer of numbers": lambda d: d.update(optimizers=[["SGD", [1, 2]]]),
    "a state that is nested in itself": lambda d: d.update(optimizers=[["SGD", {"dict": [[{"list": []}, 1]]}]]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_recorder_writes_is_refused(recorded, tmp_path, name):
    path = forged(recorded, tmp_path / "forged", WRONG[name])
    with pytest.raises(DamagedFileError):
        replay(path)
    assert print_replay(str(path)) == 2


def test_a_short_recording_of_very_many_results_is_refused_at_once(recorded, tmp_path):
    """A line of a few bytes says how many slots it fills; nothing of that size is made before it has run."""
    lines = [["tanh", [0], [], 1000 + i * 100_000, 100_000, "a.py", 1, ""] for i in range(5_000)]
    path = forged(recorded, tmp_path / "forged", lambda d: d["programs"].__setitem__(0, lines))
    start = time.process_time()
    with pytest.raises(DamagedFileError, match="does not give what was recorded"):
        replay(path)
    assert time.process_time() - start < 5


def test_a_file_of_another_kind_is_refused(recorded, tmp_path, monkeypatch):
    torch.save({"a": torch.ones(2)}, tmp_path / "weights")
    with pytest.raises(DamagedFileError, match=r"not written by pellucid\.Recorder"):
        read_record(tmp_path / "weights")
    monkeypatch.setattr(flight, "MOST_TEXT", 100)
    with pytest.raises(DamagedFileError, match=r"its description has .* more than 100"):
        read_record(recorded)


def no_digests(document):
    document["steps"][-1].update(digests={}, squares=(1.5).hex())


DIFFERENT = {
    "the loss of backward 1": lambda d: d["steps"][-1].update(losses=[["float32", "0000803f"]]),
    "the gradient of 0.weight": lambda d: d["steps"][-1]["digests"].update({slot_of(d, "0.weight"): "00"}),
    "the gradients (the sum of their squares)": no_digests,
}


def slot_of(document, name):
    return next(str(slot) for slot, _, _, each, _ in document["steps"][-1]["leaves"] if each == name)


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_named(recorded, tmp_path, capsys, what):
    path = forged(recorded, tmp_path / "forged", DIFFERENT[what])
    assert replay(path).different == [what]
    assert print_replay(str(path)) == 1
    out = capsys.readouterr().out
    assert "NOT the same: 1 of" in out and f"\n    {what}\n" in out


def test_an_operation_that_fails_again_is_shown(recorded, tmp_path, capsys):
    path = forged(recorded, tmp_path / "forged", lambda d: first_operation(d)[1].reverse())
    assert print_replay(str(path)) == 1
    out = capsys.readouterr().out
    assert "  failed: RuntimeError: linear: cannot take" in out and "the loss of backward 1" in out


def test_forging_without_a_change_is_accepted(recorded, tmp_path):
    assert replay(forged(recorded, tmp_path / "same", lambda document: None)).exact


def test_state_of_generator_and_optimizer_are_there(recorded):
    record = read_record(recorded)
    generator = torch.Generator().set_state(torch.from_numpy(record.steps[0].random))
    torch.manual_seed(1)
    perceptron()
    assert (torch.rand(3, generator=generator) == torch.rand(3)).all()
    name, state = record.optimizers[0]
    assert name == "AdamW" and state["param_groups"][0]["lr"] == 0.01
    assert state["state"][0]["exp_avg"].shape == (9, 5)


def test_digests_are_of_the_gradients(recorded):
    result = replay(recorded)
    assert len(result.step.digests) == len(result.gradients) == 4
    for slot, grad in result.gradients.items():
        assert hashlib.sha256(grad.tobytes()).hexdigest() == result.step.digests[slot]


def test_the_trace_shows_every_operation(recorded, capsys):
    assert print_replay(str(recorded), trace=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("tanh -> (7, 9) up to 0." in line and line.endswith("in 1") for line in lines)


def test_a_step_that_is_not_there(recorded, capsys):
    assert print_replay(str(recorded), 77) == 2
    assert "one of its steps: 1, 2" in capsys.readouterr().err


def test_squares_are_summed_of_any_kind_and_layout():
    from pellucid.diagnose.flight import LINE, squares_of

    apart = np.full(2 * LINE + 6, 1 + 1j)[::2]  # complex numbers with gaps between them
    assert squares_of([apart]) == 2 * apart.size
    assert squares_of([np.ones(LINE + 3, np.float16), np.ones((2, LINE)), np.ones(5, np.float32)]) == 3 * LINE + 8


class Logarithm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a.log()

    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0]


def test_a_bad_number_that_a_custom_function_made_is_not_blamed_on_the_data(tmp_path):
    model = nn.Linear(3, 2)
    with Recorder(model, torch.optim.SGD(model.parameters(), lr=0.1), tmp_path / "a.flight"):
        Logarithm.apply(model(torch.ones(4, 3)).relu() * 0).mean().backward()
    finding = replay(tmp_path / "a.flight").finding
    assert finding.message.startswith("Logarithm, a function of the script's own, gave Inf")
    assert "data" not in finding.fix and finding.evidence.startswith("its result holds -inf")


def test_bad_data_enters_where_it_is_first_computed_with(tmp_path):
    model, data = nn.Linear(3, 2), torch.ones(20, 3)
    data[17, 1] = float("nan")
    with Recorder(model, torch.optim.SGD(model.parameters(), lr=0.1), tmp_path / "a.flight"):
        batch = data[16:]
        model(batch).mean().backward()
    finding = replay(tmp_path / "a.flight").finding
    (taken,) = finding.related
    assert finding.code == "nan-input" and finding.spot.line == taken.spot.line + 1
    assert "holds nan at index" in finding.evidence


def test_a_replay_speaks_of_operations_as_users_write_them(tmp_path, capsys):
    model = nn.Linear(3, 2)
    with Recorder(model, torch.optim.SGD(model.parameters(), lr=0.1), tmp_path / "a.flight"):
        root = (model(torch.ones(4, 3)) * 0).sqrt()
        root.mean().backward()
    print_replay(tmp_path / "a.flight", trace=True)
    text = capsys.readouterr().out
    assert "linear -> (4, 2)" in text and "goes on into mean)" in text
    assert "linear_with_bias" not in text and "mean_all" not in text


def test_a_leaf_of_every_step_may_go_in_the_middle_of_the_next(tmp_path):  # of a gradient penalty, of a PINN
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with Recorder(model, optimizer, tmp_path / "a.flight", keep=3) as recorder:
        for step in range(4):
            x = torch.randn(4, 2).requires_grad_()
            if step == 3:
                model[0].weight.data.mul_(2)  # after the leaf is gone, before it is used
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            optimizer.zero_grad()
            (slope.square().sum(1).sqrt() - 1).square().mean().backward()
            optimizer.step()
        recorder.dump("asked")
    for number in (2, 3, 4):
        result = replay(tmp_path / "a.flight", number)
        assert result.exact and result.compared > 1 and not result.step.notes, str(result)


def test_a_trace_that_nobody_reads_ends_quietly(recorded):
    command = f"{sys.executable} -m pellucid replay --trace {recorded} | true"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stdout and not done.stderr
