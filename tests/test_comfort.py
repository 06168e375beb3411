"""Comfort around training: the table of a model, progress, logs for TensorBoard, data sets, wrappers, aten."""

import io
import json
import sys
from collections import OrderedDict

import numpy as np
import pytest

import pellucid
from payloads import PAYLOADS
from pellucid import nn
from pellucid.core.primitive import TABLE
from pellucid.diagnose.flops import FREE, PRODUCTS
from pellucid.utils.data import DataLoader, TensorDataset, datasets
from pellucid.utils.progress import track

# --- summary: FLOPs against PyTorch's counter, which counts products only

COUNTED = {
    "linear": (lambda t: t.nn.Linear(3, 4), (5, 3)),
    "linear in three dimensions": (lambda t: t.nn.Linear(3, 4, bias=False), (2, 5, 3)),
    "convolution": (lambda t: t.nn.Conv2d(4, 6, (3, 2), stride=2, groups=2), (2, 4, 9, 8)),
    "convolution without bias": (lambda t: t.nn.Conv1d(4, 6, 3, bias=False, dilation=2), (2, 4, 9)),
    "transposed convolution": (lambda t: t.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 5, 5)),
    "matrices": (lambda t: Calling(t, lambda x: x @ x.mT), (2, 3, 5)),
    "bmm": (lambda t: Calling(t, lambda x: t.bmm(x, x.mT)), (2, 3, 5)),
    "addmm": (lambda t: Calling(t, lambda x: t.addmm(x[:, :3], x, x.T)), (3, 5)),
    "einsum": (lambda t: Calling(t, lambda x: t.einsum("bij,bkj->bik", x, x)), (2, 3, 5)),
}  # fmt: skip


def Calling(lib, function):
    """A module that calls a function, of either library."""

    class Module(lib.nn.Module):
        def forward(self, x):
            return function(x)

    return Module()


def products(model, shape):
    """The FLOPs of a summary, of its products only."""
    seen = []

    class Watch:
        def operation(self, row, tensors, params, outs):
            shapes = [[tuple(tensor.shape) for tensor in some] for some in (tensors, outs)]
            if row.name in PRODUCTS:
                seen.append(pellucid.diagnose.flops.flops(row, shapes[0], params, shapes[1]))

    with pellucid.core.modes.switched(observers=(Watch(),)):
        model(pellucid.ones(*shape))
    return sum(seen)


@pytest.mark.parametrize("name", COUNTED)
def test_products_are_counted_as_pytorch_counts_them(torch, name):
    from torch.utils.flop_counter import FlopCounterMode

    build, shape = COUNTED[name]
    with FlopCounterMode(display=False) as counter:
        build(torch)(torch.ones(*shape))
    assert products(build(pellucid), shape) == counter.get_total_flops() > 0


def test_flops_by_hand():
    vector = Calling(pellucid, lambda x: x @ x[0])
    assert pellucid.summary(vector, (3, 5)).flops == 2 * 3 * 5
    attention = Calling(pellucid, lambda x: nn.functional.scaled_dot_product_attention(x, x, x))
    assert products(attention, (2, 2, 5, 4)) == 2 * 2 * (2 * 2 * 5 * 5 * 4)
    lstm = pellucid.summary(nn.LSTM(3, 4, num_layers=2), (5, 2, 3))
    assert lstm.flops == 2 * 5 * 2 * (16 * 3 + 16 * 4 + 16 * 4 + 16 * 4)
    three = Calling(pellucid, lambda x: pellucid.einsum("ij,jk,kl->il", x, x.T, x))
    assert pellucid.summary(three, (2, 5)).flops == 2 * (2 * 5 * 2 + 2 * 2 * 5)
    other = Calling(pellucid, lambda x: x.exp().reshape(-1).sum())
    assert pellucid.summary(other, (3, 4)).flops == 12 + 12


def test_names_of_counted_rows_exist():
    pellucid.ops.load_families()
    assert {*FREE, *PRODUCTS} <= TABLE.keys()


# --- summary: rows


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.head = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 2)})
        self.head["b"].weight = self.head["a"].weight
        self.scale = nn.Parameter(pellucid.ones(2), requires_grad=False)

    def forward(self, x, *, times=1):
        for _ in range(times):
            h = self.encoder(x).tanh()
        return {"a": self.head["a"](h) * self.scale, "b": (self.head["b"](h), None)}


