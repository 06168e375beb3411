"""Kernels in machine code: the language says what Python says, the pool computes every row once, NumPy agrees."""

import ctypes
import math
import os
import subprocess
import sys
import threading
from functools import lru_cache

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import large
from pellucid.native import kernel as kernels
from pellucid.native import native, products, words
from pellucid.native.language import Unknown, Writer
from pellucid.native.vectors import strip
from pellucid.native.words import Array, Doubles, Indices, gemm, least, most, wide

needs_llvm = pytest.mark.skipif(not kernels.available(), reason="llvmlite is not installed (extra: compile)")
FLOATS = (np.float32, np.float64)


@native
def every_word(first: int, last: int, x: Array, y: Array, which: Indices, n: int, factor: float) -> None:
    """All statements and operators of the language."""
    for i in range(first, last):
        a = x[i] * factor - 1.0
        b = a if a > 0.0 else -a
        total = 0.0
        for j in range(0, n, 2):
            if j == 4:
                total += words.sqrt(b + float(j))
            else:
                total += b / (1.0 + float(j // 2 + j % 3))
        at = most(0, least(which[i], n))
        y[i] = total + words.larger(a, 0.25) + words.smaller(a, 0.5) + words.floor(b) + float(at)
        y[i] *= (3 + words.log(1 + b)) * words.with_sign(2.0, a)


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_kernel_says_what_python_says(dtype):
    x = np.linspace(-3, 3, 100).astype(dtype)
    which = np.arange(-50, 50)
    compiled, plain = np.empty_like(x), np.empty(100)
    every_word(100, 1, x, compiled, which, 9, 1.5)
    every_word.function(0, 100, x.astype(float), plain, which, 9, 1.5)
    np.testing.assert_allclose(compiled, plain, rtol=1e-6 if dtype is np.float32 else 1e-14)


def a_while(first: int, last: int, x: Array) -> None:
    while x[0] > 0.0:
        x[0] = 0.0


def a_value_alone(first: int, last: int, x: Array) -> None:
    x[0]


def an_attribute(first: int, last: int, x: Array) -> None:
    x.size = 1.0


def a_loop_over_values(first: int, last: int, x: Array) -> None:
    for value in x:
        x[0] = value


def a_plus(first: int, last: int, x: Array) -> None:
    x[0] = +x[1]


def a_power(first: int, last: int, x: Array) -> None:
    x[0] = x[1] ** 2.0


def a_call_of_a_result(first: int, last: int, x: Array) -> None:
    x[0] = a_plus(0, 1, x)(2.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (a_while, "while x"), (a_value_alone, r"x\[0\]$"), (an_attribute, r"x\.size$"),
        (a_loop_over_values, "for value in x"), (a_plus, r"\+x\[1\]$"), (a_power, r"x\[1\] \*\* 2\.0$"),
        (a_call_of_a_result, r"a_plus\(0, 1, x\)$"),
    ],
)  # fmt: skip
def test_what_the_language_lacks_is_refused_with_its_words(wrong, words):
    with pytest.raises(Unknown, match=f"a kernel cannot say: {words}"):
        Writer("float", products.address).kernel("wrong", wrong)


@native
def doubled_sums(first: int, last: int, x: Array, sums: Doubles, y: Array, above: Indices) -> None:
    """Sums in double precision: in a variable, in an array, compared, chosen, and rounded in the end."""
    for row in range(first, last):
        total = wide(0)
        for i in range(row * 4, row * 4 + 4):
            total = total + x[i] if x[i] != total else total
            sums[row] = sums[row] + x[i]
        total += x[row * 4]
        above[row] = 1 if total > x[row * 4] else 0
        y[row] = total


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_double_precision_in_a_kernel_of_any_type(dtype):
    x = np.array([[1e8, 1.0, -1e8, 3.0], [2.0**24, 1.0, 1.0, -(2.0**24)]], dtype)
    sums, y, above = np.zeros(2), np.zeros(2, dtype), np.zeros(2, np.int64)
    doubled_sums(2, 4, x, sums, y, above)
    wanted = x.astype(np.float64).sum(1)
    np.testing.assert_array_equal(sums, wanted)
    np.testing.assert_array_equal(y, (wanted + x[:, 0]).astype(dtype))
    np.testing.assert_array_equal(above, wanted > 0)
    plain = np.zeros(2), np.zeros(2), np.zeros(2, np.int64)
    doubled_sums.function(0, 2, x.reshape(-1).astype(np.float64), *plain)
    np.testing.assert_array_equal(plain[0], wanted)


def test_the_words_are_right_as_plain_python_too():
    x = np.concatenate([np.linspace(-20, 20, 41), [0.3, -0.3, -800.0]])
    np.testing.assert_allclose([words.exp(each) for each in x], np.exp(x), rtol=1e-15)
    np.testing.assert_allclose([words.exp_32(each) for each in x[:41]], np.exp(x[:41]), rtol=1e-7)
    np.testing.assert_allclose([words.sigmoid(each) for each in x[:41]], 1 / (1 + np.exp(-x[:41])), rtol=1e-15)
    np.testing.assert_allclose([words.tanh_32(each) for each in x], np.tanh(x), rtol=3e-7)
    assert [words.rounded(each) for each in (0.5, 1.5, -2.7)] == [0.0, 2.0, -3.0]


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_loops_of_large_arrays_say_what_numpy_says(dtype):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=large.LARGE).astype(dtype) for _ in "ab")
    for shared, loop, expected in (
        (large.plus, large.plus_loop, a + b), (large.minus, large.minus_loop, a - b),
        (large.times, large.times_loop, a * b),
    ):  # fmt: skip
        plain = np.empty(100, dtype)
        loop.function(0, 100, a, b, plain)
        np.testing.assert_array_equal(shared(a, b), expected)
        np.testing.assert_array_equal(plain, expected[:100])
    total, plain = a.copy(), a[:100].copy()
    large.gather(total, b)
    large.gather_loop.function(0, 100, plain, b)
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(plain, (a + b)[:100])


