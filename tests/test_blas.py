"""One BLAS at a time: SciPy's threads never run for us, and the routines that we call in NumPy's library are right."""

import ast
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid
from pellucid.core import blas

SOURCE = Path(pellucid.__file__).parent
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

# --- whose threads run

# Large enough that OpenBLAS would wake its threads for every one of these. Linux says for how long a thread has
# run, and those that have been woken look for more work for some 25 ms.
WHOSE_THREADS = """
import os, sys, time
import numpy as np

def read(thread, name):
    with open(f"/proc/self/task/{thread}/{name}") as file:
        return file.read()

def milliseconds():
    return sum(int(read(thread, "schedstat").split()[0]) for thread in theirs) / 1e6

def rest():
    while any(read(thread, "stat").rpartition(")")[2].split()[0] == "R" for thread in theirs):
        time.sleep(0.01)  # new threads look for work, too

before = set(os.listdir("/proc/self/task"))
import scipy.linalg
theirs = set(os.listdir("/proc/self/task")) - before

import pellucid as torch
from pellucid.core import blas
count = blas.scipy_threads()[0]
if not theirs or count() < 2:
    sys.exit("SciPy has no threads of its own here")
chosen = count()

def work(name):
    torch.manual_seed(0)
    if name in OPTIMIZERS:
        model = torch.nn.Sequential(
            torch.nn.Linear(200, 200), torch.nn.LayerNorm(200), torch.nn.Linear(200, 200), torch.nn.BatchNorm1d(200)
        )
        optimizer = OPTIMIZERS[name](model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(200, 200)).square().mean().backward()
            optimizer.step()
        return
    for dtype in (torch.float32, torch.complex128):
        a = torch.randn(200, 200, dtype=dtype)
        a = (a @ a.mH / 200 + 4 * torch.eye(200)).requires_grad_(name not in NOT_DERIVED)
        b = torch.randn(200, 200, dtype=dtype)
        results = LINALG[name](a, b)
        for y in results if isinstance(results, tuple) else [results]:
            if y.requires_grad:
                y.abs().sum().backward(retain_graph=True)

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1),
    **{name: lambda p, name=name: getattr(torch.optim, name)(p, weight_decay=0.1)
       for name in "Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta ASGD".split()},
}
L = torch.linalg
singular = torch.zeros(200, 200)
LINALG = {
    "solve_triangular": lambda a, b: L.solve_triangular(a, b, upper=True),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, L.cholesky(a)),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(L.cholesky(a)),
    "cholesky_ex": lambda a, b: L.cholesky_ex(-a.detach()).L,
    "lu": lambda a, b: L.lu(a)[1:],
    "lu_solve": lambda a, b: L.lu_solve(*L.lu_factor(a), b),
    "ldl": lambda a, b: L.ldl_solve(*L.ldl_factor(a), b),
    "lstsq": lambda a, b: L.lstsq(a, b).solution,
    "lstsq gelsd": lambda a, b: L.lstsq(a.detach(), b, driver="gelsd").solution,
    "lstsq gels": lambda a, b: L.lstsq(a.detach(), b, driver="gels").solution,
    "matrix_exp": lambda a, b: L.matrix_exp(a),
    "solve_ex": lambda a, b: L.solve_ex(a.detach() * 0, b).result,
    "inv_ex": lambda a, b: L.inv_ex(a.detach() * 0).inverse,
    "others": lambda a, b: (L.inv(a), L.det(a), L.qr(a)[0], L.eigvalsh(a), L.svdvals(a), L.solve(a, b), a @ b),
}
NOT_DERIVED = {"ldl"}
for name in (*OPTIMIZERS, *LINALG):
    rest()
    ran = milliseconds()
    work(name)
    if milliseconds() > ran + 0.5:  # a process that is stopped and continued wakes them, too, for microseconds
        print(f"{name} woke SciPy's threads")
    if count() != chosen:
        sys.exit(f"{name} left SciPy with {count()} threads instead of {chosen}")
saxpy, x = scipy.linalg.blas.saxpy, np.ones(1 << 17, np.float32)
for _ in range(100):
    saxpy(x, x.copy())  # the user's own SciPy has its threads
rest()
assert milliseconds() > ran + 0.5, "this test cannot fail"
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="needs Linux's account of threads")
@pytest.mark.parametrize("native", ["0", "1"])
def test_scipys_threads_never_run_for_us(native: str) -> None:
    told = {"OPENBLAS_NUM_THREADS": "2", "PELLUCID_NATIVE": native}
    done = subprocess.run(
        [sys.executable, "-c", WHOSE_THREADS], capture_output=True, text=True, env={**os.environ, **told}, timeout=300
    )
    if "no threads of its own" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_scipys_linear_algebra_is_only_called_on_one_thread() -> None:
    """Every name from scipy.linalg is used in core/blas.py, or in a function under @one_thread."""
    loose = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "core" / "blas.py" and "scipy.linalg" in (text := path.read_text(encoding="utf-8"))
        for node in _uses(ast.parse(text))
    ]
    assert not loose, loose


def _uses(tree: ast.Module) -> list[Any]:
    """Where a module uses scipy.linalg without one_thread."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scipy.linalg")
        for alias in node.names
    }
    calm = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "one_thread" for each in node.decorator_list)
        for part in ast.walk(node)
    }
    return [
        node
        for node in ast.walk(tree)
        if ((isinstance(node, ast.Name) and node.id in imported) or _is_scipy_linalg(node)) and id(node) not in calm
    ]


