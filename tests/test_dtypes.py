"""The vocabulary of types: golden answers that need no torch, and every pair against torch when present."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid import dtypes
from pellucid.dtypes import (
    ALL_DTYPES,
    DTYPE_NAMES,
    FLOAT8,
    Size,
    as_dtype,
    as_numpy_dtype,
    bfloat16,
    bool_,
    can_cast,
    check_device,
    chosen_device,
    complex64,
    complex128,
    default_complex,
    default_float,
    device,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    from_numpy_dtype,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    on_meta,
    promote,
    promote_two,
    promote_types,
    result_type,
    set_default_dtype,
    trusted_size,
    uint8,
    uint16,
    uint32,
    uint64,
)

FLOATING = (float16, bfloat16, float32, float64)
SCALARS = (True, 3, 2.5, 1j)
PICKLE_PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
NAMED_CONSTANTS = (
    "strided",
    "sparse_coo",
    "contiguous_format",
    "preserve_format",
    "channels_last",
    "channels_last_3d",
)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs the torch oracle: pip install torch==2.13.0")


@pytest.fixture(autouse=True)
def _restored_default() -> Iterator[None]:
    before = get_default_dtype()
    yield
    set_default_dtype(before)


def outcome(compute: Callable[..., Any], *arguments: Any) -> str:
    """Return what a call gives, as text: the repr of its result, or its error."""
    try:
        return repr(compute(*arguments))
    except (RuntimeError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"


# ---- dtype ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "shown", "itemsize", "floating", "complex_", "signed"),
    [
        (float16, "torch.float16", 2, True, False, True),
        (bfloat16, "torch.bfloat16", 2, True, False, True),
        (float32, "torch.float32", 4, True, False, True),
        (float64, "torch.float64", 8, True, False, True),
        (complex64, "torch.complex64", 8, False, True, True),
        (complex128, "torch.complex128", 16, False, True, True),
        (uint8, "torch.uint8", 1, False, False, False),
        (int8, "torch.int8", 1, False, False, True),
        (int64, "torch.int64", 8, False, False, True),
        (uint32, "torch.uint32", 4, False, False, False),
        (bool_, "torch.bool", 1, False, False, False),
    ],
)
def test_attributes(of: dtype, shown: str, itemsize: int, floating: bool, complex_: bool, signed: bool) -> None:
    assert repr(of) == str(of) == shown
    assert (of.itemsize, of.is_floating_point, of.is_complex, of.is_signed) == (
        itemsize,
        floating,
        complex_,
        signed,
    )
    assert of.numpy.itemsize == itemsize


def test_aliases_are_the_same_object() -> None:
    assert DTYPE_NAMES["float"] is float32
    assert DTYPE_NAMES["int"] is int32
    assert DTYPE_NAMES["bool"] is bool_
    assert dtypes.half is float16
    assert dtypes.double is float64
    assert dtypes.short is int16
    assert dtypes.long is int64
    assert dtypes.cfloat is complex64
    assert dtypes.cdouble is complex128


@pytest.mark.parametrize("of", ALL_DTYPES, ids=str)
def test_a_dtype_copies_and_pickles_to_itself(of: dtype) -> None:
    assert copy.copy(of) is of
    assert copy.deepcopy({"dtype": of})["dtype"] is of
    for protocol in PICKLE_PROTOCOLS:
        assert pickle.loads(pickle.dumps(of, protocol)) is of


def test_a_dtype_is_hashable_and_immutable() -> None:
    assert len(set(ALL_DTYPES)) == len(ALL_DTYPES) == 20
    with pytest.raises(AttributeError, match="not writable"):
        float32.itemsize = 3
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        float32.x = 3
    with pytest.raises(TypeError, match=r"cannot create 'torch\.dtype' instances"):
        dtype()


def test_real_and_complex_counterparts() -> None:
    assert complex128.to_real() is float64
    assert float16.to_real() is float16
    assert int64.to_real() is int64
    assert bfloat16.to_complex() is complex64
    assert complex64.to_complex() is complex64
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Int"):
        int32.to_complex()


@pytest.mark.parametrize("of", ALL_DTYPES, ids=str)
def test_numpy_dtypes_go_there_and_back(of: dtype) -> None:
    assert from_numpy_dtype(of.numpy) is of
    assert from_numpy_dtype(np.ones(2, of.numpy).dtype) is of
    assert as_numpy_dtype(of) == of.numpy


def test_c_long_long_is_int64() -> None:
    assert from_numpy_dtype(np.dtype(np.longlong)) is int64
    assert from_numpy_dtype(np.dtype(np.ulonglong)) is uint64


@pytest.mark.parametrize(
    ("unsupported", "hint"),
    [
        (np.dtype(object), "unequal length"),
        (np.dtype("U3"), "Encode strings"),
        (np.dtype([("a", "f4")]), r"array\['field'\]"),
        (np.dtype("M8[s]"), "Convert dates"),
        (np.dtype(">f4" if np.little_endian else "<f4"), "byte order"),
    ],
    ids=str,
)
def test_unsupported_numpy_dtypes_are_explained(unsupported: np.dtype[Any], hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        from_numpy_dtype(unsupported)


def test_the_error_lists_what_is_supported() -> None:
    with pytest.raises(TypeError, match=r"numpy\.object_\. The only supported types are: bool, uint8.*bfloat16"):
        from_numpy_dtype(np.dtype(object))


def test_python_types_name_the_wide_types() -> None:
    assert [as_dtype(each) for each in (float, int, bool, complex)] == [float64, int64, bool_, complex128]
    assert as_numpy_dtype(np.float32) == np.dtype("float32")
    for wrong in ("float32", 3, str, None):
        with pytest.raises(TypeError, match="dtype must be"):
            as_dtype(wrong)


# ---- the default -----------------------------------------------------------------------------------


def test_default_dtype() -> None:
    assert get_default_dtype() is float32
    assert (default_float(), default_complex()) == (np.dtype("float32"), np.dtype("complex64"))
    set_default_dtype(float64)
    assert (default_float(), default_complex()) == (np.dtype("float64"), np.dtype("complex128"))
    assert promote([np.ones(2, "int32"), 2.5]) == promote_two(np.ones(2, "int32"), 2.5) == np.dtype("float64")
    set_default_dtype(bfloat16)
    assert (default_float(), default_complex()) == (bfloat16.numpy, np.dtype("complex64"))
    assert promote_two(np.ones(2, "int32"), 2.5) == bfloat16.numpy


@pytest.mark.parametrize("wrong", [int32, complex64, bool_, float, "float32"])
def test_only_floating_types_can_be_the_default(wrong: Any) -> None:
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        set_default_dtype(wrong)
    assert get_default_dtype() is float32


# ---- promotion -------------------------------------------------------------------------------------

GOLDEN_PROMOTIONS = [
    (bool_, uint8, uint8),
    (bool_, float16, float16),
    (uint8, int8, int16),
    (uint8, int16, int16),
    (uint8, int64, int64),
    (int8, int32, int32),
    (int64, float16, float16),
    (int64, bfloat16, bfloat16),
    (float16, bfloat16, float32),
    (bfloat16, float32, float32),
    (float32, float64, float64),
    (float16, complex64, complex64),
    (float64, complex64, complex128),
    (int64, complex64, complex64),
    (complex64, complex128, complex128),
    (uint16, float32, float32),
    (uint64, uint64, uint64),
]


@pytest.mark.parametrize(("left", "right", "expected"), GOLDEN_PROMOTIONS)
def test_promotion_golden(left: dtype, right: dtype, expected: dtype) -> None:
    assert promote_types(left, right) is expected
    assert promote_types(right, left) is expected


def test_promotion_of_wide_unsigned_types_is_refused() -> None:
    message = "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Int"
    with pytest.raises(RuntimeError, match=message):
        promote_types(uint16, int32)
    for other in (bool_, uint8, uint32, complex64):
        with pytest.raises(RuntimeError):
            promote_types(uint16, other)


GOLDEN_OPERANDS: list[tuple[list[Any], str]] = [
    ([np.ones(2, "float32"), np.array(1.0)], "float32"),
    ([np.ones(2, "float16"), np.array(1.0)], "float16"),
    ([np.ones(2, "int32"), np.array(1.0)], "float64"),
    ([np.ones(2, "int32"), 1.0], "float32"),
    ([np.ones(2, "int8"), 300], "int8"),
    ([np.ones(2, "bool"), 1], "int64"),
    ([np.ones(2, "bool"), np.array(1, "int8")], "int8"),
    ([np.ones(2, "bool"), True], "bool"),
    ([np.ones(2, "uint8"), np.array(-1, "int64")], "uint8"),
    ([np.ones(2, "float64"), 1j], "complex128"),
    ([np.ones(2, "float32"), np.array(1j)], "complex64"),
    ([np.array(1, "int8"), 2.0], "float32"),
    ([np.array(1, "int8"), np.array(1, "int16")], "int16"),
    ([np.ones(2, "int8"), np.ones(2, "uint8"), np.array(1.0, "float16")], "float16"),
    ([np.ones(2, "float32"), np.float64(2.0)], "float32"),
    ([np.ones(2, "int32"), np.float64(2.0)], "float32"),
    ([np.ones(2, "int8"), np.int64(2)], "int8"),
    ([1, 2.5], "float32"),
    ([True, False], "bool"),
    ([1, 1j], "complex64"),
    ([3], "int64"),
]


@pytest.mark.parametrize(("given", "expected"), GOLDEN_OPERANDS, ids=str)
def test_promotion_of_operands_golden(given: list[Any], expected: str) -> None:
    assert promote(given) == np.dtype(expected)
    assert result_type(*given) is from_numpy_dtype(np.dtype(expected))
    if len(given) == 2:
        assert promote_two(*given) == promote_two(*given[::-1]) == np.dtype(expected)


def test_promotion_reads_tensors_with_our_dtype() -> None:
    class Tensor:
        dtype = bfloat16
        ndim = 1

    assert result_type(Tensor(), 2.5, np.array(1.0)) is bfloat16


def test_promotion_refuses_other_operands() -> None:
    with pytest.raises(TypeError, match="expected a tensor or a Python number, not str"):
        promote([np.ones(2), "a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="at least one"):
        promote([])


def test_can_cast_golden() -> None:
    assert can_cast(float64, float32)
    assert can_cast(int8, uint8)
    assert can_cast(bool_, complex64)
    assert not can_cast(float16, int64)
    assert not can_cast(complex64, float64)
    assert not can_cast(uint8, bool_)


def quick_result_type(left: Any, right: Any) -> dtype:
    return from_numpy_dtype(promote_two(left, right))


# ---- against torch ---------------------------------------------------------------------------------


def torch_dtype(torch: Any, of: dtype) -> Any:
    return getattr(torch, of.name)


@pytest.mark.torch
def test_every_pair_promotes_and_casts_as_in_torch(torch: Any) -> None:
    for left, right in itertools.product(ALL_DTYPES, repeat=2):
        theirs = torch_dtype(torch, left), torch_dtype(torch, right)
        assert outcome(promote_types, left, right) == outcome(torch.promote_types, *theirs)
        assert can_cast(left, right) == torch.can_cast(*theirs)


@pytest.mark.torch
@pytest.mark.parametrize("default", FLOATING, ids=str)
def test_every_class_of_operand_promotes_as_in_torch(torch: Any, default: dtype) -> None:
    ours: list[Any] = [*SCALARS]
    theirs: list[Any] = [*SCALARS]
    for of, shape in itertools.product(ALL_DTYPES, [(2,), ()]):
        ours.append(np.ones(shape, of.numpy))
        theirs.append(torch.ones(shape, dtype=torch_dtype(torch, of)))
    set_default_dtype(default)
    torch.set_default_dtype(torch_dtype(torch, default))
    try:
        pairs = zip(itertools.product(ours, repeat=2), itertools.product(theirs, repeat=2))
        for our_pair, their_pair in pairs:
            # NumPy has no complex32: where torch gives it, we give complex64.
            expected = outcome(torch.result_type, *their_pair).replace("complex32", "complex64")
            assert outcome(result_type, *our_pair) == expected, our_pair
            assert outcome(quick_result_type, *our_pair) == expected, our_pair
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.torch
def test_attributes_and_limits_as_in_torch(torch: Any) -> None:
    for of in ALL_DTYPES:
        theirs = torch_dtype(torch, of)
        for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
            assert getattr(of, attribute) == getattr(theirs, attribute)
        assert repr(of.to_real()) == repr(theirs.to_real())
        ours = outcome(of.to_complex)
        assert ours == outcome(theirs.to_complex).replace("complex32", "complex64")
        info, their_info = (finfo, torch.finfo) if of.is_floating_point or of.is_complex else (iinfo, torch.iinfo)
        assert outcome(info, of) == outcome(their_info, theirs)
        if of is bool_:
            continue
        for attribute in ("bits", "max", "min", "dtype"):
            assert getattr(info(of), attribute) == getattr(their_info(theirs), attribute)
        if info is finfo:
            for attribute in ("eps", "tiny", "smallest_normal", "resolution"):
                assert getattr(finfo(of), attribute) == getattr(torch.finfo(theirs), attribute)


DEVICE_ARGUMENTS: list[tuple[Any, ...]] = [
    ("cpu",),
    ("cpu", 0),
    ("cpu:0",),
    ("cpu:1",),
    ("cpu", None),
    ("cuda",),
    ("cuda:3",),
    ("mps",),
    ("xpu",),
    ("meta",),
    ("cuda", -1),
    ("cuda:-1",),
    ("cuda:01",),
    ("cuda:",),
    ("cuda:1:2",),
    ("cuda:a",),
    ("",),
    ("gpu",),
    ("foo:1",),
    ("CPU",),
    ("cpu:0", 0),
    (0,),
    (-1,),
]


@pytest.mark.torch
@pytest.mark.parametrize("arguments", DEVICE_ARGUMENTS, ids=str)
def test_devices_as_in_torch(torch: Any, arguments: tuple[Any, ...]) -> None:
    if arguments == (0,) and torch.accelerator.is_available():
        pytest.skip("the oracle has an accelerator to give the number 0 to")
    assert outcome(device, *arguments) == outcome(torch.device, *arguments)
    assert outcome(lambda: str(device(*arguments))) == outcome(lambda: str(torch.device(*arguments)))


SIZE_EXPRESSIONS = [
    "Size([2, 3])",
    "Size()",
    "Size(range(3))",
    "Size((2, 3))[1:]",
    "Size((2, 3))[-1]",
    "Size((2, 3, 4))[::-2]",
    "Size((2, 3)) + (4,)",
    "(4,) + Size((2, 3))",
    "Size((2, 3)) + Size([1])",
    "Size((2, 3)) + [4]",
    "Size((2, 3)) + (1.5,)",
    "Size((2, 3)) * 2",
    "2 * Size((2, 3))",
    "Size((2, 3)) * 0",
    "Size((2, 3)).numel()",
    "Size(()).numel()",
    "Size((2, 0)).numel()",
    "Size([2, 2.5])",
    "Size(['a'])",
    "Size([True])",
    "Size([np.int64(3)])",
    "Size(3)",
    "Size([2, 3]) == (2, 3)",
    "Size([2, 3]) == [2, 3]",
    "hash(Size([2, 3])) == hash((2, 3))",
    "Size([2, 3]).index(3)",
    "type(Size([2, 3])[:]).__name__",
    "str(Size([2, 3]))",
]


@pytest.mark.torch
@pytest.mark.parametrize("expression", SIZE_EXPRESSIONS)
def test_sizes_as_in_torch(torch: Any, expression: str) -> None:
    ours = outcome(lambda: eval(expression, {"Size": Size, "np": np}))
    assert ours == outcome(lambda: eval(expression, {"Size": torch.Size, "np": np}))


@pytest.mark.torch
def test_constants_print_as_in_torch(torch: Any) -> None:
    for name in NAMED_CONSTANTS:
        assert repr(getattr(dtypes, name)) == repr(getattr(torch, name))


# ---- limits ----------------------------------------------------------------------------------------


def test_limits_golden() -> None:
    assert repr(finfo(float32)) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, "
        "smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)"
    )
    assert finfo() == finfo(float32) == finfo(complex64) != finfo(float64)
    assert finfo(float).eps == math.ulp(1.0)
    assert finfo(bfloat16).max == 3.3895313892515355e38
    assert repr(iinfo(int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    assert iinfo(uint64).max == 2**64 - 1
    assert type(iinfo(int8).max) is int
    assert pickle.loads(pickle.dumps(finfo(float16))) == finfo(float16)
    with pytest.raises(TypeError, match=r"Use torch\.iinfo to handle 'torch\.int32'"):
        finfo(int32)
    with pytest.raises(TypeError, match=r"Use torch\.finfo to handle 'torch\.float32'"):
        iinfo(float32)
    with pytest.raises(TypeError, match=r"torch\.bool is not supported"):
        iinfo(bool_)


# ---- devices ---------------------------------------------------------------------------------------


def test_device_golden() -> None:
    assert repr(device("cpu")) == "device(type='cpu')"
    assert repr(device("cpu", 0)) == repr(device("cpu:0")) == "device(type='cpu', index=0)"
    assert str(device("cuda:1")) == "cuda:1"
    assert device("cpu") == device("cpu") != device("cpu:0")
    assert device("cpu") != "cpu"
    assert hash(device("cuda", 1)) == hash(device("cuda:1"))
    assert device(device("cuda:1")) == device("cuda:1")
    assert pickle.loads(pickle.dumps(device("cuda:1"))) == copy.deepcopy(device("cuda:1")) == device("cuda:1")
    with pytest.raises(AttributeError):
        device("cpu").type = "cuda"
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda, .* at start of device string: gpu"):
        device("gpu")
    with pytest.raises(TypeError):
        device(1.5)  # type: ignore[arg-type]


def test_tensors_live_on_the_cpu() -> None:
    for same in (None, "cpu", "cpu:0", device("cpu"), device("cpu", 1)):
        assert check_device(same) == device("cpu")
    with device("cpu") as entered:
        assert entered == device("cpu")
    with device("meta"):
        assert on_meta(None) and on_meta("meta") and not on_meta("cpu") and chosen_device() == device("meta")
        with device("cpu"):
            assert not on_meta(None)
    assert not on_meta(None) and check_device("meta") == device("meta")
    for elsewhere in ("cuda", "cuda:0", "mps", "xpu"):
        kind = AssertionError if str(elsewhere).startswith("cuda") else RuntimeError  # as PyTorch's build for the CPU
        with pytest.raises(kind, match=r"Pellucid runs on the CPU only.*Write device='cpu'"):
            check_device(elsewhere)
    with pytest.raises(TypeError, match=r"must be torch\.device, not float"):
        check_device(1.5)  # type: ignore[arg-type]


# ---- sizes and constants -----------------------------------------------------------------------------


def test_size_golden() -> None:
    size = Size([2, 3])
    assert repr(size) == str(size) == "torch.Size([2, 3])"
    assert size.numel() == 6
    assert repr(size[1:] + Size([4])) == "torch.Size([3, 4])"
    assert repr(size.__radd__((4,))) == "torch.Size([4, 2, 3])"
    assert repr(2 * size) == "torch.Size([2, 3, 2, 3])"
    assert type(size[0]) is int
    assert type(trusted_size((2, 3))) is Size
    for protocol in PICKLE_PROTOCOLS:
        loaded = pickle.loads(pickle.dumps(size, protocol))
        assert type(loaded) is Size
        assert loaded == size
    assert type(copy.deepcopy(size)) is Size
    with pytest.raises(TypeError, match=r"takes an iterable of 'int' \(item 1 is 'float'\)"):
        Size([2, 2.5])  # type: ignore[list-item]


@pytest.mark.parametrize("name", NAMED_CONSTANTS)
def test_named_constants(name: str) -> None:
    constant = getattr(dtypes, name)
    assert repr(constant) == f"torch.{name}"
    assert copy.deepcopy(constant) is constant
    assert pickle.loads(pickle.dumps(constant)) is constant
    with pytest.raises(TypeError, match="cannot create"):
        type(constant)("mine")


# ---- the dtype of an output --------------------------------------------------------------------------

# One operation of each rule (core/inplace's OUT_RULES), and one whose rule differs from its family's.
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "converts what it computed": lambda torch, x, out: torch.exp(x, out=out),
    "converts the sum": lambda torch, x, out: torch.add(x, 1, out=out),
    "rounds as it is": lambda torch, x, out: torch.floor(x, out=out),
    "tells truth only": lambda torch, x, out: torch.signbit(x, out=out),
    "factors as it is": lambda torch, x, out: torch.linalg.inv(x, out=out),
    "factors and converts": lambda torch, x, out: torch.linalg.pinv(x, out=out),
    "multiplies as it is": lambda torch, x, out: torch.matmul(x, x, out=out),
    "gathers as it is": lambda torch, x, out: torch.take(x, torch.tensor([0, 1]), out=out),
    "sums in the output's dtype": lambda torch, x, out: torch.cumsum(x, 0, out=out),
    "sums in the dtype asked for": lambda torch, x, out: torch.sum(x, 0, dtype=torch.float64, out=out),
    "means of floats only": lambda torch, x, out: torch.mean(x, 0, out=out),
    "real numbers only": lambda torch, x, out: torch.fft.irfft(x, out=out),
    "floating only": lambda torch, x, out: torch.logsumexp(x, 0, out=out),
    "the largest converts": lambda torch, x, out: torch.max(x, out=out),
    "joins and converts": lambda torch, x, out: torch.stack([x, x], out=out),
    "creates as it was told": lambda torch, x, out: torch.ones(2, dtype=torch.float32, out=out),
    "counts in the output's dtype": lambda torch, x, out: torch.arange(3, out=out),
    "an activation": lambda torch, x, out: torch.nn.functional.softplus(x, out=out),
}


@pytest.mark.parametrize("what", WRITES)
def test_which_dtypes_an_output_may_have(torch: Any, what: str) -> None:
    import pellucid

    def written(library: Any, kind: str) -> Any:
        out = library.zeros(0, dtype=getattr(library, kind))
        try:
            WRITES[what](library, library.tensor([[2.5, 1.0], [1.0, 3.25]]), out)
        except (RuntimeError, TypeError):
            return "refused"
        return out.to(library.complex128).tolist()

    for kind in ("float16", "float32", "float64", "int64", "bool", "complex64"):
        expected, found = written(torch, kind), written(pellucid, kind)
        assert (expected == "refused") == (found == "refused"), (kind, expected, found)
        if expected != "refused":
            assert np.allclose(expected, found, 1e-3), kind


@pytest.mark.parametrize("name", ["cat", "stack", "hstack", "vstack", "dstack", "column_stack"])
def test_an_output_that_cannot_hold_what_is_joined(torch: Any, name: str) -> None:
    import pellucid

    for library in (torch, pellucid):
        out = library.zeros(0, dtype=library.int64)
        with pytest.raises(TypeError, match="input types can't be cast to the desired output type Long"):
            getattr(library, name)([library.ones(2), library.ones(2)], out=out)


def test_a_pair_is_written_as_it_is(torch: Any) -> None:
    import pellucid

    for library in (torch, pellucid):
        for values, indices in ((library.float64, library.int64), (library.float32, library.int32)):
            outs = (library.zeros(2, dtype=values), library.zeros(2, dtype=indices))
            with pytest.raises(RuntimeError, match=r"dtype|type"):
                library.max(library.ones(2, 2), 0, out=outs)
            assert not outs[0].any()


@pytest.mark.parametrize("name", ["sum", "nansum", "prod"])
def test_sums_have_the_dtype_asked_for(torch: Any, name: str) -> None:
    import pellucid

    def found(library: Any, kind: str) -> Any:
        y = getattr(library, name)(library.tensor([200, 100]), 0, dtype=getattr(library, kind))
        return str(y.dtype), y.tolist()

    for kind in ("uint8", "int8", "int16", "int32", "int64", "bool"):
        assert found(pellucid, kind) == found(torch, kind)


# ---- halves and numbers ------------------------------------------------------------------------------


BESIDE_NUMBERS = """
x * s | s * x | x / s | s / x | x * z | z * x | x / z | x * 3 | x + s | s - x | x ** s | x ** 0.37 | s ** x
lib.add(x, x, alpha=s) | lib.sub(x, x, alpha=s) | lib.add(x, s, alpha=1.7) | x.clone().mul_(s) | x.clone().div_(s)
x.clone().add_(x, alpha=s) | lib._foreach_mul([x], s)[0] | x[:1].sum() * s | s * x[:1].sum()
"""


@pytest.mark.parametrize(
    "form", [form.strip() for form in BESIDE_NUMBERS.replace("\n", "|").split("|") if form.strip()]
)
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_halves_meet_numbers_to_the_bit(torch: Any, kind: str, form: str) -> None:
    import pellucid

    found = []  # 384 numbers: what is left over after whole vectors PyTorch rounds at every step
    values = np.random.RandomState(0).rand(384).astype(np.float32) + 0.5
    for lib in (pellucid, torch):
        x = lib.tensor(values).to(getattr(lib, kind)).requires_grad_()
        y = eval(form, {"lib": lib, "x": x, "s": 3.4445, "z": lib.tensor(3.4445)})
        gradient = lib.autograd.grad(y.sum(), x)[0]
        exact = "**" not in form and "alpha" not in form  # the slopes of these are made of several steps
        found.append([part.detach().float().numpy() for part in ((y, gradient) if exact else (y,))])
        assert str(y.dtype) == str(gradient.dtype) == f"torch.{kind}"
    for mine, its in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_products_of_halves_and_numbers_have_higher_derivatives() -> None:
    import pellucid

    x = pellucid.ones(3, dtype=pellucid.bfloat16, requires_grad=True)
    (first,) = pellucid.autograd.grad((x * 3.4445 * x).sum(), x, create_graph=True)
    (second,) = pellucid.autograd.grad(first.sum(), x)
    assert first.dtype == second.dtype == pellucid.bfloat16
    assert second.float().tolist() == [6.875, 6.875, 6.875]  # 2 * 3.4445, rounded


@pytest.mark.torch
@pytest.mark.parametrize("of", sorted(FLOAT8, key=str), ids=str)
def test_eight_bits_are_rounded_to_as_in_torch(torch: Any, of: np.dtype[Any]) -> None:
    random = np.random.default_rng(0)
    every = random.integers(0, 2**32, 200_000, np.uint32)  # all bit patterns, NaN and infinities among them
    ties = np.arange(0x1_0000, dtype=np.uint32) << 16
    wide = np.concatenate([every, ties, ties + 1, ties - 1]).view(np.float32)
    with np.errstate(all="ignore"):
        sources = [wide, wide.astype(np.float64), wide.astype(np.float16), np.arange(-600, 600)]
    for source in sources:
        theirs = torch.from_numpy(source).to(getattr(torch, of.name)).view(torch.uint8).numpy()
        ours = pellucid.from_numpy(source).to(getattr(pellucid, of.name)).view(pellucid.uint8).numpy()
        kept = ~np.isnan(source)  # which of its NaNs is nobody's concern
        np.testing.assert_array_equal(ours[kept], theirs[kept])


@pytest.mark.torch
@pytest.mark.parametrize("of", sorted(FLOAT8, key=str), ids=str)
def test_eight_bits_are_read_as_in_torch(torch: Any, of: np.dtype[Any]) -> None:
    every = np.arange(256, dtype=np.uint8)
    for goal in ("float32", "float64", "float16", "bfloat16", "bool", "complex64"):
        theirs = torch.from_numpy(every).view(getattr(torch, of.name)).to(getattr(torch, goal))
        ours = pellucid.from_numpy(every).view(getattr(pellucid, of.name)).to(getattr(pellucid, goal))
        wide = "complex64" if goal == "complex64" else "float32"
        np.testing.assert_array_equal(ours.to(getattr(pellucid, wide)).numpy(), theirs.to(getattr(torch, wide)).numpy())


@pytest.mark.torch
@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "entr", "logit", "cube"])
def test_bfloat16_is_rounded_on_the_way_as_in_torch(torch: Any, name: str) -> None:
    every = np.arange(65536, dtype=np.uint16)
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "xlogy": lambda library, x: library.xlogy(x, x.flip(0).abs()),
        "xlog1py": lambda library, x: library.special.xlog1py(x, x.flip(0).abs()),
        "entr": lambda library, x: library.special.entr(x),
        "logit": lambda library, x: library.logit(x),
        "cube": lambda library, x: x**3,
    }
    theirs = calls[name](torch, torch.from_numpy(every.view(np.int16)).view(torch.bfloat16)).float().numpy()
    with np.errstate(all="ignore"):
        ours = calls[name](pellucid, pellucid.from_numpy(every).view(pellucid.bfloat16)).float().numpy()
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.torch
@pytest.mark.parametrize("shapes", [((2,), ()), ((), ()), ((2, 3), (1,)), ((2,), (2,))])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_half_and_a_count_in_a_tensor_are_multiplied_and_divided_in_single_precision(shapes, dtype, torch):
    """A count of more than 65504 elements is no infinity: nanmean divides by one."""
    for operator in (lambda a, b: a / b, lambda a, b: a * 0.001 * b):
        found, expected = (
            operator(lib.ones(shapes[0], dtype=getattr(lib, dtype)), lib.full(shapes[1], 133_222))
            for lib in (pellucid, torch)
        )
        assert str(found.dtype) == str(expected.dtype)
        assert found.tolist() == expected.tolist()
