"""Vanishing and exploding: the learner's gains against ours, and the total gain of each remedy."""

import math
from itertools import pairwise
from typing import Any

import pellucid
from pellucid.lab.labs.lab import Criteria, expect
from pellucid.lab.labs.running import Work

criteria = Criteria()
torch: Any = pellucid  # its names are made when it is imported: no type checker knows them
nn: Any = pellucid.nn
FILE, DEPTH, WIDTH = "depth.py", 20, 32
NORMS = (nn.LayerNorm, nn.BatchNorm1d, nn.GroupNorm, nn.RMSNorm)


def _vanishing() -> list[Any]:
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sigmoid()) for _ in range(DEPTH)]


def _exploding() -> list[Any]:
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)]
    for block in blocks:
        nn.init.normal_(block[0].weight, std=0.5)
    return blocks


def _gains(blocks: list[Any], x: Any) -> list[float]:
    """The norm of the gradient before each block divided by the norm after it."""
    results = [x.detach().requires_grad_()]
    for block in blocks:
        results.append(block(results[-1]))
        results[-1].retain_grad()
    (results[-1] * torch.linspace(-1, 1, WIDTH)).sum().backward()
    norms = [result.grad.norm().item() for result in results]
    return [before / after if after else math.inf for before, after in pairwise(norms)]


def truth() -> str:
    """How many powers of ten are lost."""
    torch.manual_seed(0)
    return str(round(-math.log10(math.prod(_gains(_vanishing(), torch.randn(64, WIDTH))))))


@criteria("gains(blocks, x) measures the gain of every block, vanishing or exploding")
def measured(work: Work) -> None:
    gains = work.named(FILE, "gains")
    for name, make in (("vanishing", _vanishing), ("exploding", _exploding)):
        torch.manual_seed(0)
        blocks, x = make(), torch.randn(64, WIDTH)
        given, wanted = list(gains(blocks, x)), _gains(blocks, x)
        expect(len(given) == DEPTH, f"{len(given)} gains for {DEPTH} blocks")
        for i, (mine, ours) in enumerate(zip(given, wanted)):
            reason = f"{name}: the gain of block {i} is {mine:.4g}, we measured {ours:.4g}"
            expect(math.isclose(mine, ours, rel_tol=1e-3), reason)


def _remedy(work: Work, name: str) -> list[Any]:
    """Blocks made by the learner, with a total gain near 1 for the middle one of three seeds."""
    totals = []
    for seed in range(3):
        torch.manual_seed(seed)
        blocks = list(work.named(FILE, name)(DEPTH, WIDTH))
        linear = [m for block in blocks for m in block.modules() if isinstance(m, nn.Linear)]
        enough = len(blocks) == DEPTH and len(linear) >= DEPTH
        expect(enough, f"{name} gives {len(blocks)} blocks with {len(linear)} Linear, not {DEPTH} of each")
        totals.append(math.prod(_gains(blocks, torch.randn(64, WIDTH))))
    middle = sorted(totals)[1]
    expect(0.03 < middle < 30, f"with {name} the gradient at the input is {middle:.3g} times that at the output")
    return blocks


def _has(blocks: list[Any], kinds: Any) -> bool:
    """Whether every block has a part of one of these kinds."""
    return all(any(isinstance(module, kinds) for module in block.modules()) for block in blocks)


@criteria("by_initialisation: Linear and ReLU, total gain between 0.03 and 30")
def initialisation(work: Work) -> None:
    blocks = _remedy(work, "by_initialisation")
    expect(_has(blocks, nn.ReLU), "there is a block without ReLU: only the weights are to be changed")
    expect(not any(_has([block], NORMS) for block in blocks), "there is a normalisation; the weights are enough")


@criteria("by_activation: no sigmoid, no normalisation, total gain between 0.03 and 30")
def activation(work: Work) -> None:
    blocks = _remedy(work, "by_activation")
    sick = any(_has([block], (nn.Sigmoid, *NORMS)) for block in blocks)
    expect(not sick, "there is a Sigmoid or a normalisation left")


@criteria("by_residual: the sigmoids stay, the input is added, total gain between 0.03 and 30")
def residual(work: Work) -> None:
    blocks = _remedy(work, "by_residual")
    expect(_has(blocks, nn.Sigmoid), "there is a block without Sigmoid: only the connection is to be added")
    expect(not any(_has([block], NORMS) for block in blocks), "there is a normalisation; the connection is enough")
    x = torch.randn(4, WIDTH)
    with torch.no_grad():
        for parameter in blocks[0].parameters():
            parameter.zero_()
        kept = blocks[0](x) - blocks[0](torch.zeros_like(x))
    expect(
        torch.allclose(kept, x, atol=1e-5), "a block whose weights are 0 should still pass its input on: x + block(x)"
    )


@criteria("by_normalisation: the sigmoids stay, every block has a normalisation, total gain between 0.03 and 30")
def normalisation(work: Work) -> None:
    blocks = _remedy(work, "by_normalisation")
    expect(_has(blocks, nn.Sigmoid), "there is a block without Sigmoid: only the normalisation is to be added")
    expect(_has(blocks, NORMS), "there is a block without normalisation")
