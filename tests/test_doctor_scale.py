"""The doctor on zero gradients and on scale: what the example programs of the rules do not show."""

import pytest

import pellucid as torch
from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.ranking import ranked

nn = torch.nn


def train(model, inputs, targets, steps=12, rate=1e-2, scheduler=None):
    """Plain training; the findings by code."""
    with doctor() as watch:
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        schedule = scheduler(optimizer) if scheduler is not None else None
        for _ in range(steps):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            if schedule is not None:
                schedule.step()
    assert not watch.failures
    return {finding.code: finding for finding in watch.findings}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def stack(activation, layers, width=16):
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), activation())])


@pytest.mark.parametrize(
    ("activation", "layers", "found"), [(nn.Sigmoid, 10, True), (nn.Sigmoid, 3, False), (nn.ReLU, 10, False)]
)
def test_vanishing_is_a_matter_of_depth_and_slope(activation, layers, found):
    inputs = torch.randn(32, 16)
    model = nn.Sequential(stack(activation, layers), nn.Linear(16, 1))
    assert ("vanishing-gradient" in train(model, inputs, inputs[:, :1])) is found


def test_gradients_that_nobody_applies_are_no_training():
    model, inputs = stack(nn.Sigmoid, 10), torch.randn(8, 16)
    with doctor() as watch:
        for _ in range(5):
            model(inputs).square().mean().backward()
            model.zero_grad()
    assert not any(finding.code == "vanishing-gradient" for finding in watch.findings)


@pytest.mark.parametrize(("scale", "found"), [(1.0, False), (5.0, False), (40.0, True)])
def test_saturation_is_judged_by_the_share_of_units(scale, found):
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
    with torch.no_grad():
        model[0].weight.mul_(scale)
    inputs = torch.randn(40, 6)
    assert ("saturated-activation" in train(model, inputs, inputs[:, :1])) is found


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
def test_gates_of_recurrent_layers_saturate_too(cell):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = cell(4, 12, batch_first=True), nn.Linear(12, 1)
            for weight in self.cell.parameters():
                nn.init.normal_(weight, std=20.0)

        def forward(self, x):
            return self.head(self.cell(x)[0][:, -1])

    inputs = torch.randn(16, 6, 4)
    found = train(Last(), inputs, inputs.mean((1, 2)).unsqueeze(1), rate=1e-4)
    assert found["saturated-activation"].spot.source.startswith("return self.head")


def test_an_initialisation_is_where_the_weights_were_last_written():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    inputs = torch.randn(20, 4)
    with doctor() as watch:
        for parameter in model.parameters():
            nn.init.normal_(parameter)
            nn.init.zeros_(parameter)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(inputs).sub(inputs[:, :1]).square().mean().backward()
            optimizer.step()
    assert watch.findings[0].code == "zero-initialised"
    assert watch.findings[0].spot.source == "nn.init.zeros_(parameter)"


def test_a_schedule_that_ruins_the_rate_is_the_line():
    model, inputs = nn.Linear(4, 1), torch.randn(20, 4)
    decayed = train(
        model, inputs, inputs.sum(1, keepdim=True), 30, 1e-2,
        lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1),
    )  # fmt: skip
    finding = decayed["learning-rate-too-low"]
    assert "ExponentialLR" in finding.spot.source
    assert [place.role.split(",")[0] for place in finding.related] == ["the optimizer", "the scheduler steps here"]


def test_a_hinge_that_is_satisfied_is_no_dead_relu():
    weight = torch.tensor([3.0], requires_grad=True)
    margin = torch.linspace(1.0, 2.0, 40).unsqueeze(1)
    with doctor() as watch:
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (torch.relu(1 - weight * margin) * torch.rand(40, 1)).mean().backward()
            optimizer.step()
    assert not watch.errors


def test_broken_training_of_the_course():
    """A sigmoid network, rate 8, the logarithm of its output, no zero_grad: NaN at step 0, and all of that is said."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 1))
    with torch.no_grad():
        model[2].bias.fill_(-1.0)
    with doctor(stop_when_failed=True) as watch:
        optimizer = torch.optim.SGD(model.parameters(), lr=8.0)
        for step in range(50):
            inputs = torch.randn(32, 8) * (10 if step == 25 else 1)
            (-torch.log(model(inputs)).mean()).backward()
            optimizer.step()
    codes = [finding.code for finding in watch.findings]
    assert codes[:2] == ["log-of-zero", "missing-zero-grad"]
    assert watch.findings[0].since == 0
    assert "learning-rate-too-high" in codes


def test_of_two_causes_that_explain_each_other_one_stays_an_error():
    spot, explains = Spot("a.py", 1), {"overflow": frozenset({"dead-relu"}), "dead-relu": frozenset({"overflow"})}
    pair = [Finding(code, spot, "m", "e", "f", since=3) for code in ("dead-relu", "overflow")]
    assert [(f.code, f.severity) for f in ranked(pair, explains)] == [("overflow", "error"), ("dead-relu", "info")]
