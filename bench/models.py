"""Whole training steps that are timed: forward, loss, zero_grad, backward and the optimizer's step.

Every model is written once, as a function of the library (`torch` or `pellucid`) that it runs on.
"""

import functools
from collections.abc import Callable, Iterator
from itertools import pairwise, repeat

import numpy

Step = Callable[[], object]


def training(optimizer, loss_of: Callable[[], object]) -> Step:
    """One step of training: what stands in the middle of every program."""

    def step():
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


# ---- where the data comes from ---------------------------------------------------------------------------

OWN, SHARED, WHOLE, LOADED = "tensors", "from_numpy", "from_numpy, parameters too", "DataLoader"
LOADED_BATCHES = 8
HELD: list[numpy.ndarray] = []  # as a program holds what it made, and may write to it


def batches(torch, inputs: int, classes: int, batch: int, data: str) -> Iterator:
    """Endless batches of inputs and their classes: one that is there from the start, or those of a DataLoader."""
    if data == OWN:
        return repeat((torch.randn(batch, inputs), torch.randint(classes, (batch,))))
    generator, count = numpy.random.default_rng(0), batch * (LOADED_BATCHES if data == LOADED else 1)
    arrays = generator.standard_normal((count, inputs), numpy.float32), generator.integers(classes, size=count)
    HELD.extend(arrays)
    x, y = (torch.from_numpy(array) for array in arrays)
    return _loaded(torch, x, y, batch) if data == LOADED else repeat((x, y))


def parameters_from_numpy(torch, model) -> None:
    """Let a model compute with parameters that NumPy made."""
    for parameter in model.parameters():
        array = parameter.detach().numpy().copy()
        HELD.append(array)
        parameter.data = torch.from_numpy(array)


def _loaded(torch, x, y, batch: int) -> Iterator:
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=batch, shuffle=True)
    while True:
        yield from loader


# ---- perceptrons -----------------------------------------------------------------------------------------


def mlp(torch, sizes: tuple[int, ...], batch: int, kind: str = "SGD", data: str = OWN) -> Step:
    """A perceptron that sorts its inputs into classes."""
    torch.manual_seed(0)
    nn = torch.nn
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    model = nn.Sequential(*layers)
    if data == WHOLE:
        parameters_from_numpy(torch, model)
    optimizer = {
        "SGD": lambda: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        "Adam": lambda: torch.optim.Adam(model.parameters(), lr=1e-3),
    }[kind]()
    stream = batches(torch, sizes[0], sizes[-1], batch, data)

    def loss_of():
        x, y = next(stream)
        return nn.functional.cross_entropy(model(x), y)

    return training(optimizer, loss_of)


# ---- images ----------------------------------------------------------------------------------------------


def lenet(torch) -> Step:
    """LeNet on 32 grey images of 28 x 28."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
    return training(optimizer, lambda: nn.functional.cross_entropy(model(x), y))


@functools.cache
def _residual_network(torch):
    """The classes of a small ResNet, which stand on the library's Module."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int):
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(after)
            self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(after)
            self.shortcut = nn.Sequential()
            if stride != 1 or before != after:
                self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
            self.stages = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
            self.head = nn.Linear(64, 10)

        def forward(self, x):
            return self.head(self.stages(self.stem(x)).mean((2, 3)))

    return ResNet


def resnet(torch) -> Step:
    """A ResNet of three stages, 16, 32 and 64 channels, on 16 images of 32 x 32."""
    torch.manual_seed(0)
    model = _residual_network(torch)()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    x, y = torch.randn(16, 3, 32, 32), torch.randint(10, (16,))
    return training(optimizer, lambda: torch.nn.functional.cross_entropy(model(x), y))


# ---- text ------------------------------------------------------------------------------------------------

ALPHABET = 65


