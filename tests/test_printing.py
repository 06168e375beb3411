"""The text of tensors: strings recorded from torch 2.13, and random tensors against torch when present."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid.dtypes import (
    ALL_DTYPES,
    FLOAT8,
    bfloat16,
    dtype,
    float8_e8m0fnu,
    float64,
    get_default_dtype,
    set_default_dtype,
)
from pellucid.printing import format_scalar, format_tensor, get_printoptions, printoptions, set_printoptions

NAMES_IN_GOLDEN = {"np": np, "inf": np.inf, "nan": np.nan, "bfloat16": bfloat16.numpy}

# Each array is written as the expression that makes it, followed by the repr of the same torch.Tensor.
# fmt: off
GOLDEN: list[tuple[str, str]] = [
    ("np.array(1.0, 'float32')", "tensor(1.)"),
    ("np.array(-0.0, 'float32')", "tensor(-0.)"),
    ("np.array(3.14159, 'float32')", "tensor(3.1416)"),
    ("np.array(nan, 'float32')", "tensor(nan)"),
    ("np.array(-inf, 'float32')", "tensor(-inf)"),
    ("np.array(1e10, 'float32')", "tensor(1.0000e+10)"),
    ("np.array(1e-10, 'float32')", "tensor(1.0000e-10)"),
    ("np.array(123456789.0, 'float32')", "tensor(1.2346e+08)"),
    ("np.array(7, 'int64')", "tensor(7)"),
    ("np.array(True, 'bool')", "tensor(True)"),
    ("np.array(1 + 2j, 'complex64')", "tensor(1.+2.j)"),
    ("np.array(2.5, 'float64')", "tensor(2.5000, dtype=torch.float64)"),
    ("np.array([1.0, 2.0, 3.0], 'float32')", "tensor([1., 2., 3.])"),
    ("np.array([0.0, 0.0], 'float32')", "tensor([0., 0.])"),
    ("np.array([1.5, -2.25, 3.0], 'float32')", "tensor([ 1.5000, -2.2500,  3.0000])"),
    ("np.array([1.0, 1000.0], 'float32')", "tensor([   1., 1000.])"),
    ("np.array([1.0, 1001.0], 'float32')", "tensor([1.0000e+00, 1.0010e+03])"),
    ("np.array([1.5, 1501.0], 'float32')", "tensor([1.5000e+00, 1.5010e+03])"),
    ("np.array([1e-4], 'float32')", "tensor([1.0000e-04])"),
    ("np.array([1.1e-4], 'float32')", "tensor([0.0001])"),
    ("np.array([1e8], 'float32')", "tensor([100000000.])"),
    ("np.array([1.5e8], 'float32')", "tensor([1.5000e+08])"),
    ("np.array([1e8, 1e6, 100000.5], 'float32')", "tensor([100000000.0000,   1000000.0000,    100000.5000])"),
    ("np.array([0.99999], 'float32')", "tensor([1.0000])"),
    ("np.array([inf, -inf, nan, 1.0], 'float32')", "tensor([inf, -inf, nan, 1.])"),
    ("np.array([inf, -inf, nan, 1.5], 'float32')", "tensor([   inf,   -inf,    nan, 1.5000])"),
    ("np.array([nan, 0.0, -0.0], 'float32')", "tensor([nan, 0., -0.])"),
    ("np.array([0.0, -5.0], 'float32')", "tensor([ 0., -5.])"),
    ("np.array([1e-8, 1.0], 'float32')", "tensor([1.0000e-08, 1.0000e+00])"),
    ("np.array([1e-320, 1e308], 'float64')", "tensor([9.9999e-321, 1.0000e+308], dtype=torch.float64)"),
    ("np.array([0.1, 0.2], 'float64')", "tensor([0.1000, 0.2000], dtype=torch.float64)"),
    ("np.array([1, -20, 300], 'int64')", "tensor([  1, -20, 300])"),
    ("np.array([1, 2], 'int32')", "tensor([1, 2], dtype=torch.int32)"),
    ("np.array([0, 255], 'uint8')", "tensor([  0, 255], dtype=torch.uint8)"),
    ("np.array([True, False], 'bool')", "tensor([ True, False])"),
    ("np.array([9223372036854775808, 1], 'uint64')",
     "tensor([9223372036854775808,                   1], dtype=torch.uint64)"),
    ("np.array([-1, 7], 'int8')", "tensor([-1,  7], dtype=torch.int8)"),
    ("np.array([65504.0, 1.0], 'float16')", "tensor([6.5504e+04, 1.0000e+00], dtype=torch.float16)"),
    ("np.array([0.1, 0.2], 'float16')", "tensor([0.1000, 0.2000], dtype=torch.float16)"),
    ("(np.arange(5) / 3).astype(bfloat16)",
     "tensor([0.0000, 0.3340, 0.6680, 1.0000, 1.3359], dtype=torch.bfloat16)"),
    ("np.array([1, 2], bfloat16)", "tensor([1., 2.], dtype=torch.bfloat16)"),
    ("np.array([1 + 2j, 3.5 - 4j], 'complex64')", "tensor([1.0000+2.j, 3.5000-4.j])"),
    ("np.array([complex(nan, -inf), 1], 'complex64')", "tensor([nan-infj, 1.+0.j])"),
    ("np.array([1e-6 + 1j, 1000 - 1e5j], 'complex128')", """\
