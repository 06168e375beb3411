"""The doctor finds what it says it finds: every rule on its own broken and healthy programs, and the command line."""

import contextlib
import io
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid
from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.ranking import ORDER
from pellucid.diagnose.rules import all_rules
from pellucid.shim import as_torch

RULES = {rule.code: rule for rule in all_rules()}
BROKEN = [(code, number) for code, rule in RULES.items() for number in range(len(rule.broken))]
HEALTHY = [(code, number) for code, rule in RULES.items() for number in range(len(rule.healthy))]


def examined(path: Path, **options) -> doctor:
    """Run a program under the doctor, in silence."""
    watch = doctor(stop_when_failed=True, **options)
    silent = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with silent[0], silent[1], contextlib.suppress(Exception), as_torch(), watch:
        runpy.run_path(str(path), run_name="__main__")
    assert not watch.failures, watch
    return watch


def marked(source: str) -> list[int]:
    return [number for number, line in enumerate(source.splitlines(), 1) if "# BUG" in line]


@pytest.mark.parametrize(("code", "number"), BROKEN)
def test_the_bug_is_the_first_finding_at_its_line(code, number, tmp_path):
    source = RULES[code].broken[number]
    path = tmp_path / "broken.py"
    path.write_text(source)
    watch = examined(path)
    assert watch.findings, f"nothing found; crash: {watch.trace.crash}"
    first = watch.findings[0]
    assert (first.code, first.severity) == (code, "error"), watch
    assert any(abs(first.spot.line - line) <= 1 for line in marked(source)), watch
    assert first.message
    assert first.evidence
    assert first.fix


@pytest.mark.parametrize(("code", "number"), HEALTHY)
def test_a_healthy_look_alike_is_clean(code, number, tmp_path):
    path = tmp_path / "healthy.py"
    path.write_text(RULES[code].healthy[number])
    watch = examined(path)
    assert watch.trace.crash is None
    assert watch.trace.backwards, "a program that trains nothing proves nothing"
    assert [str(finding) for finding in watch.findings if finding.severity != "info"] == []


CONTRACT = Path(__file__).resolve().parent.parent.parent / "shared" / "doctor-causes.md"


def test_every_code_has_a_rule_with_examples_and_documentation():
    for code, rule in RULES.items():
        assert len(rule.broken) >= 2, f"{code}: two broken programs in different styles"
        assert rule.healthy, f"{code}: a healthy program that looks alike"
        assert rule.__doc__, code
        assert len(rule.__doc__.strip()) > 100, code
        assert code in ORDER, f"{code}: where does it rank?"


@pytest.mark.skipif(not CONTRACT.exists(), reason="the contract is not beside this clone")
def test_every_code_of_the_contract_is_covered():
    codes = {line.split("`")[1] for line in CONTRACT.read_text().splitlines() if line.startswith("| `")}
    assert codes <= set(RULES)


# --- the command line


def run_doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pellucid", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_prints_findings_and_writes_json_and_a_report(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RULES["missing-zero-grad"].broken[0])
    out, report = tmp_path / "out.json", tmp_path / "out.md"
    done = run_doctor(str(script), "--json", str(out), "--report", str(report), "--steps", "6")
    assert done.returncode == 1
    assert "error[missing-zero-grad]" in done.stdout
    (finding,) = json.loads(out.read_text())["findings"]
    assert set(finding) == {"code", "file", "line", "message", "evidence", "fix", "severity", "related"}
    assert (finding["line"], finding["file"]) == (marked(script.read_text())[0], str(script))
    text = report.read_text()
    for heading in ("# Post-mortem: train.py", "## Symptom", "## Measurements", "## Cause 1", "## The test to keep"):
        assert heading in text


def test_a_healthy_script_gets_status_0_and_sees_its_own_arguments(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n" + RULES["missing-zero-grad"].healthy[0])
    done = run_doctor(str(script), "--", "--epochs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "['--epochs', '3']" in done.stdout
    assert "0 errors, 0 warnings" in done.stdout


def test_a_crash_without_a_known_cause_is_told(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.ones(2, 3)\ny = x @ x\n")
    done = run_doctor(str(script))
    assert done.returncode == 1
    assert "error[crash] the script stopped here with RuntimeError" in done.stdout
    assert "train.py:3" in done.stdout


def test_a_script_that_ends_itself_is_no_finding(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RULES["missing-zero-grad"].healthy[0] + "\nraise SystemExit(0)\n")
    assert run_doctor(str(script)).returncode == 0


def test_time_and_steps_limit_the_run(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(RULES["missing-zero-grad"].healthy[0].replace("range(8)", "range(10_000_000)"))
    assert len(examined(script, steps=7).trace.backwards) == 7
    assert "seconds" in examined(script, seconds=0.2).stopped


# --- as a library


def test_everything_is_as_before_when_the_doctor_has_left():
    before = {name: pellucid.Tensor.__dict__.get(name) for name in ("backward", "data", "grad", "item", "detach")}
    call, tensor = pellucid.nn.Module.__call__, pellucid.tensor
    with pellucid.doctor():
        assert pellucid.tensor is not tensor
        pellucid.ones(2, requires_grad=True).sum().backward()
    after = {name: pellucid.Tensor.__dict__.get(name) for name in before}
    assert after == before
    assert pellucid.nn.Module.__call__ is call
    assert pellucid.tensor is tensor


def test_an_exception_of_the_training_passes_through():
    with pytest.raises(ZeroDivisionError), pellucid.doctor() as watch:
        raise ZeroDivisionError
    assert watch.trace.crash is not None


def test_the_watched_run_computes_the_same_numbers():
    def train():
        pellucid.manual_seed(0)
        model = pellucid.nn.Sequential(pellucid.nn.Linear(4, 8), pellucid.nn.GELU(), pellucid.nn.Linear(8, 1))
        optimizer = pellucid.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(5):
            loss = model(pellucid.randn(8, 4)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    plain = train()
    with pellucid.doctor():
        watched = train()
    assert watched == plain
