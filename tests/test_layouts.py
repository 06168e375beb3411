"""Trust T11, the rest: byte orders, unaligned memory, arrays that are no numbers, and memory that may not be written.

The claims (pellucid.testing.claims) hold every operation to its word in Fortran order, with gaps, backwards, expanded
and read-only by flag. Here the memory itself is unaligned, or locked by the system.
"""

import mmap
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.testing import claims

DISTINCT = claims.distinct_operations()
WIDE = ["int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]

# --- byte order


def swapped(name: str) -> np.ndarray:
    """0 to 5 in the byte order of the other kind of machine."""
    return np.arange(6).reshape(2, 3).astype(np.dtype(name).newbyteorder())


@pytest.mark.parametrize("name", WIDE)
def test_a_copy_has_the_native_byte_order(name: str) -> None:
    x = pellucid.tensor(swapped(name))
    assert x.dtype is getattr(pellucid, name)
    assert x.array.dtype.isnative
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (x + x).sum().item() == 30


@pytest.mark.parametrize("function", ["from_numpy", "as_tensor", "asarray"])
@pytest.mark.parametrize("name", WIDE)
def test_memory_in_another_byte_order_is_not_shared(name: str, function: str) -> None:
    with pytest.raises(ValueError, match="byte order"):
        getattr(pellucid, function)(swapped(name))


@pytest.mark.parametrize("operator", ["__add__", "__radd__", "__mul__", "__truediv__", "__lt__"])
def test_an_operand_in_another_byte_order_is_refused(operator: str) -> None:
    x = pellucid.ones(2, 3, dtype=pellucid.float64)
    with pytest.raises(TypeError, match="byte order"):
        getattr(x, operator)(swapped("float64"))


# --- arrays that hold no numbers

STRANGE = {
    "objects": np.array([1, "a", None], dtype=object),
    "objects that are numbers": np.array([1.0, 2.0, 3.0], dtype=object),
    "a structure": np.zeros(3, dtype=[("a", "f4"), ("b", "i4")]),
    "a record": np.rec.array([(1, 2.0), (3, 4.0), (5, 6.0)]),
    "raw bytes": np.zeros(3, dtype="V4"),
    "text": np.array(["a", "b", "c"]),
    "byte strings": np.array([b"a", b"b", b"c"]),
    "dates": np.array(["2020-01-01"] * 3, dtype="M8[D]"),
    "durations": np.array([1, 2, 3], dtype="m8[s]"),
    "extended precision": np.zeros(3, dtype=np.longdouble),
    "extended complex": np.zeros(3, dtype=np.clongdouble),
}


@pytest.mark.parametrize("function", ["tensor", "from_numpy", "as_tensor", "asarray"])
@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_number_is_refused(what: str, function: str) -> None:
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        getattr(pellucid, function)(STRANGE[what])


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_number_is_no_operand(what: str) -> None:
    x = pellucid.ones(3, dtype=pellucid.float64)
    for operator in ("__add__", "__radd__", "__mul__", "__sub__", "__iadd__"):
        with pytest.raises(TypeError):
            getattr(x, operator)(STRANGE[what])
    with pytest.raises(TypeError):
        x[:] = STRANGE[what]
    with pytest.raises(TypeError):
        x.copy_(STRANGE[what])
    assert x.tolist() == [1.0, 1.0, 1.0]


# --- unaligned memory


def unaligned(array: np.ndarray) -> np.ndarray:
    """The same values, one byte off."""
    memory = np.zeros(array.nbytes + 1, np.uint8)
    copy = np.ndarray(array.shape, array.dtype, memory.data, offset=1)
    copy[...] = array
    return copy


def test_there_is_unaligned_memory() -> None:
    assert not unaligned(np.zeros(3)).flags.aligned


@pytest.mark.parametrize("part", range(4))
def test_every_operation_reads_unaligned_memory(part: int) -> None:
    failures = []
    for operation in list(DISTINCT.values())[part::4]:
        if operation.name.startswith("as_strided"):  # reads the memory itself, by offsets of whole elements
            continue
        for sample in claims.samples_of(operation)[:4]:
            odd = claims.replaced(sample, partial(claims.laid_out, unaligned))
            even = claims.replaced(odd, lambda tensor: claims.fresh(tensor, np.array(tensor.array, order="C")))
            if not same(results(operation, odd), results(operation, even)):
                failures.append(f"{operation.name}({claims.describe(sample)})")
    assert not failures, failures


def results(operation: Any, sample: Any) -> list[Any]:
    values, _, gradients = claims.gradients(operation, sample)
    return [y.array for y in [*values, *gradients] if hasattr(y, "array")]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    pairs = zip(ours, theirs, strict=True)
    return all(np.allclose(a, b, 1e-12, 1e-12, equal_nan=b.dtype.kind in "fc") for a, b in pairs)


# --- memory that may not be written


def locked(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def shared(array: np.ndarray):
    """A tensor on read-only memory; that it warns is tested elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pellucid.from_numpy(locked(array))


IN_PLACE = [name for name, operation in DISTINCT.items() if operation.inplace]


@pytest.mark.parametrize("part", range(2))
def test_no_in_place_operation_writes_to_read_only_memory(part: int) -> None:
    tried = 0
    for name in IN_PLACE[part::2]:
        for sample in claims.samples_of(DISTINCT[name])[:3]:
            target = sample.args[0]
            if not isinstance(target, pellucid.Tensor) or not target.array.size:
                continue
            x = shared(np.array(target.array))
            before = x.array.tobytes()
            with pytest.raises(Exception, match="read-only") as refused:
                getattr(x, f"{name}_")(*detached(sample.args[1:]), **detached(sample.kwargs))
            assert isinstance(refused.value, RuntimeError), name
            assert x.array.tobytes() == before, name
            tried += 1
    assert tried >= 100


def detached(tree: Any) -> Any:
    return claims.mapped(tree, lambda leaf: leaf.detach() if isinstance(leaf, pellucid.Tensor) else leaf)


def assign(x: Any) -> None:
    x[0] = 5.0


def assign_view(x: Any) -> None:
    x[1:][0] = 5.0


WRITES = {
    "x[0] = 5": assign,
    "x[1:][0] = 5": assign_view,
    "x += 1": lambda x: x.__iadd__(1),
    "copy_": lambda x: x.copy_(pellucid.ones(3, dtype=pellucid.float64)),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(2.0),
    "a view": lambda x: x[1:].mul_(2),
    "an expanded view": lambda x: x.expand(2, 3)[0].add_(1),
    "a diagonal": lambda x: x.expand(3, 3).diagonal().add_(1),
    "data": lambda x: x.data.add_(1),
    "detach": lambda x: x.detach().add_(1),
    "a reshaped view": lambda x: x.view(3, 1).add_(1),
    "normal_": lambda x: x.normal_(),
    "index_put_": lambda x: x.index_put_((pellucid.tensor([0]),), pellucid.tensor(1.0, dtype=pellucid.float64)),
    "out=": lambda x: pellucid.add(x, 1, out=x),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_read_only_memory_is_refused(write: str) -> None:
    array = np.arange(3.0)
    x = shared(array)
    with pytest.raises((RuntimeError, ValueError, TypeError), match=r"read-only|out"):
        WRITES[write](x)
    assert array.tolist() == [0.0, 1.0, 2.0]


def test_a_gradient_in_read_only_memory_is_replaced_and_not_written() -> None:
    kept = np.ones(3)
    x = pellucid.ones(3, dtype=pellucid.float64, requires_grad=True)
    x.grad = shared(kept)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0]
    assert kept.tolist() == [1.0, 1.0, 1.0]


LOCKED = """
import mmap, sys, tempfile
import numpy as np
import pellucid
from pellucid.testing import claims

def in_locked_pages(array):
    if not array.size:
        return array
    with tempfile.TemporaryFile() as file:
        file.write(array.tobytes())
        file.flush()
        pages = mmap.mmap(file.fileno(), array.nbytes, access=mmap.ACCESS_READ)
    return np.frombuffer(pages, array.dtype).reshape(array.shape)

count = 0
for operation in claims.distinct_operations().values():
    for sample in claims.samples_of(operation)[:5]:
        print(operation.name, claims.describe(sample), file=sys.stderr, flush=True)
        locked = claims.replaced(sample, lambda tensor: claims.fresh(tensor, in_locked_pages(tensor.array)))
        try:
            claims.gradients(operation, locked)
        except RuntimeError as error:  # it is told to write, as batch_norm's running statistics are: a refusal will do
            if "memory is read-only" not in str(error):
                raise
        count += 1
print(count)
"""


@pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="no page protection on this system")
def test_no_operation_writes_to_pages_that_the_system_locked() -> None:
    """Forward and backward of every operation: a write would end the process, whatever the flags say."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LOCKED], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1:]
    assert done.returncode == 0, f"ended by {done.returncode} after {last}"
    assert int(done.stdout) >= 1_000
