"""Training with every main layer and loss: fifty steps in float64 leave every parameter where PyTorch leaves it."""

import numpy as np
import pytest

import pellucid

STEPS, TOLERANCE = 50, 1e-12


def tensors(lib, seed, **shapes):
    """Named float64 tensors of fixed numbers."""
    draw = np.random.default_rng(seed)
    return [lib.from_numpy(draw.normal(size=shape)) for shape in shapes.values()]


def classes(lib, *shape, below=3):
    return lib.from_numpy(np.random.default_rng(5).integers(0, below, shape))


def parameters_after(lib, model, compute_loss, kind="SGD", steps=STEPS, **options):
    """Train; returns the parameters, buffers and losses."""
    optimizer = getattr(lib.optim, kind)(model.parameters(), **options)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = compute_loss(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {**{name: value.numpy() for name, value in model.state_dict().items()}, "losses": np.array(losses)}


def equal(mine, theirs):
    assert list(mine) == list(theirs)
    for name, value in mine.items():
        scale = max(1.0, float(np.abs(theirs[name]).max(initial=0.0)))
        np.testing.assert_allclose(value, theirs[name], rtol=0, atol=TOLERANCE * scale, err_msg=name)
        assert np.isfinite(value).all()


# --- layers: the name says which; a constructor, and the shape of the input

LAYERS = {
    "mlp": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), (6, 4)),
    "gelu, layer norm": (
        lambda nn: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)),
        (6, 4),
    ),
    "silu, rms norm": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.RMSNorm(8)), (6, 4)),
    "elu, softplus, mish": (
        lambda nn: nn.Sequential(nn.Linear(4, 4), nn.ELU(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 4), nn.Mish()),
        (6, 4),
    ),
    "relu, prelu": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.PReLU()), (6, 4)),
    "softmax": (lambda nn: nn.Sequential(nn.Linear(4, 8), nn.Softmax(-1), nn.Linear(8, 4), nn.LogSoftmax(-1)), (6, 4)),
    "convolution": (
        lambda nn: nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 2, 3)),
        (2, 2, 6, 6),
    ),
    "grouped convolution": (lambda nn: nn.Conv2d(4, 4, 3, stride=2, groups=2, dilation=2), (2, 4, 9, 8)),
    "convolution 1d, 3d": (
        lambda nn: nn.Sequential(nn.Conv1d(2, 4, 3), nn.Unflatten(2, (2, 2, 2)), nn.Conv3d(4, 2, 2)),
        (2, 2, 10),
    ),
    "transposed convolution": (lambda nn: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (2, 2, 4, 4)),
    "batch norm": (lambda nn: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Tanh()), (3, 2, 5, 5)),
    "group and instance norm": (
        lambda nn: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)),
        (2, 2, 5, 5),
    ),
    "pooling": (
        lambda nn: nn.Sequential(nn.Conv2d(2, 3, 3), nn.MaxPool2d(2), nn.Conv2d(3, 3, 2), nn.AvgPool2d(2)),
        (2, 2, 10, 10),
    ),
    "adaptive pooling": (
        lambda nn: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(3), nn.Conv2d(3, 2, 1), nn.AdaptiveMaxPool2d(2)
        ),
        (2, 2, 7, 8),
    ),
    "upsampling": (
        lambda nn: nn.Sequential(nn.Conv2d(2, 4, 3), nn.PixelShuffle(2), nn.Upsample(scale_factor=2, mode="bilinear")),
        (2, 2, 5, 5),
    ),
    "embedding": (lambda nn: nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)), "numbers"),
    "rnn": (lambda nn: nn.RNN(3, 4), (5, 2, 3)),
    "lstm": (lambda nn: nn.LSTM(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
    "gru": (lambda nn: nn.GRU(3, 4, batch_first=True), (2, 5, 3)),
    "transformer": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (2, 5, 4)),
}
# Some gradients are zero but for rounding (a bias before a batch norm, that of attention's keys), or become so: Adam
# with its usual eps of 1e-8 would divide rounding by rounding. (Adam itself with that eps: tests/test_optim.py.)
OPTIMIZERS = {"SGD": {"lr": 0.05, "momentum": 0.9}, "AdamW": {"lr": 0.01, "eps": 1e-3}}