@needs_llvm
def test_rows_are_added_up_in_parts():
    count = 2 * large.BLOCK - 5
    rows = np.random.default_rng(0).normal(size=(count, 3))
    sums = np.zeros((2, 3))
    for block in (0, 1):
        large.leading_sum_loop.function(block, block + 1, rows.reshape(-1), sums.reshape(-1), 3, count)
    np.testing.assert_allclose(sums, [rows[: large.BLOCK].sum(0), rows[large.BLOCK :].sum(0)], rtol=1e-13)
    tall = np.random.default_rng(1).normal(size=(3, 1001, 40))  # more than one part: the last is not full
    np.testing.assert_allclose(large.leading_sum(tall, 2), tall.sum((0, 1)), rtol=1e-11)


@pytest.mark.parametrize(
    ("shape", "axes"), [((4096, 10), (0,)), ((700, 600), (0,)), ((32, 50, 100), (0, 1)), ((5, 300, 300), (1,)),
                        ((2, 3, 1001, 2), (2,)), ((40, 250), (0,)), ((1, 130, 7), (0, 1))]
)  # fmt: skip
def test_sums_of_many_rows_keep_their_digits_as_in_pytorch(shape, axes):
    numbers = (np.random.default_rng(0).normal(size=shape) + 3).astype(np.float32)
    exact, leading = numbers.astype(np.float64).sum(axes), 0 in axes
    a = torch.tensor(numbers)
    bias = torch.zeros(exact.shape, requires_grad=True)
    found = [a.sum(axes).numpy(), a.mean(axes).numpy() * np.prod([shape[i] for i in axes]), a.sum(axes, True).numpy()]
    if leading:
        (torch.zeros(shape) + bias).backward(a)
        found.append(bias.grad.numpy())
    for each in found:  # row by row, the errors were up to ten times as large
        np.testing.assert_allclose(each.reshape(exact.shape), exact, rtol=4e-7)