tensor([1.0000e-06+1.0000e+00j, 1.0000e+03-1.0000e+05j],
       dtype=torch.complex128)"""),
    ("np.zeros(0, 'float32')", "tensor([])"),
    ("np.zeros((0, 3), 'float32')", "tensor([], size=(0, 3))"),
    ("np.zeros((2, 0), 'int64')", "tensor([], size=(2, 0), dtype=torch.int64)"),
    ("np.zeros(0, 'int64')", "tensor([], dtype=torch.int64)"),
    ("np.zeros(0, 'bool')", "tensor([], dtype=torch.bool)"),
    ("np.zeros((0, 3), 'float16')", "tensor([], size=(0, 3), dtype=torch.float16)"),
    ("np.arange(6, dtype='float32').reshape(2, 3)", """\
tensor([[0., 1., 2.],
        [3., 4., 5.]])"""),
    ("np.arange(8).reshape(2, 2, 2)", """\
tensor([[[0, 1],
         [2, 3]],

        [[4, 5],
         [6, 7]]])"""),
    ("np.arange(16).reshape(2, 2, 2, 2)", """\
tensor([[[[ 0,  1],
          [ 2,  3]],

         [[ 4,  5],
          [ 6,  7]]],


        [[[ 8,  9],
          [10, 11]],

         [[12, 13],
          [14, 15]]]])"""),
    ("np.array([[-1.5, 22.25], [333.125, 0]], 'float32')", """\
tensor([[ -1.5000,  22.2500],
        [333.1250,   0.0000]])"""),
    ("np.eye(3, dtype='float64')", """\
tensor([[1., 0., 0.],
        [0., 1., 0.],
        [0., 0., 1.]], dtype=torch.float64)"""),
    ("np.ones((1, 1, 1), 'float32')", "tensor([[[1.]]])"),
    ("np.array([[True], [False]])", """\
tensor([[ True],
        [False]])"""),
    ("np.arange(30)", """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"""),
    ("np.arange(30, dtype='float32')", """\
tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,
        28., 29.])"""),
    ("np.linspace(-1, 1, 25, dtype='float32')", """\
tensor([-1.0000, -0.9167, -0.8333, -0.7500, -0.6667, -0.5833, -0.5000, -0.4167,
        -0.3333, -0.2500, -0.1667, -0.0833,  0.0000,  0.0833,  0.1667,  0.2500,
         0.3333,  0.4167,  0.5000,  0.5833,  0.6667,  0.7500,  0.8333,  0.9167,
         1.0000])"""),
    ("np.arange(24).reshape(2, 12) * 10**7", """\
tensor([[        0,  10000000,  20000000,  30000000,  40000000,  50000000,
          60000000,  70000000,  80000000,  90000000, 100000000, 110000000],
        [120000000, 130000000, 140000000, 150000000, 160000000, 170000000,
         180000000, 190000000, 200000000, 210000000, 220000000, 230000000]])"""),
    ("np.linspace(0, 1, 9) * (1 + 1j)", """\
tensor([0.0000+0.0000j, 0.1250+0.1250j, 0.2500+0.2500j, 0.3750+0.3750j,
        0.5000+0.5000j, 0.6250+0.6250j, 0.7500+0.7500j, 0.8750+0.8750j,
        1.0000+1.0000j], dtype=torch.complex128)"""),
    ("np.array([True, False] * 9)", """\
tensor([ True, False,  True, False,  True, False,  True, False,  True, False,
         True, False,  True, False,  True, False,  True, False])"""),
    ("np.linspace(0, 1e-6, 11, dtype='float32')", """\
