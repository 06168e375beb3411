"""Random programs about memory and its history (trust T66): equal to PyTorch, or an error that names the line.

Transforms, views, writes in place, `.data`, NumPy, hooks, custom Functions, checkpoints and higher orders, in any
mixture. A failure prints a shrunk script and the command that makes the program again.
"""

import os
import re

import numpy as np
import pytest

import pellucid
from pellucid.core import saved
from pellucid.testing import phrases, programs

# The seed moves in the soak run, so that every night looks at new programs.
SEED = int(os.environ.get("PELLUCID_SEED", "0"))
PARTS = 5  # so that two workers share the programs
REFUSED = 0.04  # of the programs may be refused in part by us alone


def surveyed(seed: int, part: int, count: int) -> programs.Tally:
    return programs.survey(seed, range(part * count, (part + 1) * count))


@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    tally = surveyed(SEED, part, 100)
    assert not tally.failures, "\n\n".join(tally.failures)
    assert tally.refused <= 2 * REFUSED * tally.programs, tally.refusals


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(PARTS))
def test_twenty_thousand_programs(part: int) -> None:
    tally = surveyed(SEED + 1, part, int(os.environ.get("PELLUCID_PROGRAMS", "20000")) // PARTS)
    assert not tally.failures, "\n\n".join(tally.failures)
    assert tally.refused <= REFUSED * tally.programs, tally.refusals


# --- programs that were wrong once, as they were shrunk

LEAVES = (("x0", (2, 3)), ("x1", (2, 3)), ("c0", (2, 3)), ("n0", (2, 3)))
CASES = {
    "vmap hands out a view": ["v0 = x0 * 1.5", "v1 = torch.func.vmap(lambda t: t[0])(v0)", "v1.mul_(10)"],
    "the input of a vmap is written": ["v0 = x0 * 1.5", "v1 = torch.func.vmap(lambda t: t)(v0)", "v0.sin_()"],
    "vmap of an expanded view": ["v0 = x0 * 1.5", "v1 = torch.vmap(lambda t: t.expand(2, -1))(v0)", "v0.sin_()"],
    "jvp hands out a view": [
        "v0 = x0 * 1.5", "v1, v2 = torch.func.jvp(lambda t: t[0], (v0,), (x1.detach(),))", "v1.mul_(10)",
    ],
    "the input of a jvp is written": [
        "v0 = x0 * 1.5", "v1, v2 = torch.func.jvp(lambda t: t, (v0,), (x1.detach(),))", "v0[1] = 0.4",
    ],
    "the tangent that a jvp hands out is written": [
        "v0 = x0 * 0.4", "v1 = torch.func.jvp(lambda t: t, (x1,), (v0,))[1]", "v1[:] = x1",
    ],
    "a tangent is written after the jvp": [
        "v0 = x0 * 1", "v1 = v0.detach()", "v2 = torch.func.jvp(lambda t: t.tanh() * t, (v0,), (v1,))[1]", "v1.mul_(2)",
    ],
    "a tangent's base is written through .data": [
        "v0 = x0 * 1", "v2 = torch.func.jvp(lambda t: t.tanh() * t, (v0,), (v0.detach(),))[1]", "v0.data.mul_(2)",
    ],
    "the input of a vjp is written": ["v0 = x0 * 1.5", "v1, f0 = torch.func.vjp(lambda t: t, v0)", "v0.mul_(c0)"],
    "a view is given data": ["v0 = c0[:]", "v0.data = torch.full_like(v0, 2.0)", "v0[:1] = x0[:1]"],
    "a view of a view that was given data": [
        "v0 = x0 * x0", "v1 = v0[..., 0]", "v1.data = torch.full_like(v1, 0.6)", "v2 = v1.unsqueeze(1)", "v2.relu_()",
    ],
    "a retained gradient on the way to the inputs of backward": [
        "v0 = x0.sin()", "v0.retain_grad()", "v0.sum().backward(inputs=[x0], retain_graph=True)",
    ],
    "an input of backward that is no leaf": ["v0 = x0.sin()", "v0.sum().backward(inputs=[v0], retain_graph=True)"],
    "a leaf is detached in place after a view of it": ["v0 = x0", "v1 = x0[:]", "v0.detach_()"],
    "an argument of a checkpoint inside of vmap is written": [
        "v0 = c0 * 1", "ck = torch.utils.checkpoint.checkpoint",
        "v1 = torch.func.vmap(lambda t: ck(lambda s: s * x1[0].sin(), t, use_reentrant=False))(v0)", "v0.mul_(2)",
    ],
    "an example that does not lie in order is made contiguous": [
        "v0 = x0 * 1", "v1 = torch.func.vmap(lambda t: t.contiguous().mul_(2), in_dims=1)(v0)",
    ],
    "a write through as_strided inside of vmap": [
        "v0 = x0 * 1", "v1 = torch.func.vmap(lambda t: put(t.as_strided((1,), (1,)), 0, 2.0))(v0)",
    ],
    "no_grad inside of the older jvp": [
        "v0 = torch.autograd.functional.jvp(lambda t: quietly(lambda: t * t) * t, x0, x1 * 1, create_graph=True)[1]",
    ],
    "a buffer inside of jacfwd": ["v0 = torch.func.jacfwd(lambda t: buffered(lambda s: s * s, t))(x0[0])"],
    "data of a view is given to itself": ["v0 = x0 * 1", "v1 = v0[:1]", "v1.data = v1.data", "v1.fill_(3.0)"],
    "a base is given data before a view has seen a write to it": [
        "v0 = c0 * 1", "v1 = v0[:1]", "v2 = v0[:]", "v0[:1] = x0[:1]", "v0.data = v0 * 0.5",
    ],
    "vmap hands out a number that it does not map": [
        "v0 = x0.sum()", "v1 = torch.vmap(lambda t, s: s, (0, None))(x1, v0)",
    ],
    "a jvp of a view whose base was given data": [
        "v0 = x0 * 1", "v1 = v0[:]", "v0.data = torch.full_like(v0, 0.6)",
        "v2, v3 = torch.func.jvp(lambda t: t[:, :2], (v1,), (v1,))",
    ],
    "a Jacobian by forward mode, walked back": ["v0 = torch.func.jacfwd(lambda t: t.relu())(x0[0])"],
    "vmap hands out a number that all examples share": ["v0 = torch.vmap(lambda t, s: s, (0, None))(x0, x1.sum())"],
    "a custom Function writes to a batch inside of jvp": [
        "v0 = torch.vmap(lambda t: torch.func.jvp(lambda s: Bump.apply(s * s), (t,), (t,))[0])(x0 * 1)",
    ],
    "a Jacobian that no example changes is written in one": [
        "v0 = torch.vmap(lambda t: torch.func.jacrev(lambda s: s)(t))(c0)", "v0.detach()[:1] = 0.4",
    ],
    "a single number leaves a batch where saved values are packed": [
        "v0 = kept(lambda t: t.clone(), torch.func.jacrev(lambda t: t[0, 1].sin().log()), x0 * 1)",
        "v1 = kept(lambda t: t.clone(), lambda: torch.autograd.grad(v0.sum(), x0, create_graph=True)[0])",
    ],
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_program_that_was_wrong(name: str, order: int) -> None:
    program = phrases.Program(3, 0, LEAVES, tuple(CASES[name]), order)
    assert programs.judge(program).failure is None, program.script()


@pytest.mark.torch
def test_what_nothing_saved_may_be_written() -> None:
    lines = ("v0 = x0 * 1", "v1 = v0[1:] * v0[1:]", "v2 = v0.data[:1]", "v2.add_(1)")
    verdict = programs.judge(phrases.Program(3, 0, LEAVES, lines))
    assert (verdict.failure, verdict.refusals) == (None, [])


STALE = {
    "memory that a leaf was given is written": ["v0 = x1 * x1", "x1.data = v0", "quietly(lambda: v0.sigmoid_())"],
    "in a transform": [
        "v0 = x1 * x1", "x1.data = v0",
        "v1, v2 = torch.func.jvp(lambda t: t.sigmoid_(), (v0,), ((v0 * 0.5).detach(),))",
    ],
    "a leaf with two names": ["v0 = x0", "v1 = x1 * x1", "v0.data = v1", "x1.data = v1.detach().clone()"],
    "a step, beside a transform that allows no copies": [
        "v0 = x1 * x1", "x1.data = c0.detach().clone()", "v1 = torch.func.grad(lambda t: t.pow(2).sum())(v0)",
        "v1.sum().backward(retain_graph=True)", "torch.optim.SGD([x1], lr=0.1).step()",
        "v2 = v0.sin()", "v0.mul_(2)",
    ],
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", STALE)
def test_a_leaf_that_is_given_data_is_stale_in_pytorch_only(name: str, monkeypatch) -> None:
    program = phrases.Program(3, 0, LEAVES, tuple(STALE[name]))
    verdict = programs.judge(program)
    assert (verdict.failure, verdict.refusals, verdict.stale) == (None, [], True), program.script()
    monkeypatch.setattr(programs, "attempt", a_little_off)
    assert programs.judge(program).failure is not None, "what is stale in PyTorch hides a wrong gradient of ours"


def a_little_off(line: str, number: int, filename: str, names: phrases.Namespace) -> Exception | None:
    """Run a line; Pellucid's backward makes the gradient wrong by a thousandth."""
    error = phrases.attempt(line, number, filename, names)
    if names["torch"] is pellucid and "backward" in line:
        with pellucid.no_grad():
            names.leaves["x1"].grad.mul_(1.001)
    return error


# --- the fuzzer itself


def test_a_program_follows_from_its_seed_and_index() -> None:
    assert programs.write(3, 5) == programs.write(3, 5)
    assert programs.write(3, 5) != programs.write(3, 6)


def test_programs_are_varied() -> None:
    """Each in several of 500 programs: what appears in one of them, the next change of the grammar loses."""
    texts = ["\n".join(programs.write(0, k).lines) for k in range(500)]
    for part in (
        r"func\.vmap", "in_dims=", "out_dims=", r"func\.jvp", r"func\.vjp", r"func\.grad\(", "linearized", "jacrev",
        "jacfwd", "functional_call", r"dual\(", r"\]\.", r"\.detach\(\)", r"\.expand\(", r"\.unbind\(",
        r"\.split\(", r"\.mul_\(", r"\] = ", "out=", "no_grad", r"\.data = ", r"\.data\.", r"hooked\(",
        "retain_grad", "post_accumulate", r"kept\(", "create_graph=True", r"\.apply\(", "Bump", "Parts",
        "checkpoint", "from_numpy", r"\.numpy\(\)", "_hook.*lambda m,", "SGD", "unseen", "buffered", "quietly",
        r"autograd\.functional", "view_as_complex", "as_strided", "where|masked_fill",
        "index_put_|scatter_|index_add_|index_copy_", "detach_|requires_grad_",
    ):  # fmt: skip
        found = sum(re.search(part, text) is not None for text in texts)
        assert found >= 3, f"{found} of 500 programs use {part}"


def test_most_programs_have_a_gradient() -> None:
    """If all of them failed, equal errors would prove nothing."""
    walked = [programs.ran(programs.write(0, k), {}) for k in range(60)]
    assert sum(names is not None for names in walked) > 40


@pytest.mark.torch
def test_a_missing_check_of_writes_is_found_and_shrunk(monkeypatch) -> None:
    monkeypatch.setattr(saved, "check_writes", lambda node, values: values)
    found = programs.survey(0, range(300), most=1).failures
    assert found, "300 programs did not find that saved values are not checked"
    assert len(found[0].split("\n\n")[1].splitlines()) <= 25, found[0]
    assert "replay: python -m pellucid.testing.programs --seed 0 --index" in found[0]


def test_differences_find_a_wrong_gradient() -> None:
    """Without PyTorch: a program that hides nothing, and a gradient that is wrong by a thousandth."""
    program = phrases.Program(0, 0, LEAVES, ("v0 = torch.func.vmap(lambda t: t.sin())(x0)",))
    names = programs.ran(program, {})
    assert programs.against_differences(program, names) is None
    with pellucid.no_grad():
        names["x0"].grad.mul_(1.001)
    assert "by differences" in programs.against_differences(program, names)


def test_differences_leave_out_a_leaf_that_a_refused_line_wrote() -> None:
    """The gradient is that at the value written, the differences are about the one before."""
    program = phrases.Program(0, 0, LEAVES, ("Bump.apply(x0)", "v0 = x0 * x0"))
    assert programs.judge(program).failure is None
    assert programs.by_ourselves(program) is None


def test_what_hooks_saw_is_compared_whatever_it_is() -> None:
    """Numbers or tensors, in any order, and a gradient of zeros may or may not have arrived; all others must have."""
    program = phrases.Program(0, 0, LEAVES, ("v0 = x0 * 1.5", "hooked(v0, lambda g: seen.append(g * x0))"))
    names, other = programs.ran(program, {}), programs.ran(program, {})
    other["seen"].insert(0, 0.0)
    assert programs.differs(names, other) is None
    other["seen"].append(0.5)
    assert "hooks saw" in programs.differs(names, other)


def test_command_line(capsys) -> None:
    assert programs.main(["--seed", "4", "--index", "2"]) == 0
    printed = capsys.readouterr().out
    assert "loss.backward()" in printed
    assert "no silent difference" in printed


def test_a_printed_script_runs() -> None:
    program = phrases.Program(0, 0, LEAVES, ("v0 = Cube.apply(x0)", "v1 = put(v0 * 1, 0, x1[0])"))
    names: dict = {"print": lambda *values: None}
    exec(program.script(), names)
    assert np.isfinite(float(names["loss"]))