@native
def apply_exp(first: int, last: int, x: Array, y: Array) -> None:
    for i in range(first, last):
        y[i] = words.exp(x[i])


@native
def apply_tanh(first: int, last: int, x: Array, y: Array) -> None:
    for i in range(first, last):
        y[i] = words.tanh_32(x[i])


def units_apart(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance, in units of the last place."""
    finite = np.isfinite(exact)
    return float(np.max(np.abs(got[finite] - exact[finite]) / np.spacing(np.abs(exact[finite]).astype(got.dtype))))


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_exp_is_within_a_unit_of_the_last_place(dtype):
    reach = 87.0 if dtype is np.float32 else 708.0
    x = np.random.default_rng(0).uniform(-reach, reach, 200_000).astype(dtype)
    y = np.empty_like(x)
    apply_exp(x.size, 1, x, y)
    assert units_apart(y, np.exp(x.astype(np.longdouble))) <= 1.5


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_exp_of_special_numbers(dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1000.0, -1000.0, -100.0, 88.7], dtype)
    y = np.empty_like(x)
    apply_exp(x.size, 1, x, y)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)


@needs_llvm
def test_tanh_is_within_two_units():
    x = np.concatenate([np.linspace(-12, 12, 100_001), np.geomspace(1e-30, 1, 1000), [0.0, 0.625, -0.625]])
    x = x.astype(np.float32)
    y = np.empty_like(x)
    apply_tanh(x.size, 1, x, y)
    assert units_apart(y, np.tanh(x.astype(np.longdouble))) <= 2.5
    special = np.array([np.inf, -np.inf, np.nan], np.float32)
    got = np.empty_like(special)
    apply_tanh(3, 1, special, got)
    np.testing.assert_array_equal(got, np.tanh(special))


@needs_llvm
def test_threads_that_meet_at_the_first_call_get_one_program():
    @native
    def doubled(first: int, last: int, x: Array, y: Array) -> None:
        for i in range(first, last):
            y[i] = 2.0 * x[i]

    def work(k: int) -> None:
        x, start = np.full(10, float(k)), results[k]
        gate.wait()
        doubled(10, 1, x, start)

    results = [np.empty(10) for _ in range(8)]
    gate = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.tolist() for result in results] == [[2.0 * k] * 10 for k in range(8)]


@needs_llvm
def test_two_kernels_may_have_one_name():
    def made():
        @native
        def scaled(first: int, last: int, x: Array, y: Array, by: float) -> None:
            for i in range(first, last):
                y[i] = by * x[i]

        @native
        def shifted(first: int, last: int, x: Array, y: Array, by: float) -> None:
            for i in range(first, last):
                y[i] = by + x[i]

        shifted.name = scaled.name
        return scaled, shifted

    y = np.empty(3)
    for kernel, expected in zip(made(), (6.0, 5.0), strict=True):
        kernel(3, 1, np.full(3, 3.0), y, 2.0)
        assert y.tolist() == [expected] * 3


@native
def count_visits(first: int, last: int, visits: Array) -> None:
    for i in range(first, last):
        visits[i] = visits[i] + 1.0


@needs_llvm
def test_every_row_is_computed_once_whoever_computes_it():
    visits = np.zeros(1_000_003)
    for _ in range(50):
        count_visits(visits.size, 1, visits)
    assert visits.min() == visits.max() == 50


@needs_llvm
def test_threads_that_call_at_once_each_get_their_own_result():
    def work(k: int) -> None:
        x = np.full(300_000, float(k))
        y = np.empty_like(x)
        for _ in range(20):
            apply_exp(x.size, 1, x, y)
        wrong.extend(np.flatnonzero(np.abs(y / math.exp(k) - 1) > 1e-14).tolist())

    wrong: list[int] = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


THREADS = """
import threading
import pellucid as torch
x = torch.randn(600, 600)
counts = []
for threads in (1, 2, 1, 2):
    torch.set_num_threads(threads)
    counts.append(bool(((x @ x).softmax(1) == (x @ x).softmax(1)).all()))
    counts.append(sum(thread.name == "pellucid-kernel" for thread in threading.enumerate()))
print(counts)
"""


@needs_llvm
def test_set_num_threads_says_how_many_share():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[True, 0, True, 1, True, 1, True, 1]\n", done.stderr


FIRST_CHOICE = """
import os
from pellucid.core import blas
from pellucid.core.allocator import keep_memory
from pellucid.native import kernel
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
print(kernel.hands() == min(cores, 8), keep_memory())
"""


def test_what_nobody_chose_is_one_thread_per_core():
    told = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    variables = {name: value for name, value in os.environ.items() if name not in told}
    for environment, expected in (
        ({}, "True"), ({"OMP_NUM_THREADS": "0"}, "True"), ({"OMP_NUM_THREADS": "99"}, str(os.cpu_count() == 8)),
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CHOICE], capture_output=True, text=True, timeout=120,
            env={**variables, **environment, "PELLUCID_MALLOC": "0"},
        )  # fmt: skip
        assert done.stdout == f"{expected} False\n", done.stderr


FORKED = """
import os
import numpy as np
import pellucid as torch
x = torch.randn(600, 600)
expected = (x @ x).softmax(1)
child = os.fork()
if child == 0:
    os._exit(0 if bool(((x @ x).softmax(1) == expected).all()) else 1)
assert os.waitpid(child, 0)[1] == 0
print("same")
"""


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_its_own_pool():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "same\n", done.stderr


@native
def strided_gemm(first: int, last: int, a: Array, b: Array, c: Array) -> None:
    for i in range(first, last):
        gemm(0, 1, 2, 3, 4, 2.0, a, i * 10, 5, b, i * 15, 5, 1.0, c, i * 8, 4)


@needs_llvm
@pytest.mark.skipif(not kernels.has_products(), reason="NumPy was built with another BLAS")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_inside_a_kernel(dtype):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=(2, size)).astype(dtype) for size in (10, 15, 8))
    expected = c.copy()
    strided_gemm.function(0, 2, a.reshape(-1), b.reshape(-1), expected.reshape(-1))
    strided_gemm(2, 1 << 20, a, b, c)
    np.testing.assert_allclose(c, expected, rtol=1e-5)
    assert not np.array_equal(c[0, :3], c[1, :3])


# --- our matrix products


@lru_cache(maxsize=2)
def _product(dtype):
    """Our product as a function of Python, on any processor: LLVM cuts vectors into what there is."""
    from pellucid.native.llvm import compiled

    number = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    name, whole, place = f"pellucid_tested_product_{np.dtype(dtype).char}", ctypes.c_int64, ctypes.c_void_p
    signature = ctypes.CFUNCTYPE(
        None, *(ctypes.c_int32,) * 3, *(whole,) * 3, number, *(place, whole) * 2, number, place, whole
    )
    return signature(compiled(products.assembly(name, kernels.FLOATING[np.dtype(dtype)]))(name))


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("across_b", [0, 1])
@pytest.mark.parametrize("across_a", [0, 1])
def test_our_products_are_right_up_to_their_edges(dtype, across_a, across_b):
    """Each remainder of rows and columns and sums of more than one panel; nothing beside the result is touched."""
    rng = np.random.default_rng(0)
    sizes = [(m, n, k) for m in (*range(1, 14), 24) for n, k in ((1, 3), (15, 40), (17, 1), (33, 16), (70, 17))]
    deep = products.DEPTH
    for m, n, k in [*sizes, (5, 9, deep), (13, 40, deep + 5), (30, 64, 2 * deep), (2, 2, 0)]:
        a = rng.normal(size=(k, m + 2) if across_a else (m, k + 2)).astype(dtype)
        b = rng.normal(size=(n, k + 1) if across_b else (k, n + 1)).astype(dtype)
        whole = rng.normal(size=(m + 2, n + 3)).astype(dtype)
        first, second = a[:, :m].T if across_a else a[:, :k], b[:, :k].T if across_b else b[:, :n]
        for alpha, beta in ((1.0, 0.0), (0.5, 1.0), (2.0, 0.25)):
            c, expected = whole.copy(), whole.copy()
            if not beta:
                c[1:-1, 1:-2] = np.nan  # what is not asked for is not read
            old = beta * whole[1:-1, 1:-2] if beta else 0
            expected[1:-1, 1:-2] = alpha * (first.astype(np.float64) @ second) + old
            place = c[1:-1, 1:-2].ctypes.data
            steps = a.shape[1], b.shape[1], c.shape[1]
            _product(dtype)(
                101, 111 + across_a, 111 + across_b, m, n, k, alpha, a.ctypes.data, steps[0], b.ctypes.data, steps[1],
                beta, place, steps[2],
            )  # fmt: skip
            np.testing.assert_allclose(c, expected, atol=1e-4 if dtype == np.float32 else 1e-12)
            c[1:-1, 1:-2] = expected[1:-1, 1:-2] = 0
            np.testing.assert_array_equal(c, expected)


@needs_llvm
@pytest.mark.parametrize("across_b", [0, 1])
def test_our_products_in_plain_python(across_b):
    """The loops mean in Python what they do as machine code."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(15, 20)), rng.normal(size=(23, 20) if across_b else (20, 23))
    c, panel = np.ones((15, 23)), np.empty(products.DEPTH * 16)
    products.multiply(0, across_b, 15, 23, 20, 2.0, a, 20, b, b.shape[1], 0.5, c, 23, panel, 16)
    np.testing.assert_allclose(c, 2 * a @ (b.T if across_b else b) + 0.5, rtol=1e-13)


@native
def copied_strip(first: int, last: int, x: Array, columns: Array, left: int, right: int, width: int) -> None:
    for _ in range(first, last):
        strip(x, 0, left, right, columns, 0, width)


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_strip_is_zero_outside_its_line(dtype):
    x = np.arange(1, 81, dtype=dtype)
    for width in (1, 7, 8, 16, 17, 40):
        for left, right in ((0, width), (2, width - 1), (3, 3), (width, width), (0, 1)):
            out, plain = np.full(64, -1, dtype), np.full(64, -1, dtype)
            copied_strip(1, 1, x, out, left, right, width)
            copied_strip.function(0, 1, x, plain, left, right, width)
            np.testing.assert_array_equal(out[:width], plain[:width])
            assert out[:width].sum() == x[left : max(left, min(right, width))].sum()
            assert np.all(out[width + 16 :] == -1)  # at most the rest of a vector is written beyond


# --- the operations that have both forms: NumPy's and the compiled one

SHAPE = (96, 80)  # above every threshold


def _normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def _both():
    """(name, function of tensors, tensors): each is large enough for its loop."""
    F = torch.nn.functional
    image, weight = _normal(8, 6, 13, 11), _normal(8, 3, 3, 3)
    rows, targets = _normal(*SHAPE), torch.randint(0, SHAPE[1], (SHAPE[0],))
    heads = [_normal(2, 40, 3, 8).transpose(1, 2) for _ in range(3)]
    wide = _normal(600, 500)
    return {
        "softmax": (lambda x: F.softmax(x, -1), rows),
        "log_softmax": (lambda x: F.log_softmax(x, -1), rows),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (80,), w, b), rows, _normal(80), _normal(80)),
        "rms_norm": (lambda x, w: F.rms_norm(x, (80,), w), rows, _normal(80)),
        "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, None, True), image, _normal(6)),
        "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), image, _normal(6), _normal(6)),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), rows),
        "silu": (F.silu, rows),
        "sigmoid": (torch.sigmoid, rows),
        "cross_entropy": (lambda x: F.cross_entropy(x, targets), rows),
        "matmul": (lambda a, b: a @ b, _normal(100, 90), _normal(90, 110)),
        "matmul transposed": (lambda a, b: a.mT @ b.mT, _normal(90, 100), _normal(110, 90)),
        "bmm": (torch.bmm, _normal(20, 30, 40), _normal(20, 40, 30)),
        "linear": (F.linear, _normal(7, 60, 50), _normal(90, 50), _normal(90)),
        "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2), image, weight, _normal(8)),
        "conv2d dilated": (lambda x, w: F.conv2d(x, w, padding=3, dilation=2, groups=2), image, weight),
        "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), image, _normal(6, 8, 3, 3)),
        "conv1d": (lambda x, w: F.conv1d(x, w, padding=4, stride=3), _normal(4, 8, 50), _normal(16, 8, 9)),
        "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *heads),
        "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *heads),
        "long causal attention": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            _normal(2, 150, 8),
            _normal(2, 140, 8),
            _normal(2, 140, 5),
        ),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), image.round()),  # with many equal numbers
        "max_pool2d overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), image.round()),
        "max_pool2d of NaN": (lambda x: F.max_pool2d(torch.where(x > 2, torch.nan, x), 2).isnan() * x.max(), image),
        "max_pool1d": (lambda x: F.max_pool1d(x, 5, 2, 2, ceil_mode=True), _normal(4, 30, 50)),
        "cumsum": (lambda x: x.cumsum(-1), rows),
        "index_add": (lambda x, y: x.index_add(0, targets % 90, y), _normal(90, 80), rows),
        "embedding": (lambda table: F.embedding(targets, table), rows),
        "large sums": (lambda a, b: a * b + a - b * b, wide, wide.flip(0)),
    }


