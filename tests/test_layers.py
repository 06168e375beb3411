"""Every layer of one table against PyTorch's: its text, its state, its outputs and gradients, its copies.

A case is a constructor call and the inputs of one forward call. Both libraries get the same seed, so that initial
values and what dropout draws must be equal bit for bit.
"""

import copy
import pickle
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import pellucid

TOLERANCE = {"float64": {"rtol": 1e-10, "atol": 1e-11}, "float32": {"rtol": 2e-4, "atol": 2e-5}}


@dataclass
class Input:
    """One tensor: its values, and whether it is learned (then it is made in the dtype that is tested)."""

    values: Any
    learned: bool = True


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Input:
    """Distinct numbers, away from each other, in no order."""
    size = int(np.prod(shape))
    order = np.random.default_rng(size).permutation(size) + 0.37
    return Input((low + (high - low) * order / max(size, 1)).reshape(shape))


def fixed(values: Any) -> Input:
    """Numbers that are not learned, such as class numbers."""
    return Input(np.asarray(values), learned=False)


def whole(*shape: int, high: int) -> Input:
    """Integers from 0 to high - 1."""
    return fixed(np.random.default_rng(len(shape)).integers(0, high, shape))


@dataclass
class Case:
    """A constructor call and the arguments of a forward call."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # keyword arguments of the forward call

    def __str__(self) -> str:
        words = [*(_short(value) for value in self.args), *(f"{k}={_short(v)}" for k, v in self.kwargs.items())]
        return f"{self.name}({', '.join(words)})"


def _short(value: Any) -> str:
    return "array" if isinstance(value, np.ndarray) else repr(value).replace(" ", "")


CASES: list[Case] = []


def layer(name: str, *args: Any, **kwargs: Any) -> Any:
    """Write a case down: `layer("Linear", 3, 4)(real(2, 3))`."""

    def add(*inputs: Any, **options: Any) -> None:
        CASES.append(Case(name, args, kwargs, inputs, options))

    return add


X, BATCH, LENGTH, IMAGE, VOLUME = real(3, 4), real(5, 3), real(2, 3, 6), real(2, 4, 6, 5), real(1, 2, 4, 5, 4)

# --- linear

layer("Linear", 3, 4)(real(5, 3))
layer("Linear", 3, 4, bias=False)(real(2, 5, 3))
layer("Linear", 3, 4)(real(3))
layer("Bilinear", 3, 2, 4)(real(5, 3), real(5, 2))
layer("Bilinear", 3, 2, 4, bias=False)(real(5, 3), real(5, 2))
layer("Identity", 54, unused=True)(X)
layer("LazyLinear", 4)(real(5, 3))
layer("LazyLinear", 4, bias=False)(real(5, 3))

# --- activations

for _name in ("Sigmoid", "Tanh", "LogSigmoid", "Softsign", "Tanhshrink"):
    layer(_name)(X)
for _name in ("ReLU", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "ReLU6", "Hardtanh", "ELU", "CELU", "RReLU",
              "LeakyReLU"):  # fmt: skip
    layer(_name)(X)
    layer(_name, inplace=True)(X)
layer("ReLU6")(real(3, 4, low=-9, high=9))
layer("Hardtanh", -0.5, 1.5)(X)
layer("Threshold", 0.1, 20)(X)
layer("Threshold", -0.5, 3.0, True)(X)
layer("RReLU", 0.1, 0.3)(real(3, 4, low=-2, high=1))
layer("ELU", 2.0)(X)
layer("CELU", 2.0, True)(X)
layer("LeakyReLU", 0.2)(X)
layer("GLU")(X)
layer("GLU", 1)(real(2, 4, 3))
layer("GELU")(X)
layer("GELU", "tanh")(X)
layer("Hardshrink")(X)
layer("Hardshrink", 1.0)(X)
layer("Softshrink")(X)
layer("Softshrink", 1.0)(X)
layer("Softplus")(X)
layer("Softplus", 2, 1.5)(X)
layer("PReLU")(X)
layer("PReLU", 4, 0.1)(real(2, 4, 3))
for _name in ("Softmax", "Softmin", "LogSoftmax"):
    layer(_name, 1)(X)
    layer(_name, dim=-2)(LENGTH)
layer("Softmax2d")(IMAGE)
layer("Softmax2d")(real(3, 2, 2))

# --- convolutions

layer("Conv1d", 3, 5, 3)(LENGTH)
layer("Conv1d", 3, 5, 3, padding=1)(real(3, 6))
layer("Conv1d", 3, 6, 2, 2, 1, 2, 3, False)(LENGTH)
layer("Conv2d", 4, 3, 3)(IMAGE)
layer("Conv2d", 4, 6, (3, 2), stride=(2, 1), padding=(1, 0), groups=2)(IMAGE)
layer("Conv2d", 4, 4, 3, groups=4, bias=False)(IMAGE)
layer("Conv2d", 4, 3, (3, 2), padding="same")(IMAGE)
layer("Conv2d", 4, 3, 3, padding="valid", dilation=2)(IMAGE)
for _mode in ("reflect", "replicate", "circular"):
    layer("Conv2d", 4, 3, 3, padding=(1, 2), padding_mode=_mode)(IMAGE)
    layer("Conv1d", 3, 2, 4, padding="same", padding_mode=_mode)(LENGTH)
layer("Conv3d", 2, 3, 2)(VOLUME)
layer("Conv3d", 2, 2, (1, 2, 3), 2, (0, 1, 1), padding_mode="replicate")(VOLUME)
layer("ConvTranspose1d", 3, 4, 3, 2, output_padding=1)(LENGTH)
layer("ConvTranspose1d", 3, 4, 3, 2)(LENGTH, output_size=(14,))
layer("ConvTranspose2d", 4, 2, 3)(IMAGE)
layer("ConvTranspose2d", 4, 6, (2, 3), 2, (0, 1), groups=2, dilation=2, bias=False)(IMAGE)
layer("ConvTranspose2d", 4, 2, 3, stride=2, padding=1)(IMAGE, output_size=(2, 2, 12, 10))
layer("ConvTranspose3d", 2, 3, 2, stride=(1, 2, 1))(VOLUME)
layer("LazyConv1d", 5, 3)(LENGTH)
layer("LazyConv2d", 6, 3, padding=1, groups=2, bias=False)(IMAGE)
layer("LazyConv3d", 3, 2)(VOLUME)
layer("LazyConvTranspose1d", 4, 3, 2)(LENGTH)
layer("LazyConvTranspose2d", 4, 3)(real(4, 3, 3))
layer("LazyConvTranspose3d", 3, 2, bias=False)(VOLUME)

# --- pooling

for _i, _input in enumerate((LENGTH, IMAGE, VOLUME), 1):
    layer(f"MaxPool{_i}d", 2)(_input)
    layer(f"MaxPool{_i}d", 3, 2, 1)(_input)
    layer(f"MaxPool{_i}d", 2, 1, return_indices=True, dilation=2)(_input)
    layer(f"MaxPool{_i}d", 2, ceil_mode=True)(_input)
    layer(f"AvgPool{_i}d", 2)(_input)
    layer(f"AvgPool{_i}d", 3, 2, 1, True, False)(_input)
    layer(f"LPPool{_i}d", 2, 2)(_input)
    layer(f"LPPool{_i}d", 3.0, 2, 1, ceil_mode=True)(real(*_input.values.shape, low=0.2, high=2.0))
    layer(f"AdaptiveMaxPool{_i}d", 2)(_input)
    layer(f"AdaptiveMaxPool{_i}d", 3, return_indices=True)(_input)
    layer(f"AdaptiveAvgPool{_i}d", 3)(_input)
layer("MaxPool2d", (2, 3), (1, 2), (1, 1))(IMAGE)
layer("AvgPool2d", (2, 3), divisor_override=5)(IMAGE)
layer("AvgPool3d", 2, divisor_override=5)(VOLUME)
layer("AdaptiveAvgPool2d", (None, 2))(IMAGE)
layer("AdaptiveMaxPool2d", (3, None))(IMAGE)
layer("MaxUnpool1d", 2)(real(1, 2, 2), fixed([[[1, 2], [0, 3]]]))
layer("MaxUnpool1d", 2)(real(1, 2, 2), fixed([[[1, 2], [0, 3]]]), output_size=(5,))
layer("MaxUnpool2d", 2)(real(1, 1, 2, 2), fixed([[[[0, 3], [9, 14]]]]))
layer("MaxUnpool3d", 2)(real(1, 1, 1, 1, 2), fixed([[[[[3, 9]]]]]))
layer("FractionalMaxPool2d", 2, (3, 2))(IMAGE)
layer("FractionalMaxPool2d", 2, output_ratio=0.5, return_indices=True)(IMAGE)
layer("FractionalMaxPool3d", 2, output_ratio=(0.5, 0.6, 0.7))(VOLUME)

# --- dropout

for _name, _input in (
    ("Dropout", X), ("Dropout1d", LENGTH), ("Dropout2d", IMAGE), ("Dropout3d", VOLUME), ("AlphaDropout", X),
    ("FeatureAlphaDropout", IMAGE),
):  # fmt: skip
    layer(_name)(_input)
    layer(_name, 0.2)(_input)
    layer(_name, p=0.3, inplace=True)(_input)
layer("Dropout", 0.0)(X)
layer("Dropout", 1.0)(X)

# --- normalisation

for _name, _input, _channels in (
    ("BatchNorm1d", BATCH, 3), ("BatchNorm1d", LENGTH, 3), ("BatchNorm2d", IMAGE, 4), ("BatchNorm3d", VOLUME, 2),
    ("SyncBatchNorm", IMAGE, 4),
):  # fmt: skip
    layer(_name, _channels)(_input)
    layer(_name, _channels, affine=False, momentum=0.3)(_input)
    layer(_name, _channels, track_running_stats=False, eps=0.1)(_input)
    layer(_name, _channels, momentum=None)(_input)
    layer(_name, _channels, bias=False)(_input)
    if _name != "SyncBatchNorm":
        layer("Lazy" + _name)(_input)
        layer("Lazy" + _name, affine=False, track_running_stats=False)(_input)
for _name, _input, _channels in (
    ("InstanceNorm1d", LENGTH, 3), ("InstanceNorm2d", IMAGE, 4), ("InstanceNorm3d", VOLUME, 2),
):  # fmt: skip
    layer(_name, _channels)(_input)
    layer(_name, _channels, affine=True, track_running_stats=True)(_input)
    layer(_name, _channels, affine=True, bias=False)(_input)
    layer(_name, _channels)(real(*_input.values.shape[1:]))
    layer("Lazy" + _name)(_input)
layer("LayerNorm", 4)(X)
layer("LayerNorm", (3, 6), eps=0.1)(LENGTH)
layer("LayerNorm", [6], bias=False)(LENGTH)
layer("LayerNorm", 6, elementwise_affine=False)(LENGTH)
layer("GroupNorm", 2, 4)(IMAGE)
layer("GroupNorm", 4, 4, affine=False)(IMAGE)
layer("GroupNorm", 1, 4, eps=0.1, bias=False)(IMAGE)
layer("RMSNorm", 4)(X)
layer("RMSNorm", (3, 6), eps=0.1)(LENGTH)
layer("RMSNorm", 6, elementwise_affine=False)(LENGTH)
layer("LocalResponseNorm", 2)(IMAGE)
layer("LocalResponseNorm", 3, 0.1, 0.5, 2.0)(LENGTH)
layer("CrossMapLRN2d", 3)(IMAGE)
layer("CrossMapLRN2d", 3, 0.1, 0.5, 2.0)(IMAGE)

# --- padding, moving elements

for _i, _input in enumerate((LENGTH, IMAGE, VOLUME), 1):
    layer(f"ZeroPad{_i}d", 1)(_input)
    layer(f"ConstantPad{_i}d", tuple(range(2 * _i)), 3.5)(_input)
    for _kind in ("Reflection", "Replication", "Circular"):
        layer(f"{_kind}Pad{_i}d", 1)(_input)
        layer(f"{_kind}Pad{_i}d", (1, 0) * _i)(_input)
layer("PixelShuffle", 2)(IMAGE)
layer("PixelUnshuffle", 2)(real(1, 2, 4, 6))
layer("ChannelShuffle", 2)(IMAGE)
layer("Upsample", scale_factor=2)(LENGTH)
layer("Upsample", size=(7, 9), mode="bilinear")(IMAGE)
layer("Upsample", scale_factor=(2, 3), mode="bicubic", align_corners=True)(IMAGE)
layer("Upsample", (8,), mode="linear")(LENGTH)
layer("UpsamplingNearest2d", scale_factor=2)(IMAGE)
layer("UpsamplingBilinear2d", size=9)(IMAGE)
layer("Flatten")(IMAGE)
layer("Flatten", 2)(IMAGE)
layer("Unflatten", 1, (2, 3))(real(5, 6))
layer("Unflatten", -1, [3, 2])(LENGTH)
layer("Fold", (4, 5), 2)(real(2, 12, 12))
layer("Fold", (4, 5), (2, 3), 1, 1, 2)(real(2, 12, 9))
layer("Unfold", 2)(IMAGE)
layer("Unfold", (2, 3), 2, 1, (1, 2))(IMAGE)

# --- distances, embeddings

layer("CosineSimilarity")(X, real(3, 4, low=-1, high=3))
layer("CosineSimilarity", dim=-1, eps=0.1)(X, real(4))
layer("PairwiseDistance")(X, real(3, 4, low=-1, high=3))
layer("PairwiseDistance", p=1.5, keepdim=True, eps=0.1)(X, real(3, 4, low=-1, high=3))
layer("Embedding", 6, 3)(whole(2, 4, high=6))
layer("Embedding", 6, 3, padding_idx=-2)(whole(2, 4, high=6))
layer("Embedding", 6, 3, max_norm=1.0, norm_type=1.0)(whole(2, 4, high=6))
layer("Embedding", 6, 3, scale_grad_by_freq=True)(whole(2, 4, high=6))
layer("Embedding", 2, 3, _weight=np.arange(6.0).reshape(2, 3))(whole(4, high=2))
layer("EmbeddingBag", 6, 3)(whole(2, 4, high=6))
layer("EmbeddingBag", 6, 3, mode="sum")(whole(7, high=6), fixed([0, 2, 5]))
layer("EmbeddingBag", 6, 3, mode="max", padding_idx=1)(whole(7, high=6), fixed([0, 2, 5]))
layer("EmbeddingBag", 6, 3, mode="sum", include_last_offset=True)(whole(7, high=6), fixed([0, 2, 5, 7]))
layer("EmbeddingBag", 6, 3, mode="sum")(whole(2, 3, high=6), None, real(2, 3))
layer("EmbeddingBag", 6, 3, max_norm=1.0, norm_type=1.0, mode="sum")(whole(2, 4, high=6))

# --- losses

CLASSES, CHANCES = whole(5, high=3), real(5, 3, low=0.05, high=0.95)
SIGNS = fixed(np.array([1.0, -1.0, 1.0, -1.0, 1.0]))
THREE = np.array([0.5, 1.0, 2.0])


def losses(name: str, *args: Any, **kwargs: Any) -> Any:
    """One loss with each of the three reductions."""

    def add(*inputs: Any) -> None:
        for reduction in ("mean", "sum", "none"):
            layer(name, *args, reduction=reduction, **kwargs)(*inputs)

    return add


for _name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "PoissonNLLLoss"):
    losses(_name)(BATCH, CHANCES)
losses("SmoothL1Loss", beta=0.3)(BATCH, CHANCES)
losses("HuberLoss", delta=0.3)(BATCH, CHANCES)
losses("KLDivLoss", log_target=True)(BATCH, real(5, 3, low=-3, high=-0.1))
layer("KLDivLoss", reduction="batchmean")(BATCH, CHANCES)
losses("PoissonNLLLoss", log_input=False, full=True)(CHANCES, fixed(np.arange(15.0).reshape(5, 3)))
losses("GaussianNLLLoss", full=True)(BATCH, real(5, 3, low=-1, high=1), CHANCES)
losses("NLLLoss")(BATCH, CLASSES)
losses("NLLLoss", weight=THREE, ignore_index=1)(BATCH, CLASSES)
losses("NLLLoss")(LENGTH, whole(2, 6, high=3))
losses("CrossEntropyLoss")(BATCH, CLASSES)
losses("CrossEntropyLoss", THREE, ignore_index=1, label_smoothing=0.2)(BATCH, CLASSES)
losses("CrossEntropyLoss", label_smoothing=0.1)(BATCH, CHANCES)
losses("CrossEntropyLoss")(LENGTH, whole(2, 6, high=3))
losses("CrossEntropyLoss")(real(3), fixed(1))
losses("LinearCrossEntropyLoss", 4, 3)(real(5, 4), CLASSES)
losses("LinearCrossEntropyLoss", 4, 3, out_features=(2,), bias=True)(real(5, 4), whole(5, 2, high=3))
losses("BCELoss")(CHANCES, real(5, 3, low=0.1, high=0.9))
losses("BCELoss", weight=THREE)(CHANCES, real(5, 3, low=0.1, high=0.9))
losses("BCEWithLogitsLoss")(BATCH, CHANCES)
losses("BCEWithLogitsLoss", weight=THREE, pos_weight=THREE)(BATCH, CHANCES)
losses("HingeEmbeddingLoss")(real(5), SIGNS)
losses("HingeEmbeddingLoss", 0.7)(real(5), SIGNS)
losses("MultiLabelMarginLoss")(BATCH, fixed(np.array([[0, 2, -1], [1, -1, 0], [2, 1, 0], [-1, 0, 0], [0, -1, 1]])))
losses("SoftMarginLoss")(real(5), SIGNS)
losses("MultiLabelSoftMarginLoss", weight=THREE)(BATCH, fixed(np.eye(3)[[0, 1, 2, 1, 0]]))
losses("CosineEmbeddingLoss", 0.1)(BATCH, CHANCES, SIGNS)
losses("MarginRankingLoss", 0.5)(real(5), real(5, low=-1, high=1), SIGNS)
losses("MultiMarginLoss")(BATCH, CLASSES)
losses("MultiMarginLoss", 2, 0.7, THREE)(BATCH, CLASSES)
losses("TripletMarginLoss", swap=True)(BATCH, CHANCES, real(5, 3, low=-3, high=1))
losses("TripletMarginLoss", 2.0, 1.0, 0.1)(BATCH, CHANCES, real(5, 3, low=-3, high=1))
losses("TripletMarginWithDistanceLoss", margin=2.0, swap=True)(BATCH, CHANCES, real(5, 3, low=-3, high=1))
losses("CTCLoss")(real(6, 2, 4, low=-3, high=-0.2), fixed([[1, 2, 3], [2, 2, 0]]), fixed([6, 5]), fixed([3, 2]))
losses("CTCLoss", 1, zero_infinity=True)(
    real(3, 2, 4, low=-3, high=-0.2), fixed([0, 0, 3, 2]), fixed([3, 3]), fixed([2, 2])
)
layer("L1Loss", size_average=False)(BATCH, CHANCES)
layer("MSELoss", reduce=False)(BATCH, CHANCES)
layer("AdaptiveLogSoftmaxWithLoss", 8, 12, [3, 7], div_value=2.0)(real(5, 8), fixed([0, 4, 11, 2, 7]))
layer("AdaptiveLogSoftmaxWithLoss", 8, 12, [3, 7], 2.0, head_bias=True)(real(8), fixed(5))


# --- both libraries


class Side:
    """One library with its own instance of a case."""

    def __init__(self, library: Any, case: Case, dtype: str = "float32") -> None:
        self.library, self.dtype = library, getattr(library, dtype)
        library.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.module = getattr(library.nn, case.name)(
                *map(self.own, case.args), **{key: self.own(value) for key, value in case.kwargs.items()}
            ).to(self.dtype)
        self.inputs = [self.tensor(value) if isinstance(value, Input) else value for value in case.inputs]
        self.options = case.options

    def own(self, value: Any) -> Any:
        """An argument as this library takes it."""
        return self.library.tensor(value, dtype=self.dtype) if isinstance(value, np.ndarray) else value

    def tensor(self, value: Input) -> Any:
        if not value.learned and value.values.dtype.kind != "f":
            return self.library.tensor(value.values)
        return self.library.tensor(value.values, dtype=self.dtype, requires_grad=value.learned)

    def run(self, module: Any = None) -> list[Any]:
        """The outputs."""
        self.library.manual_seed(1)
        arguments = [x + 0 if getattr(x, "requires_grad", False) else x for x in self.inputs]  # may be overwritten
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = (self.module if module is None else module)(*arguments, **self.options)
        return list(result) if isinstance(result, tuple) else [result]

    def gradients(self, outputs: list[Any]) -> dict[str, Any]:
        """The gradients of inputs and parameters, by name."""
        total = 0
        for output in outputs:
            if output.requires_grad:
                weights = np.cos(np.arange(output.numel())).reshape(tuple(output.shape))
                total = total + (output * self.library.tensor(weights, dtype=output.dtype)).sum()
        if not isinstance(total, int):
            total.backward()
        named = {f"input {i}": x for i, x in enumerate(self.inputs) if hasattr(x, "grad")}
        named |= dict(self.module.named_parameters())
        grads = {name: tensor.grad for name, tensor in named.items()}
        for tensor in named.values():
            tensor.grad = None
        return grads

    def state(self) -> dict[str, np.ndarray]:
        return {name: array(tensor) for name, tensor in self.module.state_dict().items()}

    def is_lazy(self) -> bool:
        return any(self.library.nn.parameter.is_lazy(tensor) for tensor in self.module.state_dict().values())


def array(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy()


def same(mine: Any, theirs: Any, dtype: str, what: str) -> None:
    if mine is None or theirs is None:
        assert mine is None and theirs is None, f"{what}: {mine} and {theirs}"
        return
    mine, theirs = array(mine), array(theirs)
    assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, f"{what}: {mine.dtype}, {mine.shape}"
    np.testing.assert_allclose(mine, theirs, **TOLERANCE[dtype], err_msg=what)


def same_bits(mine: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> None:
    assert list(mine) == list(theirs)
    for name, value in mine.items():
        assert value.dtype == theirs[name].dtype and value.tobytes() == theirs[name].tobytes(), name


def settings(module: Any, library: Any) -> dict[str, Any]:
    """The attributes of a layer that are not every module's, without its tensors and hooks."""
    members = {**module._parameters, **module._buffers, **module._modules}
    known = {*library.nn.Module().__dict__, "_load_hook", "_initialize_hook", *members}
    return {name: value for name, value in module.__dict__.items() if name not in known}