tensor([0.0000e+00, 1.0000e-07, 2.0000e-07, 3.0000e-07, 4.0000e-07, 5.0000e-07,
        6.0000e-07, 7.0000e-07, 8.0000e-07, 9.0000e-07, 1.0000e-06])"""),
    ("np.arange(1000)[:999:111]", "tensor([  0, 111, 222, 333, 444, 555, 666, 777, 888])"),
    ("np.arange(1001)", "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    ("np.linspace(0, 1, 2000, dtype='float32')", """\
tensor([0.0000e+00, 5.0025e-04, 1.0005e-03,  ..., 9.9900e-01, 9.9950e-01,
        1.0000e+00])"""),
    ("np.arange(2000, dtype='float64') - 1000", """\
tensor([-1000.,  -999.,  -998.,  ...,   997.,   998.,   999.],
       dtype=torch.float64)"""),
    ("np.arange(1200).reshape(30, 40)", """\
tensor([[   0,    1,    2,  ...,   37,   38,   39],
        [  40,   41,   42,  ...,   77,   78,   79],
        [  80,   81,   82,  ...,  117,  118,  119],
        ...,
        [1080, 1081, 1082,  ..., 1117, 1118, 1119],
        [1120, 1121, 1122,  ..., 1157, 1158, 1159],
        [1160, 1161, 1162,  ..., 1197, 1198, 1199]])"""),
    ("np.ones((5, 300), 'float32')", """\
tensor([[1., 1., 1.,  ..., 1., 1., 1.],
        [1., 1., 1.,  ..., 1., 1., 1.],
        [1., 1., 1.,  ..., 1., 1., 1.],
        [1., 1., 1.,  ..., 1., 1., 1.],
        [1., 1., 1.,  ..., 1., 1., 1.]])"""),
    ("np.zeros((300, 5), 'bool')", """\
tensor([[False, False, False, False, False],
        [False, False, False, False, False],
        [False, False, False, False, False],
        ...,
        [False, False, False, False, False],
        [False, False, False, False, False],
        [False, False, False, False, False]])"""),
    ("np.arange(1331).reshape(11, 11, 11)", """\
tensor([[[   0,    1,    2,  ...,    8,    9,   10],
         [  11,   12,   13,  ...,   19,   20,   21],
         [  22,   23,   24,  ...,   30,   31,   32],
         ...,
         [  88,   89,   90,  ...,   96,   97,   98],
         [  99,  100,  101,  ...,  107,  108,  109],
         [ 110,  111,  112,  ...,  118,  119,  120]],

        [[ 121,  122,  123,  ...,  129,  130,  131],
         [ 132,  133,  134,  ...,  140,  141,  142],
         [ 143,  144,  145,  ...,  151,  152,  153],
         ...,
         [ 209,  210,  211,  ...,  217,  218,  219],
         [ 220,  221,  222,  ...,  228,  229,  230],
         [ 231,  232,  233,  ...,  239,  240,  241]],

        [[ 242,  243,  244,  ...,  250,  251,  252],
         [ 253,  254,  255,  ...,  261,  262,  263],
         [ 264,  265,  266,  ...,  272,  273,  274],
         ...,
         [ 330,  331,  332,  ...,  338,  339,  340],
         [ 341,  342,  343,  ...,  349,  350,  351],
         [ 352,  353,  354,  ...,  360,  361,  362]],

        ...,

        [[ 968,  969,  970,  ...,  976,  977,  978],
         [ 979,  980,  981,  ...,  987,  988,  989],
         [ 990,  991,  992,  ...,  998,  999, 1000],
         ...,
         [1056, 1057, 1058,  ..., 1064, 1065, 1066],
         [1067, 1068, 1069,  ..., 1075, 1076, 1077],
         [1078, 1079, 1080,  ..., 1086, 1087, 1088]],

        [[1089, 1090, 1091,  ..., 1097, 1098, 1099],
         [1100, 1101, 1102,  ..., 1108, 1109, 1110],
         [1111, 1112, 1113,  ..., 1119, 1120, 1121],
         ...,
         [1177, 1178, 1179,  ..., 1185, 1186, 1187],
         [1188, 1189, 1190,  ..., 1196, 1197, 1198],
         [1199, 1200, 1201,  ..., 1207, 1208, 1209]],

        [[1210, 1211, 1212,  ..., 1218, 1219, 1220],
         [1221, 1222, 1223,  ..., 1229, 1230, 1231],
         [1232, 1233, 1234,  ..., 1240, 1241, 1242],
         ...,
         [1298, 1299, 1300,  ..., 1306, 1307, 1308],
         [1309, 1310, 1311,  ..., 1317, 1318, 1319],
         [1320, 1321, 1322,  ..., 1328, 1329, 1330]]])"""),
    ("np.ones((2, 1, 2, 300), 'float16')", """\
