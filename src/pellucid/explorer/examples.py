"""The ready examples: short programs, run by Pellucid when the page is made. No number here is typed in."""

from functools import cache
from typing import Any

from pellucid.explorer.snapshot import Seen
from pellucid.explorer.source import look_source

__all__ = ["examples", "seen_examples"]

FROM_THE_START = {"mode": "forward", "step": 0}
ONE_NUMBER = {"min": -5, "max": 5, "step": 0.5}

CHAIN = """\
x = torch.tensor(2.0, requires_grad=True)
a = x * 3
b = a + 1
c = b ** 2
"""

LOSS = """\
x = torch.tensor(2.0, requires_grad=True)
w = torch.tensor(0.5, requires_grad=True)
b = torch.tensor(0.1, requires_grad=True)
target = torch.tensor(0.8)
z1 = w * x
z2 = z1 + b
diff = z2 - target
loss = diff ** 2
"""

ACCUMULATION = """\
x = torch.tensor(3.0, requires_grad=True)
y = x * x
"""

SLIDERS = """\
a = torch.tensor(2.0, requires_grad=True)
b = torch.tensor(3.0, requires_grad=True)
sum = a + b
c = sum * b
"""

LAYER = """\
torch.manual_seed(0)
W = torch.nn.Parameter(torch.randn(3, 4))
b = torch.nn.Parameter(torch.zeros(3))
x = torch.randn(4)
z = W @ x + b
y = torch.tanh(z)
loss = (y ** 2).sum()
"""

SOFTMAX = """\
x = torch.tensor(1.0, requires_grad=True)
z = torch.tensor(2.0, requires_grad=True)
ex = torch.exp(x)
ez = torch.exp(z)
total = ex + ez
p = ex / total
"""

RELU_TANH = """\
x = torch.tensor(2.0, requires_grad=True)
r = torch.relu(x)
t = torch.tanh(x)
both = r + t
"""

XOR = """\
x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
t = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
runs = []
for rate in (0.05, 0.2):
    random = np.random.RandomState(42)
    W1 = torch.tensor(random.randn(2, 8) * 0.5, dtype=torch.float32, requires_grad=True)
    b1 = torch.zeros(1, 8, requires_grad=True)
    W2 = torch.tensor(random.randn(8, 1) * 0.5, dtype=torch.float32, requires_grad=True)
    b2 = torch.zeros(1, 1, requires_grad=True)
    runs.insert(0, Training({"W1": W1, "b1": b1, "W2": W2, "b2": b2}, name=f"rate {rate}"))
    for step in range(200):
        h = torch.tanh(x @ W1 + b1)
        y = h @ W2 + b2
        loss = ((y - t) ** 2).mean()
        loss.backward(retain_graph=step == 199)
        runs[0].step(loss, note=" ".join(f"{p:.2f}" for p in y.flatten().tolist()))
        with torch.no_grad():
            for parameter in (W1, b1, W2, b2):
                parameter.data = parameter.data - rate * parameter.grad
                parameter.grad = None
"""

NAN = """\
x = torch.tensor(0.0, requires_grad=True)
safe = torch.where(x > 0, torch.log(x), 0.0)
y = safe + x
"""

VANISHING = """\
x = torch.tensor(1.0, requires_grad=True)
h = [x]
for layer in range(20):
    h.append(torch.sigmoid(h[-1]))
y = 2 * h[20]
"""

DETACH = """\
x = torch.tensor(3.0, requires_grad=True)
a = x * x
frozen = a.detach()
y = frozen * x
"""

SHAPES = """\
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
b = torch.tensor([10.0, 20.0, 30.0], requires_grad=True)
z = x + b
turned = z.T
folded = z.reshape(3, 2)
p = z @ turned
q = turned * folded
top = z[0]
joined = torch.cat([b, top])
y = p.sum() + q.sum() + joined.sum()
"""

PROGRAMS: tuple[dict[str, Any], ...] = (
    {
        "id": "chain", "title": "A chain: x → a → b → c", "source": CHAIN, "result": "c", "start": FROM_THE_START,
        "note": "Forward computes the values one by one; backward multiplies the local derivatives on the way back.",
    },
    {
        "id": "loss", "title": "A loss: (w·x + b − target)²", "source": LOSS, "result": "loss",
        "start": {"mode": "backward", "step": 0},
        "note": "Eight boxes. The target asks for no gradient, so backward leaves it out.",
    },
    {
        "id": "accumulation", "title": "Accumulation: x · x", "source": ACCUMULATION, "result": "y",
        "note": "x is used twice, so its gradient is the sum of two contributions.",
    },
    {
        "id": "sliders", "title": "Play with it: (a + b) · b", "source": SLIDERS, "result": "c",
        "controls": {"a": ONE_NUMBER, "b": ONE_NUMBER},
        "note": "Move a and b. At b = 0 nothing reaches a any more.",
    },
    {
        "id": "layer", "title": "A layer: y = tanh(Wx + b)", "source": LAYER, "result": "loss",
        "annotate": {
            "W": {"symbol": "∂loss/∂W = δ xᵀ"}, "b": {"symbol": "∂loss/∂b = δ"},
            "z": {"symbol": "δ = ∂loss/∂y ⊙ (1 − y²)"}, "y": {"symbol": "∂loss/∂y = 2y"},
        },
        "note": "W and b are parameters: the optimizer changes them by their gradients. x is data.",
    },
    {
        "id": "softmax", "title": "Softmax: eˣ / (eˣ + eᶻ)", "source": SOFTMAX, "result": "p",
        "note": "eˣ is used twice: once above and once below the line.",
    },
    {
        "id": "relu-tanh", "title": "ReLU against tanh", "source": RELU_TANH, "result": "both",
        "controls": {"x": ONE_NUMBER},
        "note": "Move x. ReLU passes all or nothing; tanh passes less the further x is from 0.",
    },
    {
        "id": "xor", "title": "Training: XOR", "source": XOR, "result": "loss",
        "note": "200 steps of a 2-8-1 network, at two learning rates. Play the training below the graph.",
    },
    {
        "id": "nan", "title": "NaN through where", "source": NAN, "result": "y", "controls": {"x": ONE_NUMBER},
        "note": "where() has chosen 0, yet the branch it did not choose sends back 0 × ∞ = NaN.",
    },
    {
        "id": "vanishing", "title": "Vanishing through 20 sigmoids", "source": VANISHING, "result": "y",
        "note": "Every sigmoid multiplies the gradient by at most 1/4.",
    },
    {
        "id": "detach", "title": "detach", "source": DETACH, "result": "y",
        "note": "detach() cuts the path: backward treats frozen as a constant.",
    },
    {
        "id": "shapes", "title": "Shapes: where the elements go", "source": SHAPES, "result": "y",
        "note": "Click a box, then play how its elements come from those of its inputs. To turn is not to fold.",
    },
)  # fmt: skip


@cache
def _example(number: int) -> Seen:
    program = dict(PROGRAMS[number])
    name, source = program.pop("id"), program.pop("source")
    seen = look_source(source, filename=f"<{name}>", **program)
    return seen._replace(data={**seen.data, "id": name})


def examples() -> list[dict[str, Any]]:
    """The snapshots of all ready examples, computed now.

    >>> [example["id"] for example in examples()][:4]
    ['chain', 'loss', 'accumulation', 'sliders']
    """
    return [seen.data for seen in seen_examples()]


def seen_examples() -> list[Seen]:
    """The same with their programs."""
    return [_example(number) for number in range(len(PROGRAMS))]