def _is_scipy_linalg(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "scipy.linalg"


# --- SciPy gets back what it had


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads SciPy's library has been told to use, the present number last."""
    told = [5]
    monkeypatch.setattr(blas, "scipy_threads", lambda: (lambda: told[-1], told.append))
    return told


def test_scipy_gets_its_threads_back_after_an_error(threads: list[int]) -> None:
    @blas.one_thread
    def failing() -> None:
        raise ValueError(f"with {threads[-1]}")

    with pytest.raises(ValueError, match="with 1"):
        failing()
    assert threads == [5, 1, 5]


def test_only_the_last_that_leaves_gives_them_back(threads: list[int]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with blas.one_thread:
            inside.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    with blas.one_thread:
        other.start()
        inside.wait(10)
        with blas.one_thread:
            pass
    assert threads[-1] == 1  # the other one is still inside
    leave.set()
    other.join()
    assert threads == [5, 1, 5]


@pytest.mark.parametrize("prepared", [True, False])
def test_threads_that_meet_at_the_door_give_back_what_was_there(
    monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    """Between any two steps of one thread another one may come in and leave, or stay until the first has left."""
    chosen, leave, others = [5], threading.Event(), []

    def visit(stays: bool) -> None:
        with blas.one_thread:
            arrived.set()
            if stays:
                leave.wait(10)

    def choose(count: int) -> None:
        chosen.append(count)
        if threading.current_thread() is threading.main_thread():
            for stays in (False, True):
                arrived.clear()
                others.append(threading.Thread(target=visit, args=(stays,)))
                others[-1].start()
                arrived.wait(0.2)  # who has to wait at the door arrives later

    arrived = threading.Event()
    monkeypatch.setattr(blas, "scipy_threads", lambda: (lambda: chosen[-1], choose))
    if prepared:
        for function, *arguments in blas.one_thread.around([]):
            function(*arguments)
    else:
        with blas.one_thread:
            pass
    leave.set()
    for other in others:
        other.join(10)
    assert chosen[-1] == 5


# --- the routines, in NumPy's library and in SciPy's


@pytest.fixture(params=["NumPy's", "SciPy's"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "SciPy's":
        monkeypatch.setattr(blas, "routine", lambda name, dtype: None)
    elif blas.function("openblas_get_num_threads") is None:
        pytest.skip("NumPy brings no OpenBLAS of its own here")
    return str(request.param)


def drawn(dtype: Any, *shape: int) -> np.ndarray:
    random = np.random.default_rng(0)
    numbers = random.normal(size=shape) + (1j * random.normal(size=shape) if np.dtype(dtype).kind == "c" else 0)
    return numbers.astype(dtype)


LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": np.asfortranarray,
    "part of rows": lambda a: np.concatenate([a, a], 1)[:, : a.shape[1]],
    "every other": lambda a: np.repeat(a, 2, 0)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_systems(library: str, dtype: Any, layout: str) -> None:
    for n, count in ((1, 1), (7, 3), (70, 1), (130, 140)):
        a, b = drawn(dtype, n, n) / n + 4 * np.eye(n, dtype=dtype), drawn(dtype, n, count)
        for upper in (True, False):
            for unit in (True, False):
                matrix = np.triu(a) if upper else np.tril(a)
                if unit:
                    np.fill_diagonal(matrix, 1)
                y = b.copy()
                blas.solve_triangle(LAYOUTS[layout](a), y, upper, unit)
                close = 1e-10 if np.dtype(dtype).char in "dD" else 1e-3
                np.testing.assert_allclose(matrix @ y, b, close, close)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_of_tall_wide_and_singular_matrices(library: str, dtype: Any, layout: str) -> None:
    for m, n in ((1, 1), (6, 6), (9, 4), (4, 9), (130, 130)):
        a = drawn(dtype, m, n)
        lu, pivots, info = blas.lu_factors(LAYOUTS[layout](a))
        size, rows = min(m, n), np.arange(m)
        for i, other in enumerate(pivots - 1):
            rows[[i, other]] = rows[[other, i]]
        lower, upper = np.tril(lu[:, :size], -1) + np.eye(m, size), np.triu(lu[:size])
        np.testing.assert_allclose(lower @ upper, a[rows], atol=1e-4)
        assert info == 0
    assert blas.lu_factors(np.zeros((3, 3), dtype))[2] == 1


@pytest.mark.parametrize("size", [1, blas.FEW, blas.FEW + 1, 3 * blas.FEW + 5])
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_vectors_on_both_sides_of_the_threshold(dtype: Any, size: int) -> None:
    x, y = drawn(dtype, 2, size)
    close = 1e-6 if dtype is np.float32 else 1e-14
    for given in (x, np.repeat(x, 2)[::2], x[::-1].copy()[::-1]):
        updated, scaled = y.copy(), x.copy()
        function, *arguments = blas.axpy_call(0.5, given, updated)
        function(*arguments)
        np.testing.assert_allclose(updated, y + dtype(0.5) * x, close, close)
        function, *arguments = blas.scal_call(-3.0, scaled)
        function(*arguments)
        np.testing.assert_allclose(scaled, dtype(-3) * x, close)


def test_threads_of_scipy_for_the_vectors_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parameters have their momentum in one vector, for which OpenBLAS would wake its threads."""
    chosen: list[int] = []
    monkeypatch.setattr(blas, "scipy_threads", lambda: (lambda: 2, chosen.append))
    for count, shape, expected in ((30, (20, 20), [1, 2]), (1, (100, 100), [1, 2]), (3, (20, 20), [])):
        parameters = [pellucid.zeros(shape, requires_grad=True) for _ in range(count)]
        for p in parameters:
            p.grad = pellucid.ones(shape)
        optimizer = pellucid.optim.SGD(parameters, momentum=0.9)
        optimizer.step()
        chosen.clear()
        optimizer.step()
        assert chosen == expected


@pytest.mark.parametrize("dtype", [pellucid.float16, pellucid.bfloat16])
def test_triangular_systems_of_sixteen_bits(dtype: Any) -> None:
    a, b = pellucid.tensor([[2.0, 0.0], [1.0, 4.0]], dtype=dtype), pellucid.tensor([[2.0], [9.0]], dtype=dtype)
    y = pellucid.linalg.solve_triangular(a, b, upper=False)
    assert y.dtype == dtype
    assert y.tolist() == [[1.0], [2.0]]