# --- the checks: each gets both sides of one case


def made_alike(mine: Side, theirs: Side) -> None:
    """The text, the settings, the members; initial values bit for bit."""
    assert repr(mine.module) == repr(theirs.module)
    assert settings(mine.module, mine.library) == settings(theirs.module, theirs.library)
    assert [*mine.module._parameters] == [*theirs.module._parameters]
    assert [*mine.module._buffers] == [*theirs.module._buffers]
    assert mine.is_lazy() == theirs.is_lazy()
    if theirs.is_lazy():  # the first input gives it shapes and values, and another class
        mine.module.eval(), theirs.module.eval()
        mine.run(), theirs.run()
        mine.module.train(), theirs.module.train()
        assert repr(mine.module) == repr(theirs.module)
    same_bits(mine.state(), theirs.state())
    assert [*mine.module.state_dict()._metadata.items()] == [*theirs.module.state_dict()._metadata.items()]


def computes_alike(mine: Side, theirs: Side, dtype: str) -> None:
    """Outputs, gradients and statistics in training, then in evaluation."""
    for training in (True, False):
        mine.module.train(training), theirs.module.train(training)
        outputs, expected = mine.run(), theirs.run()
        assert len(outputs) == len(expected)
        for i, (output, wanted) in enumerate(zip(outputs, expected)):
            same(output, wanted, dtype, f"output {i}, training={training}")
        grads, wanted_grads = mine.gradients(outputs), theirs.gradients(expected)
        assert list(grads) == list(wanted_grads)
        for name, grad in grads.items():
            if type(mine.module).__name__ not in OTHER_GRADIENT:
                same(grad, wanted_grads[name], dtype, f"gradient of {name}, training={training}")
        for name, buffer in mine.module.named_buffers():
            same(buffer, theirs.module.get_buffer(name), dtype, name)