tensor([[[[1., 1., 1.,  ..., 1., 1., 1.],
          [1., 1., 1.,  ..., 1., 1., 1.]]],


        [[[1., 1., 1.,  ..., 1., 1., 1.],
          [1., 1., 1.,  ..., 1., 1., 1.]]]], dtype=torch.float16)"""),
    ("np.arange(1500) * (1 - 2j)", """\
tensor([0.0000e+00+0.0000e+00j, 1.0000e+00-2.0000e+00j, 2.0000e+00-4.0000e+00j,
         ..., 1.4970e+03-2.9940e+03j, 1.4980e+03-2.9960e+03j,
        1.4990e+03-2.9980e+03j], dtype=torch.complex128)"""),
]

GOLDEN_WITH_SUFFIXES: list[tuple[str, list[str], str]] = [
    ("np.array(0.1, 'float32')", ["requires_grad=True"], "tensor(0.1000, requires_grad=True)"),
    ("np.ones((2, 3), 'float32')", ["grad_fn=<MulBackward0>"], """\
tensor([[1., 1., 1.],
        [1., 1., 1.]], grad_fn=<MulBackward0>)"""),
    ("np.linspace(-1, 1, 9).reshape(3, 3)", ["grad_fn=<MulBackward0>"], """\
tensor([[-1.0000, -0.7500, -0.5000],
        [-0.2500,  0.0000,  0.2500],
        [ 0.5000,  0.7500,  1.0000]], dtype=torch.float64,
       grad_fn=<MulBackward0>)"""),
    ("np.zeros((0, 3), 'float16')", ["requires_grad=True"],
     "tensor([], size=(0, 3), dtype=torch.float16, requires_grad=True)"),
    ("np.linspace(0, 1, 7, dtype='float32')", ["requires_grad=True"], """\
tensor([0.0000, 0.1667, 0.3333, 0.5000, 0.6667, 0.8333, 1.0000],
       requires_grad=True)"""),
    ("np.linspace(0, 1, 8, dtype='float32')", ["requires_grad=True"], """\
tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000],
       requires_grad=True)"""),
    ("np.linspace(0, 1, 6, dtype='float64')", ["requires_grad=True"], """\
tensor([0.0000, 0.2000, 0.4000, 0.6000, 0.8000, 1.0000], dtype=torch.float64,
       requires_grad=True)"""),
    ("np.linspace(0, 1, 5, dtype='float16')", ["grad_fn=<MulBackward0>"], """\
tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000], dtype=torch.float16,
       grad_fn=<MulBackward0>)"""),
]

GOLDEN_WITH_OPTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"precision": 2}, "np.array([1.12345, -2.0], 'float32')", "tensor([ 1.12, -2.00])"),
    ({"precision": 0}, "np.array([1.5, 2.25], 'float32')", "tensor([2, 2])"),
    ({"precision": 8}, "np.array([0.1, 0.2], 'float32')", "tensor([0.10000000, 0.20000000])"),
    ({"threshold": 5}, "np.arange(10)", "tensor([0, 1, 2,  ..., 7, 8, 9])"),
    ({"threshold": 5, "edgeitems": 1}, "np.arange(24).reshape(2, 3, 4)", """\
tensor([[[ 0,  ...,  3],
         ...,
         [ 8,  ..., 11]],

        [[12,  ..., 15],
         ...,
         [20,  ..., 23]]])"""),
    ({"threshold": 5, "edgeitems": 0}, "np.arange(24).reshape(2, 3, 4)", "tensor([...], size=(2, 3, 4))"),
    ({"edgeitems": 0}, "np.array([1.0, 2.0], 'float32')", "tensor([1., 2.], size=(2,))"),
    ({"linewidth": 20}, "np.arange(12)", """\
tensor([ 0,  1,  2,
         3,  4,  5,
         6,  7,  8,
         9, 10, 11])"""),
    ({"linewidth": 12}, "np.ones(3)", """\