def train_layer(lib, name, kind):
    build, shape = LAYERS[name]
    lib.manual_seed(0)
    model = build(lib.nn).double()
    x = classes(lib, 4, 5, below=7) if shape == "numbers" else tensors(lib, 1, x=shape)[0]

    def loss(model):
        result = model(x)
        result = result[0] if isinstance(result, tuple) else result
        return ((result - 0.3) ** 2).mean()

    return parameters_after(lib, model, loss, kind, **OPTIMIZERS[kind])


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(torch, name, kind):
    equal(train_layer(pellucid, name, kind), train_layer(torch, name, kind))


def test_attention(torch):
    def train(lib):
        lib.manual_seed(0)
        model = lib.nn.MultiheadAttention(4, 2, batch_first=True).double()
        query, key = tensors(lib, 2, query=(2, 3, 4), key=(2, 5, 4))
        return parameters_after(lib, model, lambda model: (model(query, key, key)[0] ** 2).sum(), lr=0.01)

    equal(train(pellucid), train(torch))


# --- losses: a call with what a model of 6 × 4 results says, and the library

LOSSES = {
    "mse": lambda lib, y, t: lib.nn.MSELoss()(y, t),
    "l1": lambda lib, y, t: lib.nn.L1Loss()(y, t),
    "smooth l1": lambda lib, y, t: lib.nn.SmoothL1Loss(beta=0.5)(y, t),
    "huber": lambda lib, y, t: lib.nn.HuberLoss(delta=0.7)(y, t),
    "cross entropy": lambda lib, y, t: lib.nn.CrossEntropyLoss(label_smoothing=0.1)(y, classes(lib, 6)),
    "weighted cross entropy": lambda lib, y, t: lib.nn.CrossEntropyLoss(t[0].exp(), ignore_index=1)(y, classes(lib, 6)),
    "soft targets": lambda lib, y, t: lib.nn.CrossEntropyLoss()(y, t.softmax(1)),
    "nll": lambda lib, y, t: lib.nn.NLLLoss()(y.log_softmax(1), classes(lib, 6)),
    "bce": lambda lib, y, t: lib.nn.BCELoss()(y.sigmoid(), t.sigmoid()),
    "bce with logits": lambda lib, y, t: lib.nn.BCEWithLogitsLoss(pos_weight=t[0].exp())(y, t.sigmoid()),
    "kl": lambda lib, y, t: lib.nn.KLDivLoss(reduction="batchmean")(y.log_softmax(1), t.softmax(1)),
    "poisson": lambda lib, y, t: lib.nn.PoissonNLLLoss()(y, t.abs()),
    "gaussian": lambda lib, y, t: lib.nn.GaussianNLLLoss()(y, t, t.exp()),
    "hinge embedding": lambda lib, y, t: lib.nn.HingeEmbeddingLoss()(y, t.sign()),
    "margin ranking": lambda lib, y, t: lib.nn.MarginRankingLoss(0.5)(y, t, t.sign()),
    "soft margin": lambda lib, y, t: lib.nn.SoftMarginLoss()(y, t.sign()),
    "multi margin": lambda lib, y, t: lib.nn.MultiMarginLoss()(y, classes(lib, 6)),
    "multilabel margin": lambda lib, y, t: lib.nn.MultiLabelMarginLoss()(y, classes(lib, 6, 4)),
    "multilabel soft margin": lambda lib, y, t: lib.nn.MultiLabelSoftMarginLoss()(y, (t > 0).double()),
    "cosine embedding": lambda lib, y, t: lib.nn.CosineEmbeddingLoss(0.2)(y, t, t[:, 0].sign()),
    "triplet": lambda lib, y, t: lib.nn.TripletMarginLoss()(y, t, t.flip(0)),
    "ctc": lambda lib, y, t: lib.nn.CTCLoss()(
        y.log_softmax(1).unsqueeze(1), classes(lib, 1, 2, below=3) + 1, lib.tensor([6]), lib.tensor([2])
    ),
}


def train_with_loss(lib, name):
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 5), lib.nn.Tanh(), lib.nn.Linear(5, 4)).double()
    x, target = tensors(lib, 3, x=(6, 3), target=(6, 4))
    return parameters_after(lib, model, lambda model: LOSSES[name](lib, model(x), target), lr=0.1, momentum=0.5)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(torch, name):
    equal(train_with_loss(pellucid, name), train_with_loss(torch, name))


def test_losses_of_the_first_and_last_step():
    """What PyTorch 2.13 gave, for machines without it."""
    losses = train_with_loss(pellucid, "cross entropy")["losses"]
    np.testing.assert_allclose([losses[0], losses[-1]], [1.2531001435393943, 0.6353666036929343], rtol=1e-12)