def saves_alike(mine: Side, theirs: Side) -> None:
    """Its state goes to PyTorch and back."""
    given = {name: value + 1 for name, value in mine.state().items()}
    report = theirs.module.load_state_dict({name: theirs.library.tensor(value) for name, value in given.items()})
    assert not report.missing_keys and not report.unexpected_keys
    back = {name: mine.library.tensor(value) for name, value in theirs.state().items()}
    assert str(mine.module.load_state_dict(back)) == "<All keys matched successfully>"
    same_bits(mine.state(), given)


def copies_well(side: Side) -> None:
    """A deep copy and a pickled one compute the same and share no memory."""
    side.module.eval()
    expected = side.run()
    for module in (copy.deepcopy(side.module), pickle.loads(pickle.dumps(side.module))):
        assert repr(module) == repr(side.module) and not module.training
        for output, wanted in zip(side.run(module), expected):
            assert array(output).tobytes() == array(wanted).tobytes()
        mine, others = [*module.state_dict().values()], [*side.module.state_dict().values()]
        assert not any(np.shares_memory(array(a), array(b)) for a, b in zip(mine, others))


# PyTorch's own derivative is wrong, or less exact than its dtype.
OTHER_GRADIENT = {
    "CrossMapLRN2d": "the derivative is that of another window than the one that is summed",
    "Hardsigmoid": "multiplies float64 by 1/6 in float32",
}
NAMES = list(dict.fromkeys(case.name for case in CASES))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("name", NAMES)
def test_layer_is_pytorchs(torch, name):
    for case in CASES:
        if case.name != name:
            continue
        try:
            for dtype in ("float64", "float32"):
                mine, theirs = Side(pellucid, case, dtype), Side(torch, case, dtype)
                made_alike(mine, theirs)
                computes_alike(mine, theirs, dtype)
            saves_alike(mine, theirs)
            copies_well(mine)
        except Exception as error:
            error.add_note(f"in {case}")
            raise