tensor([1.,
        1.,
        1.],
       dtype=torch.float64)"""),
    ({"profile": "short"}, "np.arange(2000) / 3",
     "tensor([0.00e+00, 3.33e-01,  ..., 6.66e+02, 6.66e+02], dtype=torch.float64)"),
    ({"profile": "short", "precision": 6}, "np.arange(3) / 3",
     "tensor([0.000000, 0.333333, 0.666667], dtype=torch.float64)"),
    ({"profile": "full", "linewidth": 70}, "np.zeros(33)", """\
tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.,
        0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.],
       dtype=torch.float64)"""),
    ({"sci_mode": True}, "np.array([-1.5, 100.25, 0.0], 'float32')",
     "tensor([-1.5000e+00,  1.0025e+02,  0.0000e+00])"),
    ({"sci_mode": True}, "np.array([1.0, -2.0], 'float32')", "tensor([ 1.0000e+00, -2.0000e+00])"),
    ({"sci_mode": True}, "np.array([0.0, nan], 'float32')", "tensor([0., nan])"),
    ({"sci_mode": False}, "np.array([1e-8, 1e8, -3e9], 'float32')",
     "tensor([          0.0000,   100000000.0000, -3000000000.0000])"),
    ({"sci_mode": False}, "np.array([1.0, 1e8, -3e9], 'float32')",
     "tensor([          1.,   100000000., -3000000000.])"),
]
# fmt: on


@pytest.fixture(autouse=True)
def _restored_options() -> Iterator[None]:
    before = get_default_dtype()
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")
    set_default_dtype(before)


def array_from(expression: str) -> np.ndarray[Any, Any]:
    return np.asarray(eval(expression, NAMES_IN_GOLDEN))


# ---- recorded ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expression", "expected"), GOLDEN, ids=[case[0] for case in GOLDEN])
def test_golden(expression: str, expected: str) -> None:
    assert format_tensor(array_from(expression)) == expected


@pytest.mark.parametrize(("expression", "suffixes", "expected"), GOLDEN_WITH_SUFFIXES)
def test_golden_with_suffixes(expression: str, suffixes: list[str], expected: str) -> None:
    assert format_tensor(array_from(expression), suffixes) == expected


@pytest.mark.parametrize(("options", "expression", "expected"), GOLDEN_WITH_OPTIONS, ids=str)
def test_golden_with_options(options: dict[str, Any], expression: str, expected: str) -> None:
    with printoptions(**options):
        assert format_tensor(array_from(expression)) == expected


def test_the_default_dtype_decides_which_dtype_is_shown() -> None:
    set_default_dtype(float64)
    assert format_tensor(np.array([0.5])) == "tensor([0.5000])"
    assert format_tensor(np.array([0.5j])) == "tensor([0.+0.5000j])"
    assert format_tensor(np.array([0.5], "float32")) == "tensor([0.5000], dtype=torch.float32)"
    assert format_tensor(np.zeros(0, "float32")) == "tensor([], dtype=torch.float32)"


def test_a_prefix_sets_the_indentation() -> None:
    rows = np.array([[1, 2], [3, 4]])
    assert format_tensor(rows, prefix="Buffer(") == "Buffer([[1, 2],\n        [3, 4]])"
    assert format_tensor(rows, prefix="p(") == "p([[1, 2],\n   [3, 4]])"


def test_a_transposed_array_prints_as_its_copy() -> None:
    array = np.arange(3000.0).reshape(50, 60).T
    assert format_tensor(array) == format_tensor(array.copy())


@pytest.mark.parametrize(
    ("array", "specification", "expected"),
    [
        (np.array(0.1, "float32"), "", "0.10000000149011612"),
        (np.array(0.1, "float32"), ".2f", "0.10"),
        (np.array(0.1, bfloat16.numpy), "", "0.10009765625"),
        (np.array(0.1, bfloat16.numpy), ".1e", "1.0e-01"),
        (np.array(0.1, "float16"), "8.3f", "   0.100"),
        (np.array(3), "", "3"),
        (np.array(3, "uint8"), ">5", "    3"),
        (np.array(True), "", "True"),
        (np.array(1 + 2j), "", "(1+2j)"),
    ],
)
def test_format_scalar(array: np.ndarray[Any, Any], specification: str, expected: str) -> None:
    assert format_scalar(array, specification) == expected


def test_format_scalar_refuses_dimensions() -> None:
    with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor\.__format__"):
        format_scalar(np.ones(1), ".2f")


# ---- options -----------------------------------------------------------------------------------------

DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


def test_options_persist_but_sci_mode_does_not() -> None:
    assert get_printoptions() == DEFAULTS
    set_printoptions(precision=2, sci_mode=True)
    assert get_printoptions() == DEFAULTS | {"precision": 2, "sci_mode": True}
    set_printoptions(linewidth=100)
    assert get_printoptions() == DEFAULTS | {"precision": 2, "linewidth": 100}
    set_printoptions(profile="unknown")
    assert get_printoptions() == DEFAULTS | {"precision": 2, "linewidth": 100}


def test_profiles() -> None:
    set_printoptions(profile="short")
    assert get_printoptions() == DEFAULTS | {"precision": 2, "edgeitems": 2}
    set_printoptions(profile="full", precision=7)
    assert get_printoptions() == DEFAULTS | {"threshold": math.inf, "precision": 7}
    set_printoptions(profile="default")
    assert get_printoptions() == DEFAULTS


def test_the_context_restores_the_options_even_after_an_error() -> None:
    set_printoptions(precision=6, sci_mode=True)
    before = get_printoptions()
    with printoptions(precision=1):
        assert get_printoptions() == DEFAULTS | {"precision": 1}
    assert get_printoptions() == before
    with pytest.raises(ZeroDivisionError), printoptions(precision=1):
        1 / 0
    assert get_printoptions() == before


# ---- against torch -----------------------------------------------------------------------------------

SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs the torch oracle: pip install torch==2.13.0")


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """Draw 0 to 4 dimensions: small ones, or enough of them to be summarised."""
    if draw(st.booleans()):
        return tuple(draw(st.lists(st.integers(0, 7), max_size=4)))
    return draw(st.sampled_from([(1001,), (40, 40), (3, 500), (500, 3), (11, 12, 13), (6, 6, 6, 6), (2, 8, 9, 8)]))


def draw_reals(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Draw numbers spread over some of the magnitudes 1e-8 to 1e8, perhaps whole, perhaps with specials."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    low, high = sorted(draw(st.tuples(st.integers(-8, 8), st.integers(-8, 8))))
    numbers = np.asarray(random.standard_normal(shape) * 10.0 ** random.uniform(low, high, shape))
    if draw(st.booleans()):
        numbers = np.rint(numbers)
    share = draw(st.sampled_from([0.0, 0.1, 1.0]))
    return np.where(random.random(shape) < share, random.choice(SPECIAL, shape), numbers)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Draw an array of any of our types."""
    of: dtype = draw(st.sampled_from([each for each in ALL_DTYPES if each is not float8_e8m0fnu]))  # has no sign
    shape = draw(shapes())
    reals = draw_reals(draw, shape)
    with np.errstate(over="ignore"):  # float16 turns what is too large into inf
        if of.is_complex:
            parts = np.stack([reals, draw_reals(draw, shape)], axis=-1)
            return parts.astype(of.to_real().numpy).view(of.numpy).reshape(shape)
        if of.is_floating_point:
            return reals.astype(of.numpy)
    whole: np.ndarray[Any, Any] = np.array(np.nan_to_num(reals, posinf=7, neginf=-7), np.int64)
    return whole.astype(of.numpy)


@st.composite
def print_options(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the defaults half of the time, else any mixture of options."""
    if draw(st.booleans()):
        return {}
    choices: dict[str, st.SearchStrategy[Any]] = {
        "precision": st.integers(0, 8),
        "threshold": st.sampled_from([0, 5, 100, 1000]),
        "edgeitems": st.integers(0, 5),
        "linewidth": st.sampled_from([1, 10, 40, 80, 120]),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    }
    return {name: draw(values) for name, values in choices.items() if draw(st.booleans())}


def as_torch(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == bfloat16.numpy:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    if array.dtype in FLOAT8:
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


@pytest.mark.torch
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(array=arrays(), options=print_options(), requires_grad=st.booleans())
def test_prints_as_torch(torch: Any, array: np.ndarray[Any, Any], options: dict[str, Any], requires_grad: bool) -> None:
    tensor = as_torch(torch, array)
    suffixes = []
    if requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.requires_grad_().clone()
        suffixes.append("grad_fn=<CloneBackward0>")
    with torch._tensor_str.printoptions(**options):
        expected = repr(tensor)
    with printoptions(**options):
        assert format_tensor(array, suffixes) == expected
