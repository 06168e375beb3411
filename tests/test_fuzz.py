"""Random programs (trust T2–T6): gradients equal PyTorch's and finite differences, or an error names the line.

A failure prints a shrunk script and the command that makes the program again.
"""

import os
import re

import numpy as np
import pytest

import pellucid
from pellucid.core.primitive import TABLE, edges_of
from pellucid.testing import graphs

# The seed moves in the soak run, so that every night looks at new programs.
SEED = int(os.environ.get("PELLUCID_SEED", "0"))
PARTS = 6  # so that two workers share the programs
GRAPHS = 10_002 if graphs.HAS_TORCH else 600  # alone, each is compared with differences, which takes longer


def indices(part: int, count: int) -> range:
    return range(part * count, (part + 1) * count)


def told(found: list[str]) -> str:
    return "\n\n".join(found)


@pytest.mark.parametrize("part", range(PARTS))
def test_graphs(part: int) -> None:
    found = graphs.failures("graph", SEED, indices(part, GRAPHS // PARTS))
    assert not found, told(found)


@pytest.mark.parametrize("part", range(PARTS))
def test_graphs_in_float32(part: int) -> None:
    found = graphs.failures("graph", SEED, indices(part, 2_000 // PARTS), dtype="float32")
    assert not found, told(found)


@pytest.mark.parametrize("part", range(PARTS))
def test_second_order(part: int) -> None:
    found = graphs.failures("graph", SEED + 1, indices(part, 2_000 // PARTS), order=2)
    assert not found, told(found)


@pytest.mark.parametrize("part", range(PARTS))
def test_aliases(part: int) -> None:
    found = graphs.failures("alias", SEED, indices(part, 2_000 // PARTS))
    assert not found, told(found)


@pytest.mark.slow
@pytest.mark.timeout(36_000)
def test_a_million_graphs() -> None:
    found = graphs.failures("graph", SEED + 2, range(int(os.environ.get("PELLUCID_GRAPHS", "100000"))))
    assert not found, told(found)


# --- the fuzzer itself


def test_a_program_follows_from_its_seed_and_index() -> None:
    assert graphs.write("graph", 3, 5) == graphs.write("graph", 3, 5)
    assert graphs.write("graph", 3, 5) != graphs.write("graph", 3, 6)


def test_programs_are_long_and_varied() -> None:
    programs = [graphs.write("graph", 0, k) for k in range(40)]
    assert all(5 <= len(program.lines) <= 30 for program in programs)
    text = "\n".join(program.body() for program in programs)
    for part in (
        "@",
        ".sum(",
        ".softmax(",
        "torch.cat",
        "torch.where",
        ".permute(",
        "maximum",
        "[..., ::2]",
        ".expand(",
    ):
        assert part in text, f"no program uses {part}"


def test_alias_programs_write_and_look() -> None:
    text = "\n".join(graphs.write("alias", 0, k).body() for k in range(150))
    for part in ("] = ", ".mul_(", ".view(", "+= ", ".data.", "no_grad", ".detach()", ".copy_("):
        assert part in text, f"no program uses {part}"


def test_nearly_every_graph_is_judged_by_differences() -> None:
    """The rule about kinks may excuse few programs, or it would excuse everything."""
    excused = 0
    for k in range(40):
        program = graphs.write("graph", 0, k)
        outcome = graphs.run(program, pellucid)
        wrong = graphs.Outcome(outcome.loss, tuple(g + 1.0 for g in outcome.gradients))
        excused += graphs.against_differences(program, wrong) is None
    assert excused <= 8


def test_nearly_every_alias_program_has_a_gradient() -> None:
    """If all of them raised, equal errors would prove nothing."""
    raised = sum(graphs.run(graphs.write("alias", 0, k), pellucid).error is not None for k in range(60))
    assert 5 <= raised <= 45


@pytest.fixture
def wrong_sine(monkeypatch):
    """Sine with a derivative that is wrong in the tenth digit's neighbourhood of 1e-3."""
    row = TABLE["sin"]
    wrong = lambda g, a: g * pellucid.cos(a) * 1.001
    monkeypatch.setattr(type(row), "__setattr__", object.__setattr__)
    rules, edges = row.rules, row.edges
    row.rules, row.edges = (wrong,), edges_of((wrong,))
    yield
    row.rules, row.edges = rules, edges


def test_a_wrong_rule_is_found_and_shrunk(wrong_sine) -> None:
    found = graphs.failures("graph", 0, range(60))
    assert found, "60 programs did not find a wrong derivative of sin"
    script = found[0].split("\n\n")[1]
    assert ".sin()" in script
    assert len(script.splitlines()) <= 10, script
    assert re.search(r"replay: python -m pellucid.testing.graphs --kind graph --seed 0 --index \d+", found[0])


def test_command_line(capsys) -> None:
    assert graphs.main(["--index", "2"]) == 0
    printed = capsys.readouterr().out
    assert "loss.backward()" in printed
    assert "gradients are right" in printed


def test_a_printed_script_runs() -> None:
    names: dict = {"print": lambda *values: None}
    exec(graphs.write("graph", 0, 3).script(), names)
    assert np.isfinite(float(names["loss"]))


@pytest.mark.torch
def test_a_difference_that_rounding_decides_is_none() -> None:
    """Two ways to write one product, compared: PyTorch's differ in the last digit, ours do not."""
    assert graphs.failures("graph", 9, [42844]) == []