# --- what does not fit the table


REFUSED = {
    "groups do not divide the inputs": lambda torch: torch.nn.Conv2d(3, 4, 1, groups=2),
    "groups do not divide the outputs": lambda torch: torch.nn.Conv2d(2, 3, 1, groups=2),
    "no groups": lambda torch: torch.nn.Conv2d(2, 2, 1, groups=0),
    "unknown padding": lambda torch: torch.nn.Conv2d(2, 2, 1, padding="some"),
    "padding of strides": lambda torch: torch.nn.Conv2d(2, 2, 1, stride=2, padding="same"),
    "unknown padding mode": lambda torch: torch.nn.Conv2d(2, 2, 1, padding_mode="some"),
    "padding mode of a transpose": lambda torch: torch.nn.ConvTranspose2d(2, 2, 1, padding_mode="circular"),
    "output too large": lambda torch: torch.nn.ConvTranspose1d(1, 1, 3, 2)(torch.ones(1, 1, 4), output_size=(30,)),
    "output of other rank": lambda torch: torch.nn.ConvTranspose1d(1, 1, 3)(torch.ones(1, 1, 4), output_size=(3, 3)),
    "lazy input of other rank": lambda torch: torch.nn.LazyConv2d(2, 1)(torch.ones(2, 2)),
    "lazy groups": lambda torch: torch.nn.LazyConv1d(4, 1, groups=2)(torch.ones(1, 3, 4)),
    "chance above 1": lambda torch: torch.nn.Dropout(1.5),
    "bounds the wrong way": lambda torch: torch.nn.Hardtanh(2, 1),
    "softmax of a vector": lambda torch: torch.nn.Softmax2d()(torch.ones(3)),
    "batch norm of an image": lambda torch: torch.nn.BatchNorm1d(3)(torch.ones(1, 3, 4, 4)),
    "batch norm of a matrix": lambda torch: torch.nn.BatchNorm2d(3)(torch.ones(2, 3)),
    "batch norm of one value": lambda torch: torch.nn.BatchNorm1d(3)(torch.ones(1, 3)),
    "batch norm of other channels": lambda torch: torch.nn.BatchNorm1d(3)(torch.ones(2, 4)),
    "sync batch norm of a vector": lambda torch: torch.nn.SyncBatchNorm(3)(torch.ones(3)),
    "instance norm of other channels": lambda torch: torch.nn.InstanceNorm1d(3, affine=True)(torch.ones(2, 4, 5)),
    "instance norm of a vector": lambda torch: torch.nn.InstanceNorm1d(3)(torch.ones(3)),
    "groups of channels": lambda torch: torch.nn.GroupNorm(2, 3),
    "layer norm of another size": lambda torch: torch.nn.LayerNorm(3)(torch.ones(2, 4)),
    "cross map norm of a matrix": lambda torch: torch.nn.CrossMapLRN2d(3)(torch.ones(2, 4)),
    "circular padding of a vector": lambda torch: torch.nn.CircularPad1d(1)(torch.ones(3)),
    "reflection beyond the input": lambda torch: torch.nn.ReflectionPad1d(4)(torch.ones(1, 3)),
    "reflection of a value": lambda torch: torch.nn.functional.pad(torch.ones(1, 3), (1, 1), "reflect", 2.0),
    "unflatten to no tuple": lambda torch: torch.nn.Unflatten(1, 6),
    "unflatten to words": lambda torch: torch.nn.Unflatten(1, ("a", 6)),
    "padding row too large": lambda torch: torch.nn.Embedding(3, 2, padding_idx=3),
    "padding row too small": lambda torch: torch.nn.EmbeddingBag(3, 2, padding_idx=-4),
    "table of another shape": lambda torch: torch.nn.Embedding(3, 2, _weight=torch.ones(2, 2)),
    "table of three dimensions": lambda torch: torch.nn.Embedding.from_pretrained(torch.ones(2, 2, 2)),
    "no size of the output": lambda torch: torch.nn.FractionalMaxPool2d(2),
    "two sizes of the output": lambda torch: torch.nn.FractionalMaxPool2d(2, 2, 0.5),
    "ratio above 1": lambda torch: torch.nn.FractionalMaxPool3d(2, output_ratio=1.5),
    "cutoffs not rising": lambda torch: torch.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [5, 3]),
    "no cutoffs": lambda torch: torch.nn.AdaptiveLogSoftmaxWithLoss(4, 9, []),
    "target too large": lambda torch: torch.nn.AdaptiveLogSoftmaxWithLoss(8, 9, [3], 2.0)(
        torch.ones(1, 8), torch.tensor([9])
    ),
    "target without a batch": lambda torch: torch.nn.AdaptiveLogSoftmaxWithLoss(8, 9, [3], 2.0)(
        torch.ones(1, 8), torch.tensor(2)
    ),
    "unknown reduction": lambda torch: torch.nn.L1Loss(reduction="some")(torch.ones(2), torch.ones(2)),
    "power of 3": lambda torch: torch.nn.MultiMarginLoss(p=3),
    "weights of a matrix": lambda torch: torch.nn.MultiMarginLoss(weight=torch.ones(2, 2)),
    "no margin": lambda torch: torch.nn.TripletMarginLoss(margin=0),
    "no margin of a distance": lambda torch: torch.nn.TripletMarginWithDistanceLoss(margin=-1.0),
    "unexpected argument": lambda torch: torch.nn.Sigmoid(inplace=True),
    "missing argument": lambda torch: torch.nn.Linear(3),
    "input of another size": lambda torch: torch.nn.Linear(3, 2)(torch.ones(1, 4)),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_that_needs_no_value_takes_zero(torch, mode):
    padded = [lib.nn.functional.pad(lib.arange(4.0)[None], (2, 1), mode, 0).tolist() for lib in (pellucid, torch)]
    assert padded[0] == padded[1]


