"""Arguments that are wrong, in every form: what is refused, with which class of error.

Every operation's samples are spoiled one argument at a time: a tensor gets another dtype, one dimension more or
less, another size, or nothing in it; a number gets out of range or negative; a word is one that nobody knows. So
each half of each check meets an argument that only it refuses. How it ends stands in refusals.txt, a letter for each
spoiled call, first here and then in PyTorch (= where all are the same; ! where the process died), which is asked
when the file is written, and in processes of its own:

    python tests/test_refusals.py  # after a change that refuses more or less; look at the difference before you commit
"""

import inspect
import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid import dtypes
from pellucid.core.flags import flags
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.operation import Operation, Sample
from pellucid.testing import claims
from pellucid.testing.claims.oracle import in_torch, torch_function

DISTINCT = claims.distinct_operations()
PARTS = 8


def spoiled_tensor(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    for dtype in (np.int64, np.bool_, np.complex128, np.float16):
        if array.dtype != dtype:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield f"of {np.dtype(dtype)}", array.astype(dtype)
    yield "in a dimension more", array[None]
    yield "in two dimensions more", array[None, None]
    yield "one number", np.array(array.reshape(-1)[0] if array.size else 0, array.dtype)
    for axis in range(min(array.ndim, 3)):
        yield (
            f"longer in dimension {axis}",
            np.concatenate([array, np.take(array, [0], axis)], axis) if array.size else array,
        )
        yield f"empty in dimension {axis}", np.take(array, [], axis)
        if array.shape[axis]:
            yield f"without dimension {axis}", np.take(array, 0, axis)
    if array.dtype.kind in "iu" and array.size:
        for number in (-1, -101, 40):
            yield f"with {number} in it", np.where(np.arange(array.size).reshape(array.shape) == 0, number, array)
    yield "as a list", array.tolist()
    yield "as a word", "tensor"


def spoiled_number(value: float) -> Iterator[tuple[str, Any]]:
    numbers = (-1, 0, 1, 7, -40, 40) if isinstance(value, int) else (-1.0, 0.0, 1.0, -0.5, 1.5, math.inf, math.nan)
    for other in (*numbers, 0.5, "word", None, [value], True):
        if other != value or type(other) is not type(value):
            yield repr(other), other


def spoiled_numbers(values: Any) -> Iterator[tuple[str, Any]]:
    kind = type(values)
    yield "none of them", kind()
    yield "one more", kind([*values, *values[-1:]])
    yield "one less", kind(values[:-1])
    for at in range(min(len(values), 3)):
        for other in (-1, 0, 9, -9, 0.5, "word"):
            yield f"{other!r} at {at}", kind([*values[:at], other, *values[at + 1 :]])
    yield "a word", "word"


def spoiled(value: Any) -> Iterator[tuple[str, Any]]:
    """What may stand wrongly in the place of an argument."""
    if isinstance(value, Tensor):
        for what, other in spoiled_tensor(value.array):
            made = wrap(np.array(other, order="C")) if isinstance(other, (np.ndarray, np.generic)) else other
            floating = isinstance(made, Tensor) and made.array.dtype.kind in "fc"
            yield what, made.requires_grad_() if floating and value.requires_grad else made
    elif isinstance(value, bool):
        yield "a word", "word"
    elif isinstance(value, (int, float)):
        yield from spoiled_number(value)
    elif isinstance(value, str):
        yield from (("an unknown word", "unknown"), ("no word", ""), ("a number", 3))
    elif type(value) in (list, tuple) and value and all(isinstance(each, int) for each in value):
        yield from spoiled_numbers(value)
    elif type(value) in (list, tuple) and value and all(isinstance(each, Tensor) for each in value):
        yield "none of them", type(value)()
        for at, each in enumerate(value[:2]):
            for what, other in spoiled(each):
                yield f"{at}: {what}", type(value)([*value[:at], other, *value[at + 1 :]])
    elif isinstance(value, dtypes.dtype):
        yield from (
            ("whole numbers", pellucid.int64),
            ("truth", pellucid.bool),
            ("complex numbers", pellucid.complex64),
        )


def spoiled_samples(sample: Sample) -> Iterator[tuple[str, Sample]]:
    """The sample with one wrong argument; its name tells which one."""
    for at, value in enumerate(sample.args):
        for what, other in spoiled(value):
            yield f"{at}: {what}", Sample((*sample.args[:at], other, *sample.args[at + 1 :]), sample.kwargs)
    for name, value in sample.kwargs.items():
        for what, other in spoiled(value):
            yield f"{name}: {what}", Sample(sample.args, {**sample.kwargs, name: other})


LETTERS = {
    "": ".", "RuntimeError": "R", "TypeError": "T", "ValueError": "V", "IndexError": "I", "NotImplementedError": "N",
    "LinAlgError": "L", "AssertionError": "A", "ZeroDivisionError": "Z", "AttributeError": "B", "Exception": "?",
}  # fmt: skip
FILE = Path(__file__).with_name("refusals.txt")
MEMORY = ("as_strided", "empty", "frombuffer", "from_file")  # what lies in memory, not what is given, decides


def outcome(function: Any, sample: Sample) -> str:
    """The letter for the class of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*sample.args, **sample.kwargs)
        except Exception as error:
            return next(LETTERS[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in LETTERS)
    return "."


def busiest(operation: Operation) -> list[Sample]:
    """The three samples with the most arguments and dimensions."""

    def size(sample: Sample) -> tuple[int, int, int]:
        arrays = [tensor.array for tensor in claims.tensors_in(sample)]
        given = len(sample.args) + len(sample.kwargs)
        return given, sum(array.ndim for array in arrays), sum(array.size for array in arrays)

    return sorted(claims.samples_of(operation), key=size, reverse=True)[:3]


def operations() -> Iterator[tuple[str, Operation]]:
    for name, operation in DISTINCT.items():
        if not operation.name.startswith(MEMORY):
            yield name, operation


def here(operation: Operation) -> str:
    return "".join(
        outcome(operation.function, wrong) for sample in busiest(operation) for _, wrong in spoiled_samples(sample)
    )


def recorded() -> dict[str, str]:
    lines = (line.split() for line in FILE.read_text().splitlines())
    return {name: mine for name, mine, _ in lines}


@pytest.mark.parametrize("part", range(PARTS))
def test_wrong_arguments_are_refused_in_every_form(part: int) -> None:
    known, changed = recorded(), []
    for name, operation in list(operations())[part::PARTS]:
        found, expected = here(operation), known.get(name, "")
        if found != expected:
            told = [f"{claims.describe(s)} with {what}" for s in busiest(operation) for what, _ in spoiled_samples(s)]
            pairs = zip(told, found, expected.ljust(len(found), " "), strict=False)
            changed += [f"{name}({call}): {now}, was {was}" for call, now, was in pairs if now != was]
            changed += [f"{name}: {len(found)} calls, {len(expected)} are recorded"] * (len(found) != len(expected))
    assert not changed, "\n".join(changed[:40])


def test_the_record_is_of_all_operations_and_has_refusals_of_every_class() -> None:
    known = recorded()
    assert set(known) == {name for name, _ in operations()}
    together = "".join(known.values())
    assert {letter: together.count(letter) > 20 for letter in "RTVIN"} == dict.fromkeys("RTVIN", True)
    assert "?" not in together


# --- flags: arguments that are true or false


def flagged() -> Iterator[tuple[str, Operation, inspect.Parameter]]:
    for name, operation in DISTINCT.items():
        for parameter in inspect.signature(operation.function).parameters.values():
            if isinstance(parameter.default, bool) or parameter.name in flags(operation.function):
                yield name, operation, parameter


def with_flag(operation: Operation, parameter: inspect.Parameter, value: Any) -> list[Sample]:
    """The operation's samples with the flag set by its name, or at its place where something stands there already."""
    place = list(inspect.signature(operation.function).parameters).index(parameter.name)
    made = []
    for sample in claims.samples_of(operation):
        if place < len(sample.args) and parameter.kind is not parameter.KEYWORD_ONLY:
            made.append(Sample((*sample.args[:place], value, *sample.args[place + 1 :]), sample.kwargs))
        else:
            made.append(Sample(sample.args, {**sample.kwargs, parameter.name: value}))
    return made


def test_no_flag_takes_a_word_whatever_the_input() -> None:
    """Every sample: 0-d, empty, transposed, integers, ...: no path may be without the check."""
    taken = [
        f"{name}({parameter.name}=word) of {claims.describe(sample)}"
        for name, operation, parameter in flagged()
        for sample in with_flag(operation, parameter, "word")
        if outcome(operation.function, sample) != "T"
    ]
    assert not taken


def test_methods_refuse_words_too() -> None:
    for name, operation, parameter in flagged():
        method = getattr(Tensor, operation.name, None) if operation.method else None
        for sample in with_flag(operation, parameter, "word")[: 1 if method else 0]:
            if isinstance(sample.args[0], Tensor):
                assert outcome(method, sample) == "T", (name, parameter.name)


def test_flags_take_what_those_of_pytorch_take(torch: Any) -> None:
    """1, 0, a number, None, a tensor: alike, but for the None that stands for no choice in some of our signatures."""
    apart = []
    for name, operation, parameter in flagged():
        theirs = torch_function(operation)
        if theirs is None or operation.name.startswith(MEMORY):
            continue
        kinds = flags(operation.function)[parameter.name]
        for value in (1, 0, 1.5, pellucid.tensor(True), *([None] * (type(None) not in kinds))):
            for plain, sample in zip(
                with_flag(operation, parameter, True), with_flag(operation, parameter, value), strict=True
            ):
                if outcome(theirs, in_torch(plain)[0]) == "." and outcome(operation.function, plain) == ".":
                    ours, its = outcome(operation.function, sample), outcome(theirs, in_torch(sample)[0])
                    if (ours == ".") != (its == "."):
                        apart.append(f"{name}({parameter.name}={value}): {ours}, PyTorch {its}")
                    break
    assert not apart


REFUSED = """
    zeros(2, requires_grad={}); ones_like(ones(2), requires_grad={}); rand(2, requires_grad={})
    ones(2).new_zeros(2, requires_grad={}); arange(2.0, requires_grad={}); tensor([1.0], requires_grad={})
    hann_window(4, requires_grad={}); scalar_tensor(1.0, requires_grad={}); nn.Parameter(ones(2), {})
    ones(2).requires_grad_({}); setattr(ones(2), "requires_grad", {}); set_grad_enabled({}); eye(2, requires_grad={})
    ones(2).to(float64, {}); ones(2).to(float64, copy={}); ones(2).to(float64, non_blocking={}); asarray([1.0], copy={})
    ones(2).copy_(ones(2), {}); ones(2).index_put_((tensor([0]),), ones(1), {}); multinomial(ones(2), 2, {})
    dropout_(ones(2), 0.5, {}); ones(2, 2).sum(0, {}); ones(2, 2).max(0, keepdim={})
    ones(2, 2).sum(axis=0, keepdims={})
"""


@pytest.mark.parametrize("call", REFUSED.replace("\n", ";").split(";"))
@pytest.mark.parametrize("value", ["'word'", "1"])
def test_flags_outside_the_table_are_refused_too(call: str, value: str) -> None:
    if call.strip():
        with pytest.raises((TypeError, RuntimeError), match=r"must be( a)? bool"):
            eval(call.strip().format(value), {**vars(pellucid), "nn": pellucid.nn})


def test_flags_of_walks_take_no_words() -> None:
    x = pellucid.ones(2, requires_grad=True)
    for walk in (
        lambda: x.sum().backward(retain_graph="no"), lambda: x.sum().backward(create_graph="no"),
        lambda: pellucid.autograd.grad(x.sum(), x, allow_unused="no"),
        lambda: pellucid.autograd.backward(x.sum(), retain_graph="no"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="must be bool, not str"):
            walk()


# --- writing the record


def there(operation: Operation) -> str:
    """How it ends in PyTorch, in a process that may die of it; = if there is no such function."""
    theirs = torch_function(operation)
    if theirs is None:
        return "="
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for sample in busiest(operation):
            for _, wrong in spoiled_samples(sample):
                os.write(writing, outcome(theirs, in_torch(wrong)[0]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        letters = pipe.read().decode()
    return letters + "!" * (os.waitpid(child, 0)[1] != 0)


def main() -> None:
    lines = []
    for name, operation in operations():
        mine, its = here(operation), there(operation)
        lines.append(f"{name} {mine or '-'} {'=' if its == mine else its or '-'}")
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
