"""no-grad-region: the path to the loss was computed inside `no_grad` or `inference_mode`."""

from collections.abc import Iterator

from pellucid.diagnose.finding import Related, Spot
from pellucid.diagnose.ledger import CutRule, Loss, owner, related_to
from pellucid.diagnose.rules.rule import Rule


class NoGradRegion(CutRule, Rule):
    """Nothing is recorded inside `no_grad`, `inference_mode` or after `set_grad_enabled(False)`.

    Results computed there have no history, so no gradient gets back through them. Evaluation, targets and frozen
    parts belong there; the part of a model that should learn does not. A switch that is left on after an evaluation
    makes every later pass such a region. It is reported only when a parameter that an optimizer holds got no
    gradient in the whole run, or when `backward()` refuses because nothing was recorded.
    """

    code = "no-grad-region"
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "missing-step"))

    def message(self, loss: Loss) -> str:
        switch = loss.cut.operation.switched_off_by if loss.cut.operation is not None else "no_grad"
        return f"this is computed under {switch}, which records nothing: no gradient gets back to {owner(loss)}"

    def fix(self, loss: Loss) -> str:
        switch = loss.cut.operation.switched_off_by if loss.cut.operation is not None else "no_grad"
        if switch == "set_grad_enabled":
            return "switch gradients on again before training:\n+ torch.set_grad_enabled(True)"
        if _decorated(loss) is not None:
            return f"leave the decorator {switch} away, or train with a function that has none"
        return f"move this out of {switch}: only what must not learn belongs inside"

    def related(self, loss: Loss) -> Iterator[Related]:
        decorated = _decorated(loss)
        if decorated is not None:
            yield Related(decorated, "gradients are switched off for this whole function")
        elif loss.cut.operation is not None:
            yield from related_to(loss.cut.operation.entered, "gradients are switched off here")

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.fc(x))


encoder, head = Encoder(), nn.Linear(8, 3)
optimizer = torch.optim.Adam(list(encoder.parameters()) + list(head.parameters()), lr=0.01)
x, y = torch.randn(24, 4), torch.randint(0, 3, (24,))
for step in range(5):
    with torch.no_grad():
        features = encoder(x)  # BUG
    logits = head(features)
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


@torch.no_grad()
def features(x):
    h = model[0](x)  # BUG
    return model[1](h)


x, y = torch.randn(16, 3), torch.randn(16, 1)
for step in range(4):
    optimizer.zero_grad()
    loss = ((model[2](features(x)) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn.functional as F


def evaluate(model, x, y):
    torch.set_grad_enabled(False)
    return F.mse_loss(model(x), y).item()


def train():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(10, 2), torch.randn(10, 1)
    for epoch in range(3):
        optimizer.zero_grad()
        out = model(x)  # BUG
        loss = F.mse_loss(out, y)
        loss.backward()
        optimizer.step()
        print(evaluate(model, x, y))


train()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.out = nn.Parameter(torch.randn(8, 20) * 0.1)

    def forward(self, tokens):
        hidden = torch.tanh(self.words(tokens))
        with torch.no_grad():
            table = self.out.t()  # BUG
        return hidden @ table.t()


model = Tied()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    tokens = torch.randint(20, (16,))
    loss = nn.functional.cross_entropy(model(tokens), (tokens + 1) % 20)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
weight = torch.randn(3, 4, requires_grad=True)
x, y = torch.randn(20, 3), torch.randn(20, 4)
for step in range(20):
    loss = ((x @ weight - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        flat, slope = weight.view(-1), weight.grad.view(-1)
        flat -= 0.1 * slope
        first, second = weight.chunk(2, dim=1)
        print(first.norm().item(), second.norm().item())
    weight.grad = None
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Sequential(nn.Linear(5, 16), nn.ReLU()), nn.Linear(16, 2)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)  # the backbone is kept as it is
x, y = torch.randn(64, 5), torch.randint(0, 2, (64,))
for step in range(10):
    with torch.no_grad():
        features = backbone(x)
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    print((head(backbone(x)).argmax(1) == y).float().mean().item())
""",
        """
import copy
import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for step in range(12):
    state, action = torch.randn(16, 4), torch.randint(0, 2, (16, 1))
    reward, after = torch.rand(16, 1), torch.randn(16, 4)
    with torch.no_grad():
        goal = reward + 0.9 * target(after).max(1, keepdim=True).values
    loss = nn.functional.smooth_l1_loss(online(state).gather(1, action), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        target.load_state_dict(online.state_dict())
""",
    )


def _decorated(loss: Loss) -> Spot | None:
    """Where the function begins that a decorator switches gradients off for, if it is no block that does."""
    operation = loss.cut.operation
    if operation is None or operation.entered is None or operation.within is None:
        return None
    inside = operation.within.code
    return None if inside is operation.entered.code else Spot(inside.co_filename, inside.co_firstlineno)