def test_rows():
    told = pellucid.summary(Small(), (6, 4))
    rows = {row.path: row for row in told.rows}
    assert list(rows) == ["", "encoder", "encoder.0", "encoder.1", "encoder.2", "head", "head.a", "head.b"]
    assert [rows[path].layer for path in ("", "encoder.1", "head")] == ["Small", "BatchNorm1d", "ModuleDict"]
    assert rows[""].outputs == [(6, 2), (6, 2)] and rows["encoder"].outputs == [(6, 8)]
    assert (rows["head"].calls, rows["head"].outputs, rows["encoder.0"].calls) == (0, [], 1)
    assert [rows[path].trainable for path in ("", "encoder.0", "encoder.1", "head.a", "head.b")] == [0, 40, 16, 18, 2]
    assert (rows[""].frozen, rows["head.a"].shared, rows["head.b"].shared) == (2, 0, 16)
    assert (told.trainable, told.frozen, told.parameters, told.parameter_bytes) == (76, 2, 78, 312)
    assert (rows["encoder.0"].flops, rows["head.b"].flops, rows[""].flops) == (2 * 6 * 4 * 8, 2 * 6 * 8 * 2, 6 * 8 + 12)


def test_saved_bytes_are_those_of_the_ledger():
    pellucid.manual_seed(0)
    model, x = Small(), pellucid.ones(6, 4)
    told = pellucid.summary(model, x)
    result = model(x)
    assert told.saved == pellucid.memory.report([result["a"], result["b"][0]]).total
    rows = {row.path: row.saved for row in told.rows}
    assert rows["encoder.0"] == x.numel() * 4  # the input, for its weight
    assert rows[""] == 6 * 8 * 4 + 2 * 4  # the tanh, between two layers, and the scale
    assert rows["head.a"] == rows["head.b"] == 0  # the tanh again
    assert pellucid.summary(nn.ReLU(), x).saved == 0  # nothing here is learned


def test_a_layer_called_twice_is_counted_twice():
    once, twice = (pellucid.summary(Small(), {"x": pellucid.ones(6, 4), "times": times}) for times in (1, 2))
    assert (twice.rows[2].calls, twice.rows[2].flops) == (2, 2 * once.rows[2].flops)
    assert twice.parameters == once.parameters and "0: Linear ×2" in str(twice)


