"""Write the pages of the documentation that are made of the code's own tables.

    python docs/build.py          # write the pages named in PAGES
    python docs/build.py --check  # fail if one of them is not what would be written

The operations come from what every file of src/pellucid/ops publishes, the conventions from tests/singular_points.py,
the doctor's causes from its rules in src/pellucid/diagnose/rules, the quizzes from src/pellucid/lab/data/quizzes.yaml.
"""

import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from pellucid.diagnose.ranking import ORDER  # noqa: E402
from pellucid.diagnose.rules import Rule, all_rules  # noqa: E402
from pellucid.lab.mirror import quiz_page  # noqa: E402
from pellucid.ops import load_families  # noqa: E402
from pellucid.ops.operation import OPERATIONS, Operation  # noqa: E402
from singular_points import CONVENTIONS, OURS  # noqa: E402

MODULES = {
    "torch": "The main namespace; most are methods of a tensor too",
    "torch.nn.functional": "Functions of neural networks",
    "torch.linalg": "Linear algebra",
    "torch.fft": "Fourier transforms",
    "torch.special": "Special functions",
}


def operations_page() -> str:
    """Every operation: its name, what it does, where it is defined."""
    load_families()
    by_module: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        by_module.setdefault(operation.module, []).append(operation)
    lines = [
        "# Operations",
        "",
        f"{len(OPERATIONS)} names. Each operation is defined in one place, with its derivative, its documentation and",
        "the samples its tests draw; the last column says where. `(_)` marks those with an in-place form. This page is",
        "made by `python docs/build.py`.",
    ]
    for module in [*MODULES, *sorted(by_module.keys() - MODULES.keys())]:
        title = MODULES.get(module, "")
        lines += [
            "",
            f"## {module}",
            "",
            *([title + ".", ""] if title else []),
            "| name | | defined in |",
            "|---|---|---|",
        ]
        lines += [operation_line(each) for each in sorted(by_module[module], key=lambda each: each.name.lower())]
    return "\n".join(lines) + "\n"


def operation_line(operation: Operation) -> str:
    summary = operation.doc.strip().split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    file = f"src/{operation.home.replace('.', '/')}.py"
    where = f"[{file.removeprefix('src/pellucid/')}](../{file})"
    return f"| `{operation.name}`{' (_)' if operation.inplace else ''} | {' '.join(summary.split())} | {where} |"


def conventions_page() -> str:
    """What the derivative is where there is none."""
    lines = [
        "# Singular points",
        "",
        "What the derivative is at kinks, at ties and at the edges of a domain, where it does not exist or several",
        "arguments have an equal claim to it. Gradients are those of the sum of the elements of the value weighted",
        "1, 2, 3, ... Every row is a test, here and against PyTorch 2.13. This page is made by `python docs/build.py`",
        "from tests/singular_points.py.",
    ]
    for title, cases in CONVENTIONS.items():
        lines += ["", f"## {title}", "", *table(cases)]
    lines += ["", "## Where we differ from PyTorch", ""]
    lines += [
        "PyTorch's number follows there from its formula (0 / 0, inf - inf, a partial sort) and not from a choice."
    ]
    for title, cases in OURS.items():
        lines += ["", f"{title}:", "", *table(cases)]
    return "\n".join(lines) + "\n"


def table(cases: list[Any]) -> list[str]:
    lines = ["| expression | at | value | gradient |", "|---|---|---|---|"]
    for expression, inputs, value, gradients in cases:
        at = ", ".join(f"{name} = {shown(x)}" for name, x in zip("abc", inputs, strict=False) if name in expression)
        slopes = ", ".join(shown(g) for g in gradients if g is not None) or "none"
        lines.append(f"| `{expression}` | {at} | {shown(value)} | {slopes} |")
    return lines


def shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(part) for part in value)}]"
    return "none" if value is None else f"{value:.4g}"


DOCTOR = """# The doctor

    pellucid doctor train.py [--steps N] [--seconds S] [--json FILE] [--report FILE] [-- arguments of the script]

runs a PyTorch script (with Pellucid under the name torch), watches it train, and says what is wrong with it: the most
likely root cause first, each finding with its code, the line, what was measured, and the fix. The exit status is 1
when there are errors. `--report` writes a post-mortem with the test to keep; `--json` writes
`{"findings": [{"code", "file", "line", "message", "evidence", "fix", "severity", "related"}]}`.

As a library: `with pellucid.doctor() as d: train()`, then `d.findings`, `print(d)`.

The codes are a contract: they are never renamed. Consequences of a cause that was found are told as `info`. This page
is made by `python docs/build.py` from the rules in [diagnose/rules](../src/pellucid/diagnose/rules), one file per code;
the program under each code is one of the rule's own tests, and the line marked `# BUG` is the line it reports."""


def doctor_page() -> str:
    """Every cause the doctor knows."""
    rules = sorted(all_rules(), key=lambda rule: ORDER.index(rule.code))
    lines = [DOCTOR, "", "| code | what happened |", "|---|---|"]
    lines += [f"| [`{rule.code}`](#{rule.code}) | {_first_sentence(rule)} |" for rule in rules]
    for rule in rules:
        lines += ["", f"## {rule.code}", "", inspect.getdoc(rule) or "", "", "```text", rule.broken[0].strip(), "```"]
    return "\n".join(lines) + "\n"


def _first_sentence(rule: type[Rule]) -> str:
    """What stands at the head of the rule's file after its code."""
    head = (inspect.getdoc(sys.modules[rule.__module__]) or "").split("\n")[0]
    return head.partition(": ")[2].rstrip(".").replace("|", "\\|")


PAGES = {
    "operations.md": operations_page,
    "singular-points.md": conventions_page,
    "doctor.md": doctor_page,
    "quizzes.md": lambda: quiz_page("en"),
    "cuestionarios.md": lambda: quiz_page("es"),
}


def main() -> None:
    stale = []
    for name, page in PAGES.items():
        path, text = ROOT / "docs" / name, page()
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"docs/{name}")
    if stale:
        sys.exit(f"not up to date: {', '.join(stale)}; run `python docs/build.py`")


if __name__ == "__main__":
    main()
