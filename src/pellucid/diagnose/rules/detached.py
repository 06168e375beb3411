"""detached: the path to the loss was cut by `detach()`, `detach_()` or `.data`."""

from pellucid.diagnose.ledger import CutRule, Loss, owner
from pellucid.diagnose.rules.rule import Rule

WORDS = {"detach": "detach()", "detach_": "detach_()", "data": ".data"}
FUNCTIONAL = "+ F.linear(x, weight)\n(of a whole module: torch.func.functional_call(module, {name: tensor}, x))"


class Detached(CutRule, Rule):
    """`detach()`, `detach_()` and `.data` give the numbers of a tensor without its history.

    What is computed from them still moves the loss, and no gradient comes back: the layers before the cut never learn.
    A detach is right where another path or another pass brings the gradient: the targets of a loss, a generator's
    samples in the discriminator's step, a state carried over to the next chunk. It is reported only when a parameter
    that an optimizer holds got no gradient in the whole run.
    """

    code = "detached"
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "missing-step"))

    def message(self, loss: Loss) -> str:
        how = WORDS[loss.cut.operation.op] if loss.cut.operation is not None else "detach()"
        return f"{how} cuts the path to the loss: no gradient gets back to {owner(loss)}"

    def fix(self, loss: Loss) -> str:
        source = loss.cut.spot.code
        better = source.replace(".detach().requires_grad_()", "").replace(".detach_()", "").replace(".detach()", "")
        better = better.replace(".data", "")
        if better == source:
            return "use the tensor itself here, with its history"
        if ".data = " in source:
            return "use what was computed itself, not a parameter that its numbers are put into:\n" + FUNCTIONAL
        name, assigned, value = better.partition(" = ")
        if name == value or (not assigned and source.endswith(".detach_()")):
            return f"keep the history: leave this line out\n- {source}"
        return f"keep the history:\n- {source}\n+ {better}"

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
        self.head = nn.Linear(12, 2)

    def forward(self, x):
        features = self.encoder(x)
        features = features.detach()  # BUG
        return self.head(features)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(3)
w1 = torch.randn(4, 8, requires_grad=True)
w2 = torch.randn(8, 1, requires_grad=True)
optimizer = torch.optim.SGD([w1, w2], lr=0.01)


def network(x):
    hidden = torch.tanh(x @ w1)
    return hidden.data @ w2  # BUG


x = torch.randn(20, 4)
y = x.sum(1, keepdim=True)
for epoch in range(5):
    optimizer.zero_grad()
    error = (network(x) - y).pow(2).mean()
    error.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


def reconstruction(decoder, code, x):
    out = decoder(code).detach()  # BUG
    return nn.functional.mse_loss(out, x)


def main():
    torch.manual_seed(1)
    encoder, decoder = nn.Linear(5, 2), nn.Linear(2, 5)
    optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
    x = torch.randn(16, 5)
    for step in range(3):
        optimizer.zero_grad()
        loss = reconstruction(decoder, torch.relu(encoder(x)), x)
        loss.backward()
        optimizer.step()


main()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-4)
criterion = nn.BCEWithLogitsLoss()
yes, no = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(20):
    real = torch.randn(32, 2) + 2
    fake = generator(torch.randn(32, 4))
    loss_d = criterion(critic(real), yes) + criterion(critic(fake.detach()), no)
    optimizer_d.zero_grad()
    loss_d.backward()
    optimizer_d.step()

    verdict = critic(fake.detach())  # BUG
    loss_g = criterion(verdict, yes)
    optimizer_g.zero_grad()
    loss_g.backward()
    optimizer_g.step()
""",
    )

    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for step in range(10):
    real, fake = torch.randn(32, 2) * 0.5 + 1, generator(torch.randn(32, 4))
    of_critic.zero_grad()
    loss = criterion(critic(real), torch.ones(32, 1)) + criterion(critic(fake.detach()), torch.zeros(32, 1))
    loss.backward()
    of_critic.step()
    of_generator.zero_grad()
    criterion(critic(fake), torch.ones(32, 1)).backward()
    of_generator.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
rnn, head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
series = torch.randn(4, 40, 3)
state = torch.zeros(1, 4, 8)
for start in range(0, 40, 10):  # truncated backpropagation: the state is cut between chunks
    out, state = rnn(series[:, start : start + 10], state)
    loss = (head(out) - series[:, start : start + 10, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = state.detach()
""",
    )
