"""The programs that are timed, written once against the torch API and handed the library to run on.

Each builder takes the library (`torch` or `pellucid`), makes its inputs, and returns a function of no
arguments that does the work once. Nothing here knows which library it was given.
"""

import functools
from collections.abc import Callable
from itertools import pairwise

import numpy

Step = Callable[[], object]

CHAIN_OPS = 21


# What a program may have to do with NumPy's memory: nothing; an array that this computation never meets; everything.
OWN, BESIDE, SHARED = "leaves by tensor()", "one from_numpy alive beside", "leaves by from_numpy"


def chain(torch, shape: tuple[int, ...], situation: str = OWN) -> Step:
    """21 multiplications and additions, a sum, and the backward pass through all of them."""
    generator = numpy.random.default_rng(0)
    # Near one and near zero: twenty-one steps must neither overflow nor sink into slow denormal numbers.
    ranges = ((0.5, 1.0), (0.95, 0.1), (0.0, 0.1))
    arrays = [numpy.asarray(low + width * generator.random(shape), numpy.float32) for low, width in ranges]
    make = torch.from_numpy if situation == SHARED else torch.tensor
    x, w, b = (make(array).requires_grad_() for array in arrays)
    unrelated = numpy.ones(3, numpy.float32)
    beside = torch.from_numpy(unrelated) if situation == BESIDE else None

    def step(_alive=(arrays, unrelated, beside)):  # as in a program: what it made it still holds, and may write to
        x.grad = w.grad = b.grad = None
        y = x
        for _ in range(CHAIN_OPS // 2):
            y = y * w
            y = y + b
        y = y * w
        y.sum().backward()

    return step


# Each takes the namespace too (`torch`, `pellucid` or `numpy`) so that plain NumPy runs the same line.
SINGLE_OPS: dict[str, tuple[tuple[int, ...], Callable]] = {
    "mul": ((16,), lambda xp, a, b: a * b),
    "add": ((16,), lambda xp, a, b: a + b),
    "exp": ((16,), lambda xp, a, b: xp.exp(a)),
    "matmul": ((8, 8), lambda xp, a, b: a @ b),
    "reshape": ((16,), lambda xp, a, b: a.reshape(4, 4)),
    "sum": ((16,), lambda xp, a, b: a.sum()),
}


def single_op(torch, name: str) -> Step:
    """One recorded operation on a small tensor: nearly all of its time is the library's overhead."""
    shape, function = SINGLE_OPS[name]
    torch.manual_seed(0)
    a = torch.rand(shape).requires_grad_()
    b = torch.rand(shape).requires_grad_()
    return lambda: function(torch, a, b)


def single_op_numpy(numpy, name: str) -> Step:
    """The same operation on bare arrays: the floor that no library on NumPy can go below."""
    shape, function = SINGLE_OPS[name]
    generator = numpy.random.default_rng(0)
    a = generator.random(shape, dtype=numpy.float32)
    b = generator.random(shape, dtype=numpy.float32)
    return lambda: function(numpy, a, b)


# Forward and backward of one operation of medium size: the shapes of its float inputs, and what is computed of them.
# Integers are drawn below `below`; every result is weighted by fixed random numbers of its own shape and summed.
KERNELS: dict[str, tuple[tuple[tuple[int, ...], ...], Callable]] = {
    "conv2d 64x3x32x32 -> 16, 3x3": (
        ((64, 3, 32, 32), (16, 3, 3, 3), (16,)),
        lambda torch, x, w, b: torch.nn.functional.conv2d(x, w, b, padding=1),
    ),
    "conv2d 32x64x8x8 -> 64, 3x3": (
        ((32, 64, 8, 8), (64, 64, 3, 3), (64,)),
        lambda torch, x, w, b: torch.nn.functional.conv2d(x, w, b, padding=1),
    ),
    "max_pool2d 64x16x32x32, 2": (((64, 16, 32, 32),), lambda torch, x: torch.nn.functional.max_pool2d(x, 2)),
    "max_pool2d 64x16x32x32, 3 step 2": (
        ((64, 16, 32, 32),),
        lambda torch, x: torch.nn.functional.max_pool2d(x, 3, 2, 1),
    ),
    "embedding 10000x128, 64x128": (
        ((10_000, 128),),
        lambda torch, table: torch.nn.functional.embedding(_integers(torch, (64, 128), 10_000), table),
    ),
    "layer_norm 32x128x256": (
        ((32, 128, 256), (256,), (256,)),
        lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (256,), w, b),
    ),
    "batch_norm 64x16x32x32": (
        ((64, 16, 32, 32), (16,), (16,)),
        lambda torch, x, w, b: torch.nn.functional.batch_norm(x, None, None, w, b, training=True),
    ),
    "softmax 32x8x128x128": (((32, 8, 128, 128),), lambda torch, x: torch.softmax(x, -1)),
    "gelu 64x1024": (((64, 1024),), lambda torch, x: torch.nn.functional.gelu(x)),
    "cross entropy 4096x65": (
        ((4096, 65),),
        lambda torch, x: torch.nn.functional.cross_entropy(x, _integers(torch, (4096,), 65)),
    ),
    "index_add 10000x128, 8192": (
        ((10_000, 128), (8192, 128)),
        lambda torch, x, source: torch.index_add(x, 0, _integers(torch, (8192,), 10_000), source),
    ),
    "cumsum 1024x1024": (((1024, 1024),), lambda torch, x: torch.cumsum(x, 1)),
    "sort 1000x1000": (((1000, 1000),), lambda torch, x: torch.sort(x).values),
}


