"""pellucid.why: thirty and more tiny programs, each with one reason for its gradient, and the line that is to blame.

The line is marked with `# <-`. Every program ends with the question, whose answer is called `verdict`.
"""

import gc
import linecache
import textwrap
import weakref

import pytest

import pellucid as torch
from pellucid.core import departures

START = """
import numpy as np
import pellucid as torch
from pellucid import nn
import pellucid.nn.functional as F
torch.manual_seed(0)
"""

NETWORK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)
    def forward(self, x):
        h = self.hidden(x)
        return self.second(h)
x, y = torch.randn(16, 4), torch.randn(16, 1)
"""

# name -> (code, program)
PROGRAMS = {
    # --- no gradient
    "never used": ("unused-parameter", """
        w = torch.ones(3, requires_grad=True)
        spare = torch.ones(3, requires_grad=True)  # <-
        loss = (w * 2).sum()
        loss.backward()
        verdict = torch.why(spare)
    """),
    "a layer never used": ("unused-parameter", NETWORK + """
class Spare(Net):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(4, 8)  # <-
    def hidden(self, x):
        return self.first(x)
model = Spare()
for step in range(3):
    loss = F.mse_loss(model(x), y)
    print(loss.item())
    loss.backward()
verdict = torch.why(model.spare.weight)
    """),
    "detach in a module": ("detached", NETWORK + """
class Cut(Net):
    def hidden(self, x):
        h = torch.relu(self.first(x))
        h = h.detach()  # <-
        return h * 2
model = Cut()
loss = F.mse_loss(model(x), y)
loss.backward()
verdict = torch.why(model.first.weight)
    """),
    "detach in a loop with logging": ("detached", NETWORK + """
class Cut(Net):
    def hidden(self, x):
        return self.first(x).detach()  # <-