INPUTS = {
    "a tensor": pellucid.ones(6, 4),
    "a shape": (6, 4),
    "a list": [6, 4],
    "a size": pellucid.Size([6, 4]),
    "a tuple": (pellucid.ones(6, 4),),
    "a tuple of shapes": ((6, 4),),
    "names": {"x": (6, 4)},
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs(kind):
    assert pellucid.summary(Small(), INPUTS[kind]).rows[0].outputs == [(6, 2), (6, 2)]


def test_a_shape_becomes_zeros_of_the_models_dtype():
    assert pellucid.summary(Small().double(), (6, 4)).parameter_bytes == 624


@pytest.mark.parametrize("training", [True, False])
def test_everything_stays_as_it_was(training):
    model, x = Small().train(training), pellucid.randn(6, 4)
    model(x)["a"].sum().backward()
    buffers, grads = dict(model.named_buffers()), {name: p.grad for name, p in model.named_parameters()}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    versions = [buffer._version for buffer in buffers.values()]
    state = pellucid.get_rng_state()
    with pellucid.no_grad():
        assert pellucid.summary(model, x).saved > 0
    assert pellucid.equal(pellucid.get_rng_state(), state)
    assert model.training is training and all(module.training is training for module in model.modules())
    assert all(buffers[name] is buffer for name, buffer in model.named_buffers())
    assert all(getattr(model.get_submodule("encoder.1"), name) is model.get_buffer(f"encoder.1.{name}")
               for name in ("running_mean", "running_var", "num_batches_tracked"))  # fmt: skip
    assert [buffer._version for buffer in buffers.values()] == versions
    assert all(pellucid.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is grads[name] for name, p in model.named_parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_model_that_fails_is_left_as_it_was():
    model = Small()
    buffers, state = dict(model.named_buffers()), pellucid.get_rng_state()
    with pytest.raises(RuntimeError, match=r"module: encoder\.0, Linear"):
        pellucid.summary(model, (6, 5))
    assert all(buffers[name] is buffer for name, buffer in model.named_buffers())
    assert pellucid.equal(pellucid.get_rng_state(), state)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert pellucid.core.modes.current() is pellucid.core.modes.NORMAL


def test_a_layer_that_fails_inside_of_a_model_that_goes_on():
    class Trying(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrong, self.right = nn.Linear(7, 2), nn.Linear(4, 2)

        def forward(self, x):
            try:
                return self.wrong(x)
            except RuntimeError:
                return self.right(x).exp()

    told = {row.path: (row.calls, row.flops) for row in pellucid.summary(Trying(), (3, 4)).rows}
    assert told == {"": (1, 6), "wrong": (1, 0), "right": (1, 48)}


def test_only_modules_have_a_summary():
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module, not function"):
        pellucid.summary(lambda x: x, (3, 4))


def test_lazy_layers_get_their_shapes():
    model = nn.Sequential(nn.LazyLinear(3))
    assert pellucid.summary(model, pellucid.ones(2, 4)).trainable == 15


def test_summary_as_text_and_as_data():
    told = pellucid.summary(Small(), (6, 4))
    lines = str(told).split("\n")
    assert len({len(line) for line in lines[: lines.index("")]}) == 1  # aligned
    assert lines[0].split() == ["layer", "output", "parameters", "saved", "FLOPs"]
    assert any(line.startswith("    b: Linear") and "2 (+16 shared)" in line for line in lines)
    assert "parameters: 76 trainable, 2 frozen, 312 B" in lines
    data = json.loads(json.dumps(told.as_json()))
    assert data["rows"][2]["path"] == "encoder.0" and data["rows"][2]["outputs"] == [[6, 8]]
    assert sum(row["flops"] for row in data["rows"]) == data["flops"] == told.flops


# --- progress


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


def shown(monkeypatch, terminal, rich=True, iterable=(3.0, 2.0, 1.0), **options):
    screen = Screen(terminal)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm")
    if not rich:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
    bar = track(iterable, "epoch", **options)
    seen = []
    for loss in bar:
        seen.append(loss)
        bar.note(loss=pellucid.tensor(loss), phase="late" if loss < 2 else "early")
    monkeypatch.undo()
    return seen, screen.getvalue()


def test_progress_in_plain_lines(monkeypatch):
    seen, text = shown(monkeypatch, terminal=False)
    assert seen == [3.0, 2.0, 1.0]
    first, last = text.splitlines()
    assert first.startswith("epoch      1   loss 3.000   phase early   ") and "ETA 0:00" in first
    assert last.startswith("epoch      3   loss 1.000   phase late   ") and " steps/s" in last
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_progress_without_a_length_shows_its_end(monkeypatch):
    _, text = shown(monkeypatch, terminal=False, iterable=iter([3.0, 2.0]))
    assert [line[:12] for line in text.splitlines()] == ["epoch      1", "epoch      2"]
    assert "ETA" not in text


def test_progress_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    _, text = shown(monkeypatch, terminal=True)
    assert "━" in text and "epoch      3   loss 1.000" in text
    _, text = shown(monkeypatch, terminal=True, rich=False)
    assert text.startswith("\r\033[Kepoch      1") and text.endswith("\n")


def test_progress_ends_in_time(monkeypatch):
    def endless():
        while True:
            yield 1.0

    seen, text = shown(monkeypatch, terminal=False, iterable=endless(), seconds=0.05)
    assert seen and text.splitlines()[-1].endswith("ETA 0:00")


def test_progress_when_the_loop_is_left(monkeypatch):
    screen = Screen(terminal=False)
    monkeypatch.setattr(sys, "stdout", screen)
    bar = track(range(10))
    for i in bar:
        if i == 3:
            break
    assert bar.step == 4 and bar.share == 0.4
    with pytest.raises(ZeroDivisionError):
        sum(1 // i for i in track(range(3)))


# --- TensorBoard


@pytest.fixture
def logged(tmp_path):
    """Runs a function with a writer, and returns the summaries of the files it has written: (tag, step) -> value."""
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto import event_pb2

    def events(path):
        """The records of a file: eight bytes of length, four of checksum, the event, four of checksum."""
        data = path.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            yield event_pb2.Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]

    def run(use):
        with pellucid.utils.tensorboard.SummaryWriter(tmp_path) as writer:
            use(writer)
            assert writer.get_logdir() == str(tmp_path)
        found = {}
        for file in tmp_path.rglob("events.*"):
            folder = file.parent.relative_to(tmp_path).as_posix()
            for event in events(file):
                found |= {(folder, value.tag, event.step): value for value in event.summary.value}
        return {
            (tag if folder == "." else f"{folder}:{tag}", step): value for (folder, tag, step), value in found.items()
        }

    return run


def test_scalars(logged):
    def use(writer):
        writer.add_scalar("loss", pellucid.tensor(0.5, requires_grad=True), 3)
        writer.add_scalar("lr", 0.25, global_step=4, new_style=True)
        writer.add_scalars("both", {"a": pellucid.tensor(1.0), "b": 2}, 5)

    values = logged(use)
    assert values["loss", 3].simple_value == 0.5 and values["lr", 4].simple_value == 0.25
    assert [values[f"both/{name}:both", 5].simple_value for name in "ab"] == [1.0, 2.0]


def test_texts_are_text_to_tensorboard(logged):
    """Of the kind that TensorBoard cleans before it shows it, and unchanged: trust.md T51."""

    def use(writer):
        for step, payload in enumerate(PAYLOADS):
            writer.add_text("note", payload, step)

    values = logged(use)
    assert len(values) == len(PAYLOADS) >= 100
    for (_, step), value in values.items():
        assert value.metadata.plugin_data.plugin_name == "text"
        assert value.tensor.string_val[0].decode() == PAYLOADS[step]


def test_histograms_pictures_and_texts(logged):
    def use(writer):
        writer.add_histogram("weights", pellucid.arange(10.0).requires_grad_(), 1)
        writer.add_histogram("halves", pellucid.ones(4, dtype=pellucid.bfloat16), 1)
        writer.add_image("picture", pellucid.rand(3, 4, 5), 2)
        writer.add_images("pictures", pellucid.rand(2, 1, 4, 5), global_step=2)
        writer.add_text("note", "it learns", 3)
        writer.add_graph(nn.Linear(2, 3), pellucid.ones(1, 2))
        writer.add_pr_curve("curve", pellucid.tensor([0, 1, 1]), pellucid.tensor([0.2, 0.6, 0.9]), 1)
        writer.flush()

    values = logged(use)
    assert values["weights", 1].histo.num == 10 and values["weights", 1].histo.sum == 45
    assert values["halves", 1].histo.num == 4
    assert (values["picture", 2].image.height, values["picture", 2].image.width) == (4, 5)
    assert values["pictures", 2].image.width == 10
    assert b"it learns" in values["note/text_summary", 3].SerializeToString()
    assert b"Linear(in_features=2" in values["graph/text_summary", 0].SerializeToString()
    assert ("curve", 1) in values


def test_settings_and_embeddings(logged, tmp_path):
    def use(writer):
        writer.add_hparams(
            {"lr": 0.1, "depth": pellucid.tensor(3)}, {"accuracy": pellucid.tensor(0.75)}, run_name="one"
        )
        writer.add_embedding(pellucid.rand(3, 2), metadata=["a", "b", "c"], tag="points")

    values = logged(use)
    assert values["one:accuracy", 0].simple_value == 0.75
    assert (tmp_path / "projector_config.pbtxt").exists()


def test_figures(logged):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure = pyplot.figure(figsize=(1, 1))
    assert ("plot", 0) in logged(lambda writer: writer.add_figure("plot", figure, 0))


def test_without_tensorboardx(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"pellucid\[tensorboard\]"):
        pellucid.utils.tensorboard.SummaryWriter("nowhere")


# --- data sets


def test_digits():
    def generator():
        return pellucid.Generator().manual_seed(1)

    data = datasets.digits(200, generator=generator())
    pictures, labels = data.tensors
    assert isinstance(data, TensorDataset) and pictures.shape == (200, 1, 8, 8) and labels.dtype == pellucid.int64
    assert pictures.min() >= 0 and pictures.max() <= 1 and sorted(set(labels.tolist())) == list(range(10))
    assert pellucid.equal(pictures, datasets.digits(200, generator=generator()).tensors[0])
    with pytest.raises(ValueError, match="source must be"):
        datasets.digits(source="elsewhere")


def test_digits_of_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="scikit-learn"):
        datasets.digits(source="scikit-learn")

    class Written:
        images, target = np.full((1797, 8, 8), 16.0), np.arange(1797) % 10

        @classmethod
        def load_digits(cls):
            return cls

    monkeypatch.setitem(sys.modules, "sklearn.datasets", Written)
    pictures, labels = datasets.digits(30, source="scikit-learn").tensors
    assert pictures.shape == (30, 1, 8, 8) and pictures.max() == 1 and labels[13] == 3


def test_moons():
    points, labels = datasets.moons(101, noise=0.0, generator=pellucid.Generator().manual_seed(0)).tensors
    outer, inner = points[labels == 0], points[labels == 1]
    assert (len(outer), len(inner)) == (51, 50)
    assert pellucid.allclose(outer.norm(dim=1), pellucid.ones(51)) and (outer[:, 1] > -1e-6).all()
    assert pellucid.allclose((inner - pellucid.tensor([1.0, 0.5])).norm(dim=1), pellucid.ones(50))
    assert labels[:10].float().mean() not in (0, 1)  # in random order


def test_text():
    book = datasets.text(context=16)
    assert book.decode(book.encode(book.text[:500])) == book.text[:500]
    inputs, targets = next(iter(DataLoader(book, batch_size=4)))
    assert inputs.shape == (4, 16) and pellucid.equal(inputs[1:, 0], targets[:-1, 0])
    assert pellucid.equal(book[-1][1], book.tokens[-16:]) and len(book) == len(book.text) - 16
    with pytest.raises(IndexError):
        book[len(book)]


# --- wrappers for several devices


@pytest.mark.parametrize("wrapper", [nn.DataParallel, nn.parallel.DistributedDataParallel])
def test_wrapped_models(wrapper):
    inner = nn.Sequential(OrderedDict(layer=nn.Linear(2, 3)))
    model = wrapper(inner)
    assert model.module is inner and list(model.state_dict()) == ["module.layer.weight", "module.layer.bias"]
    x = pellucid.ones(4, 2)
    assert pellucid.equal(model(x), inner(x))
    model(x).sum().backward()
    assert inner.layer.weight.grad is not None
    assert repr(model).startswith(f"{wrapper.__name__}(\n  (module): Sequential(")
    model.load_state_dict({f"module.{name}": value for name, value in inner.state_dict().items()})


def test_data_parallel_is_pytorchs(torch):
    torch.manual_seed(0)
    pellucid.manual_seed(0)
    theirs, mine = (lib.nn.DataParallel(lib.nn.Linear(2, 3)) for lib in (torch, pellucid))
    assert repr(mine) == repr(theirs) and mine.device_ids == theirs.device_ids
    np.testing.assert_allclose(mine(pellucid.ones(1, 2)).detach().numpy(), theirs(torch.ones(1, 2)).detach().numpy())
    assert nn.parallel.data_parallel(mine.module, pellucid.ones(1, 2)).shape == (1, 3)


FACTORY = [None, {}, {"dtype": 1}, {"memory_format": 3}, {"dtype": 1, "factory_kwargs": {"device": 2}},
           {"dtype": 1, "factory_kwargs": {"dtype": 2}}, {"other": 1}]  # fmt: skip


@pytest.mark.parametrize("given", FACTORY, ids=str)
def test_factory_kwargs(torch, given):
    def outcome(lib):
        try:
            return lib.nn.factory_kwargs(given)
        except TypeError as error:
            return str(error)

    assert outcome(pellucid) == outcome(torch)


# --- torch.ops.aten

ATEN = {
    "_safe_softmax": lambda t, op: op(t.tensor([[1.0, 2.0], [-t.inf, -t.inf]]), 1),
    "mm": lambda t, op: op(t.ones(2, 3), t.ones(3, 2)),
    "add.Tensor": lambda t, op: op(t.ones(2), t.ones(2), alpha=2),
    "mse_loss.default": lambda t, op: op(t.ones(2), t.zeros(2)),
    "linalg_vector_norm.default": lambda t, op: op(t.ones(4)),
    "special_erfcx": lambda t, op: op(t.ones(2)),
    "relu_": lambda t, op: op(-t.ones(2)),
    "view.default": lambda t, op: op(t.ones(2, 3), [3, 2]),
    "max_pool2d_with_indices_backward.default": lambda t, op: op(
        t.ones(1, 1, 1), t.arange(4.0).view(1, 2, 2), [2, 2], [2, 2], [0, 0], [1, 1], False, t.tensor([[[3]]])
    ),
}


@pytest.mark.parametrize("name", ATEN)
def test_aten(torch, name):
    def result(lib):
        op = lib.ops.aten
        for part in name.split("."):
            op = getattr(op, part)
        return ATEN[name](lib, op).numpy()

    np.testing.assert_allclose(result(pellucid), result(torch), rtol=1e-6)


def test_aten_says_what_it_has_not():
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_this'"):
        pellucid.ops.aten.nothing_like_this
    assert repr(pellucid.ops.aten.mm) == "aten.mm" and pellucid.ops.aten.mm is pellucid.ops.aten.mm