@pytest.mark.parametrize("what", REFUSED)
def test_bad_settings_are_refused_with_pytorchs_error(torch, what):
    with pytest.raises(Exception) as theirs:  # its class is compared
        REFUSED[what](torch)
    with pytest.raises(theirs.type):
        REFUSED[what](pellucid)


def test_embedding_takes_a_table():
    table = pellucid.tensor([[1.0, 2.0], [3.0, 4.0]])
    frozen = pellucid.nn.Embedding.from_pretrained(table)
    assert not frozen.weight.requires_grad and np.shares_memory(array(frozen.weight), array(table))
    assert pellucid.nn.EmbeddingBag.from_pretrained(table, freeze=False).weight.requires_grad


def test_batch_norm_loads_a_state_without_a_count():
    old = pellucid.nn.BatchNorm1d(2)
    state = old.state_dict()
    del state["num_batches_tracked"]
    state._metadata[""] = {"version": 1}
    assert str(pellucid.nn.BatchNorm1d(2).load_state_dict(state)) == "<All keys matched successfully>"
    state._metadata[""] = {"version": 2}
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        pellucid.nn.BatchNorm1d(2).load_state_dict(state)


def test_instance_norm_tells_of_statistics_it_does_not_keep():
    state = pellucid.nn.InstanceNorm1d(2, track_running_stats=True).state_dict()
    with pytest.raises(RuntimeError, match="running stats"):
        pellucid.nn.InstanceNorm1d(2).load_state_dict(dict(state))


