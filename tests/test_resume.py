"""Training that is interrupted, saved and taken up again gives the same bits as training that was not."""

import os
import random
import subprocess
import sys
import time

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.utils.data import DataLoader, Dataset

SOAK = bool(os.environ.get("PELLUCID_SOAK"))
STEPS = 200 if SOAK else 20
ROWS, BATCH = 22, 4  # six batches a pass, the last one smaller: a run ends and begins in the middle of a pass


class Noisy(Dataset):
    """Items that are drawn anew each time: the random numbers of the loader and its workers count too."""

    def __init__(self, shape, classes=None):
        source = torch.Generator().manual_seed(1)
        self.x = torch.randn(ROWS, *shape, generator=source)
        self.words = None if classes is None else torch.randint(classes, (ROWS, *shape), generator=source)
        self.y = torch.randint(3, (ROWS,), generator=source)

    def __len__(self):
        return ROWS

    def __getitem__(self, i):
        if self.words is not None:
            return self.words[i].roll(int(torch.randint(3, ()))), self.y[i]
        return self.x[i] + 0.1 * torch.randn(self.x[i].shape), self.y[i]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(9, 6), nn.LSTM(6, 5, 2, dropout=0.2), nn.Linear(5, 3)

    def forward(self, words):
        return self.head(self.rnn(self.embedding(words).transpose(0, 1))[0][-1])


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


def convolutional():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(),
        nn.Linear(16, 3),
    )  # fmt: skip


def perceptron():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


def warm_up(optimizer):
    first, then = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5), cosine(optimizer)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [first, then], [5])


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)


def steps(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)


def one_cycle(optimizer):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS + 1)


CASES = {
    "perceptron": (perceptron, (5,), None, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, steps),
    "convolutional": (convolutional, (1, 6, 6), None, torch.optim.Adam, {"lr": 0.01}, cosine),
    "recurrent": (Recurrent, (7,), 9, torch.optim.AdamW, {"lr": 0.01, "amsgrad": True}, one_cycle),
    "attentive": (Attentive, (4, 8), None, torch.optim.AdamW, {"lr": 0.01}, warm_up),
    "root mean square": (
        perceptron,
        (5,),
        None,
        torch.optim.RMSprop,
        {"lr": 0.01, "centered": True, "alpha": 0.9},
        cosine,
    ),
}


class Training:
    """A training run with everything that decides how it goes on; docs/resume.md explains it."""

    def __init__(self, name, workers=0):
        torch.manual_seed(0)
        model, shape, classes, optimizer, options, scheduler = CASES[name]
        self.model = model()
        self.optimizer = optimizer(self.model.parameters(), **options)
        self.scheduler = scheduler(self.optimizer)
        self.order = torch.Generator().manual_seed(2)
        self.loader = DataLoader(
            Noisy(shape, classes), BATCH, shuffle=True, num_workers=workers, generator=self.order
        )  # fmt: skip
        self.step, self.losses, self.batches = 0, [], None

    def begin_pass(self, skip=0):
        self.order_at_start, self.done = self.order.get_state(), skip
        self.batches = iter(self.loader)
        for _ in range(skip):
            next(self.batches)

    def run(self, count):
        for _ in range(count):
            if self.batches is None or self.done == len(self.loader):
                self.begin_pass()
            x, y = next(self.batches)
            self.done += 1
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            self.losses.append(float(loss))

    def state_dict(self):
        return {
            "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(), "step": self.step, "losses": self.losses,
            "rng": torch.get_rng_state(), "order": self.order_at_start, "done": self.done,
        }  # fmt: skip

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.step, self.losses = state["step"], state["losses"]
        self.order.set_state(state["order"])
        self.begin_pass(state["done"])
        torch.set_rng_state(state["rng"])  # last: skipping draws random numbers too


def bits(value):
    """A value in a form that is equal only if every bit is."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    return value.hex() if isinstance(value, float) else value


def different(first, second):
    """The parts of two states that differ, by name."""
    return [key for key in first if bits(first[key]) != bits(second[key])]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_is_the_same_run(name, workers, tmp_path):
    whole = Training(name, workers)
    whole.run(STEPS)

    first = Training(name, workers)
    first.run(STEPS // 2)
    torch.save(first.state_dict(), tmp_path / "run.pt")
    torch.manual_seed(999)  # another process would begin with other random numbers

    second = Training(name, workers)
    second.load_state_dict(torch.load(tmp_path / "run.pt"))
    second.run(STEPS - STEPS // 2)
    assert different(whole.state_dict(), second.state_dict()) == []
    assert whole.losses != sorted(whole.losses), "something is learnt, and by chance"


def test_what_is_left_out_shows():
    """Each part of the state is needed: without it the run goes on in another way."""
    whole = Training("convolutional")
    whole.run(STEPS // 2)
    state = whole.state_dict()
    whole.run(5)
    for part in ("model", "optimizer", "scheduler", "order", "rng"):
        other = Training("convolutional")
        torch.manual_seed(999)
        fresh = Training("convolutional")
        fresh.begin_pass()
        torch.manual_seed(7)
        other.load_state_dict({**state, part: fresh.state_dict()[part], "losses": list(state["losses"])})
        other.run(5)
        assert different(whole.state_dict(), other.state_dict()), part


# --- a process that is killed


def main(name, workers, path, count):
    """Train, and save after every step; take up what is there."""
    run = Training(name, workers)
    if os.path.exists(path):
        run.load_state_dict(torch.load(path))
    while run.step < count:
        run.run(1)
        torch.save(run.state_dict(), path)
        print(run.step, flush=True)


def started(name, workers, path, count):
    tests = os.path.dirname(os.path.abspath(__file__))
    program = (
        f"import sys; sys.path.insert(0, {tests!r}); import test_resume as t; t.main{(name, workers, path, count)}"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)


@pytest.mark.parametrize(("name", "workers"), [("attentive", 0), ("convolutional", 2)])
def test_resume_after_kill(name, workers, tmp_path):
    path, draw, count = str(tmp_path / "run.pt"), random.Random(name), STEPS
    for _ in range(20 if SOAK else 2):
        process = started(name, workers, path, count)
        for _ in range(draw.randrange(1, count // (20 if SOAK else 4))):
            process.stdout.readline()
        time.sleep(draw.random() * 0.02)
        process.kill()
        process.wait()
        process.stdout.close()
    assert 0 < torch.load(path)["step"] < count, "killed in between"
    process = started(name, workers, path, count)
    process.communicate(timeout=200)
    assert process.returncode == 0

    whole = Training(name, workers)
    whole.run(count)
    assert different(whole.state_dict(), torch.load(path)) == []
    assert os.listdir(tmp_path) == ["run.pt"]