@functools.cache
def _integers(torch, shape: tuple[int, ...], below: int):
    torch.manual_seed(1)
    return torch.randint(below, shape)


def kernel(torch, name: str) -> Step:
    """One operation forward and backward, with gradients of all its inputs."""
    shapes, function = KERNELS[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    weights = torch.rand(tuple(function(torch, *inputs).shape))

    def step():
        for x in inputs:
            x.grad = None
        function(torch, *inputs).backward(weights)

    return step


MLP_SIZES = (32, 64, 64, 10)
MLP_BATCH = 16


def _mlp(torch):
    torch.manual_seed(0)
    weights = [
        (torch.randn(size_in, size_out) * size_in**-0.5).requires_grad_() for size_in, size_out in pairwise(MLP_SIZES)
    ]
    biases = [torch.zeros(size_out, requires_grad=True) for size_out in MLP_SIZES[1:]]
    inputs, targets = torch.randn(MLP_BATCH, MLP_SIZES[0]), torch.randn(MLP_BATCH, MLP_SIZES[-1])
    parameters = weights + biases

    def step():
        for parameter in parameters:
            parameter.grad = None
        hidden = inputs
        for weight, bias in zip(weights[:-1], biases[:-1]):
            hidden = (hidden @ weight + bias).tanh()
        error = hidden @ weights[-1] + biases[-1] - targets
        (error * error).mean().backward()

    return parameters, step


def mlp(torch) -> Step:
    """Forward and backward of a 32-64-64-10 perceptron on a batch of 16."""
    return _mlp(torch)[1]


def mlp_training(torch) -> Step:
    """The same perceptron with a step of gradient descent, for the memory run."""
    parameters, forward_backward = _mlp(torch)

    def step():
        forward_backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.01 * parameter.grad

    return step


def long_chain(torch, length: int) -> tuple[Step, Callable[[object], None]]:
    """For a scalar chain of `length` nodes: `forward()` makes it, `backward(y)` walks and frees it."""
    x = torch.ones((), requires_grad=True)
    w = torch.ones((), requires_grad=True)

    def forward():
        y = x
        for _ in range(length):
            y = y * w
        return y

    def backward(y):
        x.grad = w.grad = None
        y.backward()

    return forward, backward