def test_batch_norms_of_a_model_become_synchronised_ones():
    model = pellucid.nn.Sequential(pellucid.nn.Linear(2, 3), pellucid.nn.BatchNorm1d(3))
    norm = model[1]
    converted = pellucid.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], pellucid.nn.SyncBatchNorm) and converted[1].weight is norm.weight


def test_adaptive_softmax_knows_all_classes(torch):
    outcomes = []
    for library in (pellucid, torch):
        library.manual_seed(0)
        layer_of_both = library.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0)
        x = library.tensor(real(5, 8).values, dtype=library.float32)
        outcomes.append((array(layer_of_both.log_prob(x)), array(layer_of_both.predict(x))))
    np.testing.assert_allclose(outcomes[0][0], outcomes[1][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])
    np.testing.assert_allclose(np.exp(outcomes[0][0]).sum(1), 1, rtol=1e-5)


def test_a_prefix_is_taken_off_a_state(torch):
    states = []
    for library in (pellucid, torch):
        inner = library.nn.Linear(2, 1)
        state = library.nn.ModuleDict({"module": inner}).state_dict()
        library.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        states.append((list(state), dict(state._metadata)))
    assert states[0] == states[1]


GOLDEN = {
    "a linear layer": (("Linear", 2, 1), [[1.0, 1.0]], [[-0.2080]]),
    "a convolution": (("Conv1d", 1, 1, 2), [[[1.0, 2.0, 3.0]]], [[[0.1714, 0.5454]]]),
    "layer norm": (("LayerNorm", 3), [[1.0, 2.0, 6.0]], [[-0.9258, -0.4629, 1.3887]]),
    "dropout": (("Dropout", 0.5), [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 2.0, 0.0]),
}


@pytest.mark.parametrize("what", GOLDEN)
def test_a_seed_gives_pytorchs_numbers_without_pytorch_at_hand(what):
    (name, *args), given, wanted = GOLDEN[what]
    pellucid.manual_seed(0)
    output = getattr(pellucid.nn, name)(*args)(pellucid.tensor(given))
    np.testing.assert_allclose(array(output), wanted, atol=1e-4)


def test_every_layer_of_pytorch_is_in_the_table(torch):
    mine = {case.name for case in CASES}
    files = (
        "activation conv pooling dropout batchnorm instancenorm normalization padding pixelshuffle channelshuffle "
        "upsampling flatten fold distance sparse loss adaptive linear"
    )
    there = {
        name for file in files.split() for name in getattr(getattr(torch.nn.modules, file), "__all__", ())
        if not name.startswith("_")
    }  # fmt: skip
    assert there - mine == {"MultiheadAttention", "NLLLoss2d"}  # the one has tests of its own, the other is a name
    assert all(hasattr(pellucid.nn, name) for name in there - {"MultiheadAttention"})