model = Cut()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
for step in range(4):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    history.append(model.first.weight.detach())
verdict = torch.why(model.first.weight)
    """),
    "the loss is gone": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        def step():
            h = (w * 2).detach()  # <-
            (h * v).sum().backward()
        step()
        verdict = torch.why(w)
    """),
    ".data": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        h = (w * 3).data  # <-
        loss = (h[:2] * v[:2]).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "detach_": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        h = w * 3
        h.detach_()  # <-
        loss = torch.cat([h, v]).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "two detaches, one of them harmless": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        h = (w * 3).detach()  # <-
        loss = (h * v).sum()
        kept = (w * 4).detach()
        print(kept.sum())
        loss.backward()
        verdict = torch.why(w)
    """),
    "a detach that matters and an item for the log": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        h = (w * 3).detach()  # <-
        loss = (h * v).sum()
        print(w.norm().item())
        loss.backward()
        verdict = torch.why(w)
    """),
    "item": ("left-the-graph", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        scale = w.norm().item()  # <-
        loss = (v * scale).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "float()": ("left-the-graph", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        scale = float(w.sum())  # <-
        loss = (v * scale).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "tolist": ("left-the-graph", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        values = (w * 2).tolist()  # <-
        loss = (v * torch.tensor(values)).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "through NumPy": ("left-the-graph", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        array = (w * 2).detach().numpy()  # <-
        loss = (v * torch.from_numpy(np.exp(array))).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "a list of losses rebuilt": ("left-the-graph", """
        w = torch.ones(3, requires_grad=True)
        terms = [(w * i).sum() for i in range(3)]
        loss = torch.tensor(terms, requires_grad=True).mean()  # <-
        loss.backward()
        verdict = torch.why(w)
    """),
    "a big graph rebuilt from a number": ("left-the-graph", """
        model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(4, 4), nn.Tanh())])
        loss = model(torch.ones(2, 4)).sum()
        loss = torch.tensor(loss.item(), requires_grad=True)  # <-
        loss.backward()
        verdict = torch.why(model[0].weight)
    """),
    "no_grad": ("no-grad-region", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        with torch.no_grad():
            zeros = torch.zeros(3) + 1
            h = w * 2  # <-
            h = h + zeros
        loss = (h * v).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "a view under no_grad": ("no-grad-region", """
        w = torch.ones(4, requires_grad=True)
        with torch.no_grad():
            square = w.view(2, 2)  # <-
        (square * 3).sum().backward()
        verdict = torch.why(w)
    """),
    "a module under no_grad": ("no-grad-region", NETWORK + """
class Cut(Net):
    @torch.no_grad()
    def hidden(self, x):
        x = x / 2
        h = self.first(x)  # <-
        return torch.relu(h)
model = Cut()
loss = F.mse_loss(model(x), y)
loss.backward()
with torch.no_grad():
    print(F.mse_loss(model(x), y))
verdict = torch.why(model.first.bias)
    """),
    "inference_mode": ("no-grad-region", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        with torch.inference_mode():
            h = w.exp()  # <-
        loss = (h.clone() * v).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "a long network under no_grad": ("no-grad-region", """
        body = nn.Sequential(*[layer for _ in range(20) for layer in (nn.Linear(4, 4), nn.ReLU())])
        head = nn.Linear(4, 1)
        with torch.no_grad():
            features = body(torch.randn(2, 4))  # <-
        loss = head(features).sum()
        loss.backward()
        verdict = torch.why(body[38].weight)
    """),
    "a comparison": ("non-differentiable-op", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        hits = (w * 2 > 1).float()  # <-
        loss = (hits * v).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "argmax": ("non-differentiable-op", """
        w, table = torch.ones(2, 3, requires_grad=True), torch.randn(3, requires_grad=True)
        best = (w * 2).argmax(1)  # <-
        loss = table[best].sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "an integer cast": ("non-differentiable-op", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        h = (w * 2).long()  # <-
        loss = (h * v).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "frozen": ("frozen-parameter", """
        layer = nn.Linear(2, 2)
        layer.weight.requires_grad = False  # <-
        layer(torch.ones(1, 2)).sum().backward()
        verdict = torch.why(layer.weight)
    """),
    "frozen with the module": ("frozen-parameter", """
        layer = nn.Linear(2, 2)
        layer.requires_grad_(False)  # <-
        verdict = torch.why(layer.weight)
    """),
    "not a leaf": ("not-a-leaf", """
        w = torch.ones(3, requires_grad=True)
        h = w * 2  # <-
        h.sum().backward()
        verdict = torch.why(h)
    """),
    "a parameter that is none": ("not-a-leaf", """
        w = torch.randn(3, requires_grad=True) * 0.1  # <-
        loss = (w * w).sum()
        verdict = torch.why(w, loss)
    """),
    "no backward": ("backward-not-run", """
        w = torch.ones(3, requires_grad=True)  # <-
        loss = (w * 2).sum()
        verdict = torch.why(w)
    """),
    "no backward of this loss": ("backward-not-run", """
        w = torch.ones(3, requires_grad=True)
        loss = (w * 2).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "cleared by the optimizer": ("gradient-cleared", """
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        (w * 2).sum().backward()
        optimizer.zero_grad()  # <-
        verdict = torch.why(w)
    """),
    "cleared by the module": ("gradient-cleared", """
        layer = nn.Linear(2, 2)
        layer(torch.ones(1, 2)).sum().backward()
        layer.zero_grad()  # <-
        verdict = torch.why(layer.weight)
    """),
    "cleared by hand": ("gradient-cleared", """
        w = torch.ones(3, requires_grad=True)
        (w * 2).sum().backward()
        w.grad = None  # <-
        verdict = torch.why(w)
    """),
    "filled with zeros": ("gradient-cleared", """
        w = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        (w * 2).sum().backward()
        optimizer.zero_grad(set_to_none=False)  # <-
        verdict = torch.why(w)
    """),
    "cleared, and cut off in the next step": ("detached", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([w, v], lr=0.1)
        for step in range(2):
            optimizer.zero_grad()
            h = w * 2
            if step:
                h = h.detach()  # <-
            loss = (h * v).sum()
            loss.backward()
        verdict = torch.why(w)
    """),
    "a detached loss": ("detached", """
        w = torch.ones(3, requires_grad=True)
        loss = (w * 2).detach().sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "a detached tensor itself": ("detached", """
        w = torch.ones(3, requires_grad=True)
        h = (w * 2).detach()  # <-
        verdict = torch.why(h)
    """),
    # --- zero
    "dead relu": ("dead-relu", """
        w = torch.ones(3, requires_grad=True)
        h = w * -5
        h = torch.relu(h)  # <-
        loss = (h * 2).sum()
        verdict = torch.why(w, loss)
    """),
    "the layer behind a dead relu": ("dead-relu", NETWORK + """
class Dead(Net):
    def hidden(self, x):
        with torch.no_grad():
            self.first.bias.fill_(-100.0)
        h = self.first(x)
        return F.relu(h)  # <-
model = Dead()
loss = F.mse_loss(model(x), y)
verdict = torch.why(model.second.weight, loss)
    """),
    "saturated": ("saturated-activation", """
        w = torch.full((3,), 200.0, requires_grad=True)
        loss = torch.sigmoid(w).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "a saturated softmax": ("saturated-activation", """
        w = torch.tensor([[500.0, 0.0]], requires_grad=True)
        p = w.softmax(1)  # <-
        loss = (p[:, 0] - 1).pow(2).sum() + p[:, 1].sum()
        verdict = torch.why(w, loss)
    """),
    "clamped": ("clamped", """
        w = torch.full((3,), 7.0, requires_grad=True)
        h = w.clamp(0, 1)  # <-
        loss = (h * 3).sum()
        verdict = torch.why(w, loss)
    """),
    "relu6": ("clamped", """
        w = torch.full((3,), 7.0, requires_grad=True)
        loss = F.hardtanh(w * 2).mean()  # <-
        verdict = torch.why(w, loss)
    """),
    "masked": ("masked", """
        w, v = torch.ones(4, requires_grad=True), torch.ones(4)
        mask = torch.tensor([True, True, True, True])
        h = torch.where(mask, v, w)  # <-
        loss = h.sum() + 0 * v.sum()
        verdict = torch.why(w, loss)
    """),
    "masked by a factor": ("masked", """
        w, v = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
        mask = torch.tensor([1.0, 1.0, 0.0, 0.0])
        h = torch.cat([v[:2], w[2:] * 3])
        loss = (h * mask).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "masked_fill": ("masked", """
        w = torch.ones(4, requires_grad=True)
        loss = (w * 2).masked_fill(w > 0, 0.0).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "times zero": ("multiplied-by-zero", """
        w, v = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        penalty = 0.0
        loss = v.sum() + penalty * w.pow(2).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "times a weight of zeros": ("multiplied-by-zero", """
        first, second = torch.randn(4, 4, requires_grad=True), torch.zeros(4, 4, requires_grad=True)
        h = torch.tanh(torch.ones(2, 4) @ first)
        loss = ((h @ second) - 1).pow(2).mean()  # <-
        verdict = torch.why(first, loss)
    """),
    "underflow of exp": ("underflow", """
        w = torch.full((3,), 300.0, requires_grad=True)
        loss = torch.exp(-w).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "underflow of a product": ("underflow", """
        w = torch.full((3,), 1e-30, requires_grad=True)
        v = torch.full((3,), 1e-30, requires_grad=True)
        p = w * v  # <-
        u = torch.full((3,), 2.0, requires_grad=True)
        loss = (p * u).sum()
        verdict = torch.why(u, loss)
    """),
    "round": ("non-differentiable-op", """
        w = torch.ones(3, requires_grad=True)
        loss = torch.round(w * 2).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "cancelled": ("cancelled", """
        w = torch.ones(3, requires_grad=True)
        loss = (w * 2 - w * 2).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    # --- NaN and Inf
    "log of zero": ("log-of-zero", """
        w = torch.tensor([0.0, 1.0], requires_grad=True)
        loss = torch.log(w * 2).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "log of a negative number": ("log-of-zero", """
        w, v = torch.tensor([-1.0, 1.0], requires_grad=True), torch.ones(2, requires_grad=True)
        h = (w * 2).log()  # <-
        loss = (h * v).sum()
        verdict = torch.why(v, loss)
    """),
    "division by zero": ("division-by-zero", """
        w = torch.zeros(2, requires_grad=True)
        count = torch.zeros(2)
        loss = ((w + 1) / count).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "zero by zero": ("division-by-zero", """
        w = torch.zeros(2, requires_grad=True)
        h = w * 1
        loss = (h / h.sum()).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "sqrt at zero": ("sqrt-at-zero", """
        w = torch.zeros(2, requires_grad=True)
        loss = torch.sqrt((w * w).sum())  # <-
        verdict = torch.why(w, loss)
    """),
    "a power below one": ("sqrt-at-zero", """
        w = torch.zeros(2, requires_grad=True)
        loss = ((w * 2) ** 0.5).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "std of one value": ("division-by-zero", """
        w = torch.ones(1, requires_grad=True)
        loss = (w * w).std()  # <-
        verdict = torch.why(w, loss)
    """),
    "exp overflows": ("overflow", """
        w = torch.tensor([1000.0, 1001.0], requires_grad=True)
        e = torch.exp(w)  # <-
        loss = -torch.log(e[0] / e.sum())
        verdict = torch.why(w, loss)
    """),
    "where hides it": ("nan-in-unselected-branch", """
        w = torch.tensor([0.0, 4.0], requires_grad=True)
        root = torch.sqrt(w * 1)  # <-
        loss = torch.where(w > 0, root, w).sum()
        verdict = torch.why(w, loss)
    """),
    "where hides a log": ("nan-in-unselected-branch", """
        w = torch.tensor([0.0, 4.0], requires_grad=True)
        loss = torch.where(
            w > 0,
            torch.log(w),  # <-
            torch.zeros(2),
        ).sum()
        verdict = torch.why(w, loss)
    """),
    "NaN in the data": ("nan-input", """
        layer = nn.Linear(2, 1)
        data = torch.tensor([[1.0, float("nan")]])
        out = layer(data)  # <-
        loss = out.pow(2).mean()
        verdict = torch.why(layer.weight, loss)
    """),
    # --- scale
    "vanishing": ("vanishing-gradient", """
        w = torch.full((4,), 0.5, requires_grad=True)
        h = w
        for _ in range(12):
            h = torch.sigmoid(h) * 0.5  # <-
        loss = h.sum()
        verdict = torch.why(w, loss)
    """),
    "one saturated tanh": ("saturated-activation", """
        w = torch.full((4,), 8.5, requires_grad=True)
        h = w * 1.0
        loss = torch.tanh(h).sum()  # <-
        verdict = torch.why(w, loss)
    """),
    "exploding": ("exploding-gradient", """
        w = torch.ones(2, requires_grad=True)
        h = w
        for _ in range(12):
            h = h * 4  # <-
        loss = h.sum()
        loss.backward(retain_graph=True)
        verdict = torch.why(w)
    """),
    # --- as people write it
    "a generator behind a detach": ("detached", """
G, D = nn.Linear(2, 2), nn.Linear(2, 1)
fake = G(torch.randn(4, 2))
d = D(fake.detach())  # <-
loss = F.binary_cross_entropy_with_logits(d, torch.zeros(4, 1))
loss.backward()
verdict = torch.why(G.weight)
    """),
    "np.asarray": ("left-the-graph", """
model = nn.Linear(3, 1)
out = model(torch.randn(5, 3))
arr = np.asarray(out.detach())  # <-
head = nn.Linear(1, 1)
loss = head(torch.as_tensor(arr)).mean()
loss.backward()
verdict = torch.why(model.weight)
    """),
    "item in a loop": ("left-the-graph", """
w = torch.ones(2, requires_grad=True)
m = nn.Linear(2, 1)
total = 0.0
for i in range(3):
    total += (w * i).sum().item()  # <-
loss = m(torch.ones(1, 2)).sum() * total
loss.backward()
verdict = torch.why(w)
    """),
    "set_grad_enabled": ("no-grad-region", """
m, h = nn.Linear(2, 1), nn.Linear(1, 1)
torch.set_grad_enabled(False)
out = m(torch.ones(1, 2))  # <-
torch.set_grad_enabled(True)
loss = h(out).sum()
loss.backward()
verdict = torch.why(m.weight)
    """),
    "the accuracy as a loss": ("non-differentiable-op", """
m = nn.Linear(4, 3)
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
scale = nn.Parameter(torch.ones(1))
pred = m(x).argmax(1)  # <-
loss = (pred != y).float().mean() * scale
loss = loss.sum()
loss.backward()
verdict = torch.why(m.weight)
    """),
    "the whole loss under no_grad": ("no-grad-region", """
m = nn.Linear(2, 1)
with torch.no_grad():
    out = m(torch.ones(1, 2))  # <-
loss = out.sum()
try:
    loss.backward()
except RuntimeError:
    pass
verdict = torch.why(m.weight, loss)
    """),
    "a retained gradient behind a cut": ("detached", """
w = torch.ones(2, requires_grad=True)
v = torch.ones(2, requires_grad=True)
h = w * 2
h.retain_grad()
loss = (h.detach() * v).sum()  # <-
loss.backward()
verdict = torch.why(h)
    """),
    "backward of other inputs": ("backward-not-run", """
w = torch.ones(2, requires_grad=True)
v = torch.ones(2, requires_grad=True)
loss = (w * v).sum()  # <-
loss.backward(inputs=[v])
verdict = torch.why(w, loss)
    """),
    "not among the largest": ("masked", """
w = torch.ones(3, requires_grad=True)
v = torch.arange(3.0)
s = torch.cat([w, v + 10])
loss = s.topk(3)[0].sum()  # <-
verdict = torch.why(w, loss)
    """),
    "NaN in a parameter": ("nan-input", """
m = nn.Linear(2, 1)
m.weight.data.fill_(float("nan"))
loss = m(torch.ones(1, 2)).pow(2).sum()  # <-
verdict = torch.why(m.bias, loss)
    """),
    "a detached value written into a buffer": ("detached", """
w = torch.ones(2, requires_grad=True)
v = torch.ones(4, requires_grad=True)
buf = torch.zeros(4)
buf[:2] = (w * 2).detach()  # <-
loss = (buf * v).sum()
loss.backward()
verdict = torch.why(w)
    """),
    "a parameter made of a computed tensor": ("left-the-graph", """
w = torch.ones(2, requires_grad=True)
p = nn.Parameter(w * 2)  # <-
loss = p.sum()
loss.backward()
verdict = torch.why(w)
    """),
    "a dead convolution": ("dead-relu", """
c = nn.Conv2d(1, 2, 3)
c.bias.data.fill_(-20.0)
h = c(torch.rand(1, 1, 8, 8))
h = F.relu(h)  # <-
h = F.max_pool2d(h, 2)
loss = h.mean()
verdict = torch.why(c.weight, loss)
    """),
    "a teacher under no_grad": ("no-grad-region", """
t, s = nn.Linear(4, 2), nn.Linear(4, 2)
x = torch.randn(8, 4)
with torch.no_grad():
    target = t(x)  # <-
loss = F.mse_loss(s(x), target)
loss.backward()
verdict = torch.why(t.weight)
    """),
    "a list of numbers rebuilt": ("left-the-graph", """
m = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
losses = []
for i in range(3):
    l = m(torch.randn(2, 3)).pow(2).mean()
    losses.append(l.item())  # <-
loss = torch.tensor(losses, requires_grad=True).mean()
loss.backward()
verdict = torch.why(m[0].weight)
    """),
    "plain data": ("frozen-parameter", """
x = torch.ones(2)
w = torch.ones(2, requires_grad=True)
(x * w).sum().backward()
verdict = torch.why(x)  # <-
    """),
    "a product overflows": ("overflow", """
w = torch.full((2, 2), 1e25, requires_grad=True)
h = w @ w  # <-
loss = (h * h.sum()).sum()
verdict = torch.why(w, loss)
    """),
    "NaN into a recurrent layer": ("nan-input", """
m = nn.LSTM(2, 3)
x = torch.full((1, 1, 2), float("nan"))
out, _ = m(x)  # <-
loss = out.sum()
verdict = torch.why(m.weight_ih_l0, loss)
    """),
    "rsqrt at zero": ("division-by-zero", """
w = torch.zeros(3, requires_grad=True)
loss = torch.rsqrt(w * 2).sum()  # <-
verdict = torch.why(w, loss)
    """),
    "a computed index": ("non-differentiable-op", """
lin, e = nn.Linear(3, 1), nn.Embedding(5, 2)
i = lin(torch.randn(4, 3)).abs().clamp(0, 4).long()  # <-
loss = e(i).sum()
loss.backward()
verdict = torch.why(lin.weight)
    """),
    "a loop that logs, and a layer never used": ("unused-parameter", """
class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(4, 4)
        s.spare = nn.Linear(4, 4)  # <-
        s.b = nn.Linear(4, 1)
    def forward(s, x):
        return s.b(F.relu(s.a(x)))
m = M()
opt = torch.optim.Adam(m.parameters())
x, y = torch.randn(8, 4), torch.randn(8, 1)
for i in range(5):
    opt.zero_grad()
    out = m(x)
    loss = F.mse_loss(out, y)
    loss.backward()
    with torch.no_grad():
        acc = (out - y).abs().mean()
        for p in m.parameters():
            p.norm()
    print(loss.item(), acc.item())
    opt.step()
    m.eval()
    with torch.no_grad():
        m(x)
    m.train()
verdict = torch.why(m.spare.weight)
    """),
    "a cut in the middle of a deep model": ("detached", """
class Block(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Linear(8, 8)
        s.n = nn.LayerNorm(8)
    def forward(s, x):
        return x + F.gelu(s.f(s.n(x)))
class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(10, 8)
        s.blocks = nn.ModuleList([Block() for _ in range(12)])
        s.h = nn.Linear(8, 10)
    def forward(s, i):
        x = s.e(i)
        for k, b in enumerate(s.blocks):
            x = b(x)
            if k == 5:
                x = x.detach()  # <-
        return s.h(x)
m = M()
opt = torch.optim.AdamW(m.parameters())
ids = torch.randint(0, 10, (4, 6))
for i in range(3):
    logits = m(ids)
    loss = F.cross_entropy(logits.reshape(-1, 10), ids.reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    hits = (logits.argmax(-1) == ids).float().mean().item()
verdict = torch.why(m.e.weight)
    """),
    "a checkpoint": ("ok", """
from pellucid.utils.checkpoint import checkpoint
w = torch.ones(3, requires_grad=True)  # <-
loss = checkpoint(lambda a: (a * 2).sin(), w, use_reentrant=False).sum()
loss.backward(retain_graph=True)
verdict = torch.why(w, loss)
    """),
    "under vmap": ("backward-not-run", """
w = torch.ones(3, requires_grad=True)
loss = torch.vmap(lambda a: a * 2)(w).sum()  # <-
verdict = torch.why(w, loss)
    """),
    "at the minimum": ("multiplied-by-zero", """
w = torch.ones(3, requires_grad=True)
loss = F.mse_loss(w * 2, torch.full((3,), 2.0))  # <-
verdict = torch.why(w, loss)
    """),
    "autograd.grad only": ("backward-not-run", """
w = torch.ones(3, requires_grad=True)  # <-
(g,) = torch.autograd.grad((w * 2).sum(), w)
verdict = torch.why(w)
    """),
    # --- what people brought: the obvious verdict is the wrong one
    "the places of the largest": ("non-differentiable-op", """
lin, e = nn.Linear(4, 10), nn.Embedding(10, 3)
_, index = lin(torch.randn(8, 4)).topk(2)  # <-
loss = e(index).sum()
loss.backward()
verdict = torch.why(lin.weight)
    """),
    "the place of the maximum": ("non-differentiable-op", """
lin, e = nn.Linear(4, 10), nn.Embedding(10, 3)
index = lin(torch.randn(8, 4)).max(dim=1).indices  # <-
loss = e(index).sum()
loss.backward()
verdict = torch.why(lin.weight)
    """),
    "the order of a sort": ("non-differentiable-op", """
lin, e = nn.Linear(4, 10), nn.Embedding(10, 3)
order = lin(torch.randn(8, 4)).sort(1)[1]  # <-
loss = e(order).sum()
loss.backward()
verdict = torch.why(lin.weight)
    """),
    "sample instead of rsample": ("non-differentiable-op", """
encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
q = torch.distributions.Normal(encoder(torch.randn(8, 4)), 1.0)
z = q.sample()  # <-
loss = decoder(z).pow(2).mean()
loss.backward()
verdict = torch.why(encoder.weight)
    """),
    "a sampled class": ("non-differentiable-op", """
policy, value = nn.Linear(4, 3), nn.Embedding(3, 1)
action = torch.distributions.Categorical(logits=policy(torch.randn(8, 4))).sample()  # <-
loss = value(action).mean()
loss.backward()
verdict = torch.why(policy.weight)
    """),
    "rebuilt from a detached tensor": ("detached", """
lin, out = nn.Linear(4, 3), nn.Linear(3, 1)
h = lin(torch.randn(8, 4)).detach()  # <-
loss = out(torch.tensor(list(h.flatten())).view(8, 3)).mean()
loss.backward()
verdict = torch.why(lin.weight)
    """),
    "bernoulli": ("non-differentiable-op", """
lin = nn.Linear(4, 2)
coins = torch.bernoulli(torch.sigmoid(lin(torch.randn(8, 4))))  # <-
loss = coins.mean()
verdict = torch.why(lin.weight, loss)
    """),
    "round, and the graph is gone": ("non-differentiable-op", """
w = torch.randn(3, requires_grad=True)
loss = (w * 2).round().sum()  # <-
loss.backward()
verdict = torch.why(w)
    """),
    "filled in place, and the graph is gone": ("masked", """
w, v = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
h = w * 2
h.fill_(1.0)  # <-
loss = (h * v).sum()
loss.backward()
verdict = torch.why(w)
    """),
    "written over in place": ("masked", """
w = torch.randn(3, 4, requires_grad=True)
h = w * 2
h[:] = 0  # <-
loss = h.sum()
verdict = torch.why(w, loss)
    """),
    "copied over in place": ("masked", """
w = torch.randn(3, 4, requires_grad=True)
h = w * 2
h.copy_(torch.ones(3, 4))  # <-
loss = h.sum()
verdict = torch.why(w, loss)
    """),
    "every target is ignored": ("masked", """
lin = nn.Linear(3, 4)
loss = F.cross_entropy(lin(torch.randn(2, 3)), torch.tensor([-100, -100]), reduction="sum")  # <-
verdict = torch.why(lin.weight, loss)
    """),
    "the mean of nothing": ("masked", """
lin = nn.Linear(3, 4)
out = lin(torch.randn(2, 3))
loss = out[out > 100].mean()  # <-
verdict = torch.why(lin.weight, loss)
    """),
    "a product of many": ("underflow", """
w = torch.full((300,), 0.01, requires_grad=True)
loss = w.prod()  # <-
verdict = torch.why(w, loss)
    """),
    "a running product of many": ("underflow", """
w = torch.full((200,), 0.01, requires_grad=True)
loss = w.cumprod(0)[-1]  # <-
verdict = torch.why(w, loss)
    """),
    "saturated attention": ("saturated-activation", """
q, x = nn.Linear(8, 8), torch.randn(1, 5, 8) * 1000
loss = F.scaled_dot_product_attention(q(x), x, torch.randn(1, 5, 8)).sum()  # <-
verdict = torch.why(q.weight, loss)
    """),
    "the sum of a softmax": ("cancelled", """
w = torch.randn(3, requires_grad=True)
loss = torch.softmax(w, 0).sum()  # <-
verdict = torch.why(w, loss)
    """),
    "a bias before batch norm": ("cancelled", """
lin, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
h = lin(torch.randn(8, 3))  # <-
loss = (norm(h) * torch.randn(8, 4)).sum()
verdict = torch.why(lin.bias, loss)
    """),
    "a recurrent layer given zeros": ("multiplied-by-zero", """
m = nn.LSTM(2, 3)
out, _ = m(torch.zeros(4, 1, 2))  # <-
verdict = torch.why(m.weight_ih_l0, out.sum())
    """),
    "a recurrence of one step": ("multiplied-by-zero", """
m = nn.GRU(2, 3)
out, _ = m(torch.randn(1, 4, 2))  # <-
verdict = torch.why(m.weight_hh_l0, out.sum())
    """),
    "a factor that is tiny": ("vanishing-gradient", """
lin = nn.Linear(4, 4)
h = lin(torch.randn(2, 4)) * 1e-12  # <-
loss = h.sum()
verdict = torch.why(lin.weight, loss)
    """),
    "a custom function that returns None": ("backward-returned-none", """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b
    @staticmethod
    def backward(ctx, g):
        return None, g
w, v = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
loss = Scale.apply(w, v).sum()  # <-
verdict = torch.why(w, loss)
    """),
    "the same after backward": ("backward-returned-none", """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b
    @staticmethod
    def backward(ctx, g):
        return None, g
w, v = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
loss = Scale.apply(w, v).sum()  # <-
loss.backward()
verdict = torch.why(w)
    """),
    "other inputs, asked without the loss": ("backward-not-run", """
p, q = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)  # <-
loss = (p * q).sum()
loss.backward(inputs=[p])
verdict = torch.why(q)
    """),
    "a hook that returns NaN": ("changed-by-hook", """
w = torch.randn(3, requires_grad=True)
w.register_hook(lambda g: g * float("nan"))  # <-
loss = (w * 2).sum()
loss.backward(retain_graph=True)
verdict = torch.why(w)
    """),
    "a hook that returns zeros": ("changed-by-hook", """
w = torch.randn(3, requires_grad=True)
h = w * 2
h.register_hook(lambda g: g * 0)  # <-
loss = h.sum()
loss.backward(retain_graph=True)
verdict = torch.why(w, loss)
    """),
    "no elements": ("ok", """
w = torch.randn(0, requires_grad=True)  # <-
(w * 2).sum().backward()
verdict = torch.why(w)
    """),
    "another row of index_add": ("masked", """
lin, rows = nn.Linear(3, 4), torch.tensor([0, 0, 1, 1, 1])
out = torch.zeros(3, 4).index_add(0, rows, lin(torch.randn(5, 3)))  # <-
loss = out[2].sum()
verdict = torch.why(lin.weight, loss)
    """),
    "the clipped part of a PPO loss": ("clamped", """
policy, advantage = nn.Linear(3, 1), torch.ones(16, 1)
ratio = (policy(torch.rand(16, 3)) + 5).exp()
loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()  # <-
verdict = torch.why(policy.weight, loss)
    """),
    "half precision": ("underflow", """
lin = nn.Linear(4, 1)
with torch.autocast("cpu", dtype=torch.float16):
    out = lin(torch.randn(8, 4) * 1e-4)  # <-
loss = out.float().square().mean() * 1e-6
verdict = torch.why(lin.weight, loss)
    """),
    "a loss whose backward is yet to come": ("backward-not-run", """
lin = nn.Linear(4, 1)
optimizer = torch.optim.SGD(lin.parameters(), lr=0.1)
lin(torch.ones(1, 4)).sum().backward()
optimizer.step()
optimizer.zero_grad()
loss = lin(torch.ones(1, 4)).sum()  # <-
verdict = torch.why(lin.weight, loss)
    """),
    # --- what is right, and what cannot be known
    "nothing wrong": ("ok", """
        w = torch.ones(2, requires_grad=True)  # <-
        loss = (w * 2).sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "zero, and the graph is gone": ("zero-gradient", """
        w = torch.ones(2, requires_grad=True)  # <-
        loss = (w * -2).relu().sum()
        loss.backward()
        verdict = torch.why(w)
    """),
    "detached for the log only": ("ok", """
        w = torch.ones(2, requires_grad=True)  # <-
        loss = (w * 2).sum()
        print(loss.detach(), w.detach().norm().item())
        loss.backward()
        verdict = torch.why(w)
    """),
}  # fmt: skip


def run(name, source):
    """Run a program as a file of its own; the number of the line that is marked, and what it says."""
    source = START + (textwrap.dedent(source) if source.startswith("\n        ") else source)
    filename = f"<why: {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    names = {"__name__": "program"}
    exec(compile(source, filename, "exec"), names)
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "# <-" in text)
    return names["verdict"], filename, line


def test_a_number_that_left_before_a_tensor_was_made_is_not_why_it_has_no_gradient():
    x = torch.ones(3, requires_grad=True)
    deep = x
    for _ in range(10):  # more operations than a look at a departing number takes
        deep = deep * 1.0
    deep.sum().backward(retain_graph=True)
    float(deep.sum())
    del deep
    verdict, filename, line = run("never used", PROGRAMS["never used"][1])
    assert (verdict.code, verdict.spot.file, verdict.spot.line) == ("unused-parameter", filename, line), str(verdict)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_cause_and_the_line(name):
    code, source = PROGRAMS[name]
    verdict, filename, line = run(name, source)
    assert (verdict.code, verdict.spot.file, verdict.spot.line) == (code, filename, line), str(verdict)
    assert verdict.evidence and verdict.fix and verdict.message
    assert code in str(verdict) and f":{line}" in str(verdict)


def test_the_sentence_names_the_parameter_and_the_line():
    verdict, _, line = run("sentence", PROGRAMS["detach in a module"][1])
    assert verdict.message.startswith("model.first.weight.grad is None: `h.detach()` at ")
    assert f":{line} is cut off from the graph by detach() on the way to the loss" in verdict.message
    assert verdict.as_json()["code"] == "detached"


def test_a_block_without_gradients_is_related():
    verdict, _, line = run("related", PROGRAMS["no_grad"][1])
    assert [(each.spot.line, each.role) for each in verdict.finding.related] == [
        (line - 2, "gradients were switched off here")
    ]


def test_asking_changes_nothing():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    calls = []
    h = w * 2
    h.register_hook(lambda grad: calls.append(grad))
    loss = h.relu().sum()
    torch.why(w, loss)
    assert w.grad is None and not calls
    loss.backward()  # the graph is still whole
    assert w.grad.tolist() == [2.0, 2.0]


def test_the_ledger_keeps_no_graph_alive():
    w = torch.ones(3, requires_grad=True)
    h = w * 2
    node = weakref.ref(h.node)
    kept = [h.detach(), h.sum().item(), h > 1, h.tolist(), torch.tensor([h.sum()])]
    with torch.no_grad():
        kept.append(h * 2)
    (kept[0] * w).sum().backward()
    del h
    gc.collect()
    assert node() is None
    assert all(len(ring) <= ring.maxlen for ring in (departures.DEPARTURES, departures.JOINS, departures.REGIONS))


def test_not_a_tensor():
    with pytest.raises(TypeError, match="expected a Tensor, got list"):
        torch.why([1.0])
    with pytest.raises(
        TypeError, match=r"got Linear; ask about one of its parameters, or check_gradient_flow\(model\)"
    ):
        torch.why(torch.nn.Linear(2, 1))
    with pytest.raises(TypeError, match=r"the loss is a float; give the tensor itself, not loss.item\(\)"):
        torch.why(torch.ones(2, requires_grad=True), 1.5)


def test_a_view_that_gets_no_gradient_is_not_counted_among_those_that_were_filled():
    w, v = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    with torch.no_grad():
        square = w.view(2, 2)
    for walk in (lambda loss: loss.backward(), lambda loss: torch.backward_steps(loss).commit()):
        walk((square * v.view(2, 2)).sum())
        assert torch.why(w).evidence.endswith("that was left behind depends on w; that backward filled 1 other tensor")


def test_a_parameter_that_is_cut_off_itself_is_no_operation():
    w, v = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    (w.detach() * v).sum().backward()
    assert "None; the value that was left behind depends on w" in torch.why(w).evidence


SAID = {  # program -> what its verdict must say, and must not
    "a recurrent layer given zeros": ("its input, or the state", "saturated"),
    "a product of many": ("too small for its dtype", "by zeros"),
    "sample instead of rsample": ("rsample()", "no_grad"),
    "the place of the maximum": ("the indices of max", "never took part"),
    "a factor that is tiny": ("look at what it multiplies with", "use relu"),
    "copied over in place": ("copy_", "replace"),
    "bernoulli": ("bernoulli", "drawn"),
    "the clipped part of a PPO loss": ("takes its other argument everywhere", "range of minimum"),
    "half precision": ("GradScaler", "log space"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_the_verdict_says(name):
    said, unsaid = SAID[name]
    text = str(run(name, PROGRAMS[name][1])[0])
    assert said in text and unsaid not in text.replace(name, "")


def test_a_dead_relu_is_not_cured_by_a_lower_bias():
    w = torch.full((3,), -2.0, requires_grad=True)
    assert "bias of zero" in torch.why(w, torch.relu(w * 3).sum()).fix


def test_zeros_that_come_in_are_no_parameter():
    layer = torch.nn.Linear(3, 1)
    verdict = torch.why(layer.weight, layer(torch.zeros(2, 3)).sum())
    assert verdict.code == "multiplied-by-zero" and "parameter" not in verdict.message


def test_what_a_backward_will_give_is_measured():
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    assert "will give it a gradient of norm 5" in torch.why(w, (w * w / 2).sum()).evidence


def test_a_number_that_left_may_be_for_the_log_only():
    used, logged = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    print((logged * 2).sum().item())
    (used * 2).sum().backward()
    assert "only printed or logged, logged never took part" in torch.why(logged).evidence


def test_a_tensor_without_a_name_and_integers():
    verdict = torch.why(torch.arange(3))
    assert verdict.message.startswith("tensor.grad is None because tensor.requires_grad is False")
    assert verdict.fix.startswith("only tensors of floating-point or complex dtype")