@functools.cache
def _transformer(torch):
    """The classes of a GPT as public programs write it: one projection for queries, keys and values."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int):
            super().__init__()
            self.heads, self.width = heads, width
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            batch, length, width = x.size()
            q, k, v = (
                part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                for part in self.c_attn(x).split(self.width, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(y.transpose(1, 2).contiguous().view(batch, length, width))

    class Block(nn.Module):
        def __init__(self, width: int, heads: int):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT(nn.Module):
        def __init__(self, layers: int, width: int, length: int):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(ALPHABET, width), nn.Embedding(length, width)
            self.h = nn.ModuleList([Block(width, max(2, width // 32)) for _ in range(layers)])
            self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, ALPHABET, bias=False)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
            for block in self.h:
                x = block(x)
            logits = self.lm_head(self.ln_f(x))
            return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

    return GPT


def char_gpt(torch, layers: int, width: int, length: int, batch: int) -> Step:
    """A GPT on characters, with AdamW."""
    torch.manual_seed(0)
    model = _transformer(torch)(layers, width, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    text = torch.randint(ALPHABET, (batch, length + 1))
    x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    return training(optimizer, lambda: model(x, y))


@functools.cache
def _language_model(torch):
    nn = torch.nn

    class LanguageModel(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.embedding = nn.Embedding(ALPHABET, width)
            self.lstm = nn.LSTM(width, width, batch_first=True)
            self.output = nn.Linear(width, ALPHABET)

        def forward(self, tokens):
            return self.output(self.lstm(self.embedding(tokens))[0])

    return LanguageModel


def lstm(torch, width: int = 128, length: int = 32, batch: int = 16) -> Step:
    """A language model of one LSTM layer, with Adam."""
    torch.manual_seed(0)
    model = _language_model(torch)(width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    text = torch.randint(ALPHABET, (batch, length + 1))
    x, y = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)
    loss_of = torch.nn.functional.cross_entropy
    return training(optimizer, lambda: loss_of(model(x).view(-1, ALPHABET), y))


# ---- a Gaussian process ----------------------------------------------------------------------------------


def gaussian_process(torch, points: int) -> Step:
    """The marginal likelihood of a Gaussian process: a Cholesky factor, a triangular system, and back, with Adam."""
    generator = numpy.random.default_rng(0)
    place = generator.uniform(-3, 3, (points, 2)).astype(numpy.float32)
    x, y = torch.tensor(place), torch.tensor(numpy.sin(place.sum(1, keepdims=True)))
    squares = ((x[:, None] - x[None]) ** 2).sum(-1)
    length, height, noise = parameters = [torch.nn.Parameter(torch.zeros(())) for _ in range(3)]
    optimizer, eye = torch.optim.Adam(parameters, lr=1e-2), torch.eye(points)

    def loss_of():
        covariance = height.exp() * torch.exp(-squares * length.exp()) + (noise.exp() + 0.1) * eye
        factor = torch.linalg.cholesky(covariance)
        white = torch.linalg.solve_triangular(factor, y, upper=False)
        return 0.5 * (white * white).sum() + factor.diagonal().log().sum()

    return training(optimizer, loss_of)


# ---- recurrences written by hand, and two optimizers: hundreds of tiny operations, for bench/doctor.py --------------


@functools.cache
def _cells(torch):
    """Recurrent networks as people write them to learn how they work: a loop over time, a line per gate."""
    nn = torch.nn

    class Elman(nn.Module):
        def __init__(self, inputs: int, width: int):
            super().__init__()
            self.width = width
            self.w = nn.Parameter(torch.randn(inputs, width) * 0.3)
            self.u = nn.Parameter(torch.randn(width, width) * 0.2)
            self.b = nn.Parameter(torch.zeros(width))
            self.head = nn.Linear(width, 1)

        def forward(self, x):
            h = torch.zeros(x.shape[0], self.width)
            for t in range(x.shape[1]):
                h = torch.tanh(x[:, t] @ self.w + h @ self.u + self.b)
            return self.head(h)

    class LongShort(nn.Module):
        def __init__(self, inputs: int, width: int):
            super().__init__()
            self.width = width
            self.x2h, self.h2h = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width)
            self.head = nn.Linear(width, 1)

        def forward(self, x):
            h, c = torch.zeros(x.shape[0], self.width), torch.zeros(x.shape[0], self.width)
            for t in range(x.shape[1]):
                i, f, g, o = (self.x2h(x[:, t]) + self.h2h(h)).chunk(4, dim=1)
                i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
                c = f * c + i * torch.tanh(g)
                h = o * torch.tanh(c)
            return self.head(h)

    return {"RNN": Elman, "LSTM": LongShort}


def by_hand(torch, cell: str, length: int, width: int = 16, batch: int = 8) -> Step:
    """A recurrence over time that is written by hand, with Adam: it adds up a sequence."""
    torch.manual_seed(0)
    model = _cells(torch)[cell](2, width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(batch, length, 2)
    y = x[:, :, :1].mean(1)
    return training(optimizer, lambda: torch.nn.functional.mse_loss(model(x), y))


def gan(torch, noise: int = 8, width: int = 32, batch: int = 32) -> Step:
    """Two networks against each other, with two optimizers: a step has two passes."""
    torch.manual_seed(0)
    nn, F = torch.nn, torch.nn.functional
    generator = nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, 2))
    critic = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))
    improve_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    improve_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    real, ones, zeros = torch.randn(batch, 2), torch.ones(batch, 1), torch.zeros(batch, 1)

    def step():
        fake = generator(torch.randn(batch, noise))
        improve_critic.zero_grad()
        judged = F.binary_cross_entropy_with_logits(critic(real), ones)
        (judged + F.binary_cross_entropy_with_logits(critic(fake.detach()), zeros)).backward()
        improve_critic.step()
        improve_generator.zero_grad()
        loss = F.binary_cross_entropy_with_logits(critic(fake), ones)
        loss.backward()
        improve_generator.step()
        return loss

    return step


# What is measured, and how many times as fast as PyTorch it is meant to be: small programs are overhead, where we can
# be faster; in large ones all the time is in kernels, where PyTorch's are threaded C++.
SMALL, MEDIUM, LARGE = 1.5, 1.0, 1 / 1.3
STEPS: dict[str, tuple[float, Callable[..., Step]]] = {
    "MLP 32-64-64-10, batch 16": (SMALL, functools.partial(mlp, sizes=(32, 64, 64, 10), batch=16)),
    "MLP 32-64-64-10, batch 16, Adam": (SMALL, functools.partial(mlp, sizes=(32, 64, 64, 10), batch=16, kind="Adam")),
    "MLP 784-256-256-10, batch 64": (MEDIUM, functools.partial(mlp, sizes=(784, 256, 256, 10), batch=64)),
    "MLP 1024-4096-1024, batch 256": (LARGE, functools.partial(mlp, sizes=(1024, 4096, 1024), batch=256)),
    "LeNet 32x1x28x28": (MEDIUM, lenet),
    "ResNet 16-32-64, 16x3x32x32": (LARGE, resnet),
    "char-GPT 1 layer of 32, 4x32": (SMALL, functools.partial(char_gpt, layers=1, width=32, length=32, batch=4)),
    "char-GPT 2 layers of 64, 8x64": (MEDIUM, functools.partial(char_gpt, layers=2, width=64, length=64, batch=8)),
    "char-GPT 4 layers of 128, 12x64": (MEDIUM, functools.partial(char_gpt, layers=4, width=128, length=64, batch=12)),
    "char-GPT 4 layers of 256, 8x128": (LARGE, functools.partial(char_gpt, layers=4, width=256, length=128, batch=8)),
    "LSTM 128, 16x32": (MEDIUM, lstm),
    "Gaussian process, 200 points": (MEDIUM, functools.partial(gaussian_process, points=200)),
    "Gaussian process, 800 points": (LARGE, functools.partial(gaussian_process, points=800)),
}
# The same two perceptrons, with data that a program holds itself, shares with NumPy, or is handed by a DataLoader.
FROM_DATA = {
    f"{name}, {data}": functools.partial(mlp, sizes=sizes, batch=batch, data=data)
    for name, sizes, batch in (("MLP 2-8-2", (2, 8, 2), 4), ("MLP 784-256-256-10", (784, 256, 256, 10), 64))
    for data in (OWN, SHARED, WHOLE, LOADED)
}
