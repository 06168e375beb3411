"""Small programs as users write them: each gives what it gives in PyTorch, value, dtype, shape, strides, text, error.

The programs are in api_cases/*.txt: one to a line, or a block that begins with a line "@". `T` is `torch.tensor`.
What a program without floating-point numbers gives in PyTorch is kept in golden.json, for where PyTorch is not.
"""

import ast
import collections
import contextlib
import copy
import importlib
import io
import json
import math
import os
import pickle
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import pellucid

FOLDER = Path(__file__).with_name("api_cases")
GOLDEN = json.loads((FOLDER / "golden.json").read_text())
LIBRARIES = {"collections": collections, "copy": copy, "io": io, "math": math, "np": np, "os": os, "pickle": pickle,
             "tempfile": tempfile, "warnings": warnings}  # fmt: skip


class Failed(tuple):
    """The names of an error's class and of those it inherits from."""


def programs(path):
    """The programs of a file."""
    for block in re.split(r"\n\n+", path.read_text()):
        lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
        if lines and lines[0] == "@":
            yield "\n".join(lines[1:])
        else:
            yield from lines


def plain(value, library):
    """A value without its library: what a user can see of it."""
    if isinstance(value, library.Tensor):
        held = value.detach()
        array = held.float().numpy() if held.dtype == library.bfloat16 else held.resolve_conj().resolve_neg().numpy()
        steps = tuple(value.stride()) if value.numel() > 1 else None
        return ["tensor", str(value.dtype), tuple(value.shape), steps, value.requires_grad, value.is_leaf, array.copy()]
    if isinstance(value, dict):
        return [type(value).__name__, [[plain(k, library), plain(v, library)] for k, v in value.items()]]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [plain(each, library) for each in value]]
    if value is None or isinstance(value, (bool, int, str, bytes, float, complex, np.ndarray)):
        return value
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return value.__name__
    return re.sub("0x[0-9a-f]+", "0x", repr(value).replace("pellucid.", "torch."))


def outcome(program, library):
    """What a program evaluates to and prints, or the class of its error."""
    names = {"torch": library, "nn": library.nn, "F": library.nn.functional, "optim": library.optim,
             "data": library.utils.data, "T": library.tensor, **LIBRARIES, "__name__": "case"}  # fmt: skip
    importlib.import_module(f"{library.__name__}.nn.attention.bias")  # PyTorch does not load it by itself
    library.manual_seed(0)
    library.set_printoptions(profile="default")
    tree, printed = ast.parse(program), io.StringIO()
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(tree, "case", "exec"), names)
            value = plain(eval(compile(ast.Expression(last.value), "case", "eval"), names), library) if last else None
        return [value, printed.getvalue().replace("pellucid", "torch")]
    except Exception as problem:
        return Failed(kind.__name__ for kind in type(problem).__mro__)
    finally:
        library.set_default_dtype(library.float32)
        library.set_grad_enabled(True)
        library.use_deterministic_algorithms(False)


def same(mine, theirs, path="value"):
    """Equal but for rounding."""
    if isinstance(theirs, Failed):  # ours may be a class that inherits from PyTorch's
        assert isinstance(mine, Failed) and theirs[0].lstrip("_") in mine, f"{mine} instead of {theirs[0]}"
        return
    assert type(mine) is type(theirs), f"{path}: {mine!r} instead of {theirs!r}"
    if isinstance(theirs, (list, tuple)):
        assert len(mine) == len(theirs), f"{path}: {mine!r} instead of {theirs!r}"
        for i, (one, two) in enumerate(zip(mine, theirs, strict=True)):
            same(one, two, f"{path}[{i}]")
    elif isinstance(theirs, np.ndarray) and theirs.dtype.kind in "fc":
        tolerance = 1e-5 if theirs.dtype.itemsize < 8 else 1e-8
        np.testing.assert_allclose(mine, theirs, max(tolerance, 1e-2 * (theirs.dtype == np.float16)), tolerance)
    elif isinstance(theirs, np.ndarray):
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs), path
    elif isinstance(theirs, (float, complex)):
        assert mine == pytest.approx(theirs, rel=1e-5, abs=1e-6, nan_ok=True), path
    else:
        assert mine == theirs, f"{path}: {mine!r} instead of {theirs!r}"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_equals_pytorch(file, torch):
    wrong = []
    for program in programs(file):
        try:
            same(outcome(program, pellucid), outcome(program, torch))
        except AssertionError as problem:
            wrong.append(f"{program}\n    {problem}")
    assert not wrong, f"{len(wrong)} programs differ\n" + "\n".join(wrong)


def text(result):
    """An outcome as text, or None where rounding could change it."""
    if isinstance(result, (float, complex)) or (isinstance(result, np.ndarray) and result.dtype.kind in "fc"):
        return None
    if isinstance(result, np.ndarray):
        return json.dumps(result.tolist())
    if isinstance(result, (list, tuple)):
        parts = [text(each) for each in result]
        return None if None in parts else f"[{', '.join(parts)}]"
    return repr(result)


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_equals_what_pytorch_gave(file):
    seen = {program: outcome(program, pellucid) for program in programs(file) if program in GOLDEN}
    for program, found in seen.items():
        expected = GOLDEN[program]
        if expected.startswith("error "):
            assert isinstance(found, Failed) and expected.removeprefix("error ").lstrip("_") in found, program
        else:
            assert text(found) == expected, program
