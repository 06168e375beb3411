"""Automatic mixed precision on the CPU: which operations compute in bfloat16, and the scaling of gradients."""

import pytest

import pellucid
from pellucid.shim import as_torch

CASES = {
    "product": lambda t, x, y: x @ y,
    "product of short and wide": lambda t, x, y: (x @ y) @ y,
    "linear": lambda t, x, y: t.nn.functional.linear(x, y),
    "sum": lambda t, x, y: x + y,
    "short plus wide": lambda t, x, y: (x @ y) + y,
    "softmax of short": lambda t, x, y: (x @ y).softmax(-1),
    "exp": lambda t, x, y: x.exp(),
    "double is left alone": lambda t, x, y: x.double() + y.double(),
}


@pytest.mark.parametrize("name", CASES)
def test_dtypes_and_gradients_are_pytorchs(name, torch):
    seen = []
    for library in (pellucid, torch):
        library.manual_seed(0)
        x, y = (library.rand(4, 4).requires_grad_() for _ in range(2))
        with library.autocast("cpu", dtype=library.bfloat16):
            result = CASES[name](library, x, y)
        result.float().sum().backward()
        seen.append((str(result.dtype), result.detach().float().numpy(), x.grad.numpy(), str(x.grad.dtype)))
    ours, theirs = seen
    assert ours[0] == theirs[0] and ours[3] == theirs[3]
    for mine, other in ((ours[1], theirs[1]), (ours[2], theirs[2])):
        assert abs(mine - other).max() <= 0.02 * max(1, abs(other).max())


def test_modes_nest_and_decorate():
    x = pellucid.ones(2, 2)
    assert not pellucid.is_autocast_enabled("cpu")
    with pellucid.autocast("cpu"):
        assert pellucid.is_autocast_enabled("cpu") and (x @ x).dtype == pellucid.bfloat16
        with pellucid.autocast("cpu", enabled=False):
            assert (x @ x).dtype == pellucid.float32
        assert (x @ x).dtype == pellucid.bfloat16
    assert pellucid.autocast("cpu")(lambda: x @ x)().dtype == pellucid.bfloat16
    with pytest.warns(UserWarning, match="only the CPU"):
        pellucid.autocast("cuda")


class Descent:
    def __init__(self, parameter):
        self.param_groups, self.steps = [{"params": [parameter]}], 0

    def step(self):
        self.steps += 1


def test_scaler_leaves_out_a_step_that_is_not_finite():
    w = pellucid.ones(2, requires_grad=True)
    optimizer, scaler = Descent(w), pellucid.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    scaler.scale((w * 3).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.steps == 1 and scaler.get_scale() == 4.0
    w.grad = pellucid.tensor([float("inf"), 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.steps == 1 and scaler.get_scale() == 2.0
    for _ in range(2):
        w.grad = pellucid.ones(2)
        scaler.step(optimizer)
        scaler.update()
    assert optimizer.steps == 3 and scaler.get_scale() == 4.0
    other = pellucid.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4.0


def test_scaler_of_less_than_one_looks_at_the_gradients_that_it_makes():
    """They may overflow when they are divided by it; then the step is left out, and the next update knows nothing."""
    w = pellucid.ones(2, requires_grad=True)
    optimizer, scaler = Descent(w), pellucid.amp.GradScaler("cpu", init_scale=0.5)
    w.grad = pellucid.tensor([3e38, 1.0])
    scaler.step(optimizer)
    assert optimizer.steps == 0 and w.grad.tolist() == [float("inf"), 2.0]
    scaler.update()
    assert scaler.get_scale() == 0.25
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.update()


LOSSES = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
logits, labels, other = torch.randn(4, 3).bfloat16(), torch.tensor([0, 1, 2, 0]), torch.rand(4, 3).bfloat16()
with torch.autocast("cpu", dtype=torch.bfloat16):
    for loss in (
        F.cross_entropy(logits, labels), F.cross_entropy(logits, labels, label_smoothing=0.1),
        F.nll_loss(logits, labels),
        torch.nn.CrossEntropyLoss()(logits, labels), F.l1_loss(logits, other), F.kl_div(logits, other, reduction="sum"),
        F.binary_cross_entropy_with_logits(logits, other), F.multi_margin_loss(logits, labels),
        F.soft_margin_loss(logits, other), F.poisson_nll_loss(logits, other), torch.cdist(logits, other).sum(),
        F.ctc_loss(logits[:, None].log_softmax(-1), labels[None, 1:3], torch.tensor([4]), torch.tensor([2])),
    ):
        print(loss.dtype, round(loss.item(), 4))
    wide = logits.float()
    print(wide.mv(wide[0]).dtype, F.prelu(wide, torch.ones(1)).dtype, F.softmax(logits, -1).dtype)
    wide = wide.T[None]
    print(F.conv_transpose1d(wide, torch.ones(3, 2, 1)).dtype, F.conv1d(wide, torch.ones(2, 3, 1)).dtype)
"""


def test_losses_are_computed_in_float32_as_a_whole(capsys):
    pytest.importorskip("torch")
    exec(compile(LOSSES, "<losses>", "exec"), {})
    expected = capsys.readouterr().out
    with as_torch():
        exec(compile(LOSSES, "<losses>", "exec"), {})
    assert capsys.readouterr().out == expected