def _result(function, tensors, dtype):
    leaves = [tensor.to(dtype).detach().clone().requires_grad_() for tensor in tensors]
    y = function(*leaves)
    weights = torch.arange(y.numel(), dtype=dtype).cos().reshape(y.shape)
    (y * weights).sum().backward()
    return [y.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


@needs_llvm
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", _both())
def test_compiled_and_plain_forms_agree(name, dtype, monkeypatch):
    torch.manual_seed(0)
    function, *tensors = _both()[name]
    used = []
    for way in ("__call__", "evenly"):
        call = getattr(kernels.Kernel, way)
        spy = lambda self, *a, call=call: (used.append(self.name), call(self, *a))[1]
        monkeypatch.setattr(kernels.Kernel, way, spy)
    monkeypatch.setattr("pellucid.ops.gemm.hands", lambda: 2)  # tests may be told to use one core
    compiled = _result(function, tensors, dtype)
    assert used, "no kernel was used: the test is too small"
    monkeypatch.setattr(kernels, "available", lambda: False)
    used.clear()
    plain = _result(function, tensors, dtype)
    assert not used
    for got, expected in zip(compiled, plain, strict=True):
        scale = np.abs(expected).max() + 1e-300
        np.testing.assert_allclose(got / scale, expected / scale, atol=1e-5 if dtype is torch.float32 else 1e-13)


@needs_llvm
def test_gelu_agrees_with_its_plain_form(monkeypatch):
    x = torch.linspace(-20, 20, 5000)
    compiled = _result(torch.nn.functional.gelu, [x], torch.float32)
    monkeypatch.setattr(kernels, "available", lambda: False)
    for got, expected in zip(compiled, _result(torch.nn.functional.gelu, [x], torch.float32), strict=True):
        np.testing.assert_allclose(got, expected, atol=2e-6)


def test_an_index_outside_its_plane_is_refused_whatever_computes():
    from pellucid.ops.nn.winners import pick, spread

    a, index = np.ones((2, 50, 50), np.float32), np.full((2, 50, 50), 2500)
    for compute in (lambda: pick(a, index, 2), lambda: spread(a, index, (50, 50))):
        with pytest.raises(IndexError):
            compute()


@needs_llvm
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2}], ids=str)
def test_the_lstm_agrees_with_its_plain_form(options, monkeypatch):
    torch.manual_seed(0)
    model, x = torch.nn.LSTM(12, 40, **options), torch.randn(30, 9, 12)

    def run():
        model.zero_grad()
        y, (h, c) = model(x)
        (y.sin().sum() + h.cos().sum() + (c * c).sum()).backward()
        return [y.detach().numpy(), *(p.grad.numpy() for p in model.parameters())]

    compiled = run()
    monkeypatch.setattr(kernels, "available", lambda: False)
    for got, expected in zip(compiled, run(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)


@needs_llvm
def test_adam_agrees_with_its_plain_form(monkeypatch):
    def run():
        torch.manual_seed(0)
        weight = torch.randn(90, 90).requires_grad_()
        small = [torch.randn(40, 41).requires_grad_() for _ in range(4)]
        optimizer = torch.optim.AdamW([weight, *small], lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            sum((p.sin() * p).sum() for p in (weight, *small)).backward()
            optimizer.step()
        return [p.detach().numpy().copy() for p in (weight, *small)]

    compiled = run()
    monkeypatch.setattr(kernels, "available", lambda: False)
    for got, expected in zip(compiled, run(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)


@needs_llvm
def test_a_row_of_nothing_to_attend_to_is_zero_in_both_forms():
    q = torch.randn(1, 1, 80, 8)
    k = torch.full((1, 1, 80, 8), -math.inf)
    y = torch.nn.functional.scaled_dot_product_attention(q.abs(), k, torch.randn(1, 1, 80, 8))
    assert torch.equal(y, torch.zeros_like(y))


def test_without_llvmlite_everything_still_computes():
    program = (
        "import pellucid as torch; x = torch.randn(600, 600, requires_grad=True); (x @ x).softmax(1).sum().backward()"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print('llvmlite' in sys.modules, x.grad.shape)"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PELLUCID_NATIVE": "0"},
    )  # fmt: skip
    assert done.stdout == "False torch.Size([600, 600])\n", done.stderr


def test_small_tensors_load_no_compiler():
    program = "import pellucid as torch; torch.nn.Linear(8, 8)(torch.randn(4, 8)).softmax(1).sum().backward()"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; import sys; print('llvmlite' in sys.modules)"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "False\n", done.stderr


def _products(x, w, b, seed):
    """A program of products whose gradients meet in sums; what it leaves behind, in an order of its own."""
    leaves = [each.clone().requires_grad_() for each in (x, w, b)]
    x, w, b = leaves
    middle = x * w
    middle.retain_grad()
    seen = []
    y = middle * w + b
    y.register_hook(lambda grad: seen.append(grad.clone()))
    ((y * y * 3.0) * w + middle).backward(seed)
    return [middle.grad, *seen, *(leaf.grad for leaf in leaves)]


@needs_llvm
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_products_are_summed_to_the_bit_and_leave_what_others_hold(dtype):
    size = large.LARGE + 100
    inputs = [torch.randn(size, dtype=dtype) for _ in range(4)]
    before = [each.clone() for each in inputs]
    together = _products(*inputs)
    for each, was in zip(inputs, before, strict=True):
        assert torch.equal(each, was)
    pieces = [_products(*(each[i : i + 1000] for each in inputs)) for i in range(0, size, 1000)]
    for whole, parts in zip(together, zip(*pieces, strict=True), strict=True):
        assert torch.equal(whole, torch.cat(parts))


@needs_llvm
def test_a_large_product_of_a_column_sums_its_gradient():
    x, column = torch.randn(600, 200, requires_grad=True), torch.randn(600, 1, requires_grad=True)
    weights = torch.randn(600, 200)
    (x * column * weights).sum().backward()
    assert torch.equal(x.grad, column.detach() * weights)
    assert torch.allclose(column.grad, (x.detach() * weights).sum(1, keepdim=True), rtol=1e-4, atol=1e-4)
