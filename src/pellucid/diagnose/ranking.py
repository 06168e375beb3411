"""Which finding comes first: causes before their consequences, errors before warnings, early before late."""

from collections.abc import Collection, Iterable, Sequence

from pellucid.diagnose.finding import Finding, Spot

SEVERITIES = ("error", "warning", "info")

# Causes that make the others: what went wrong before a number was computed, then where numbers broke, then how the
# gradients went, then how the loop used them.
ORDER = (
    "modified-in-place", "step-before-backward", "graph-kept-alive", "backward-twice", "wrong-target",
    "nan-input", "nan-in-unselected-branch", "log-of-zero", "division-by-zero", "sqrt-at-zero", "out-of-domain",
    "overflow", "stale-optimizer", "detached", "left-the-graph", "no-grad-region", "non-differentiable-op",
    "frozen-parameter", "not-in-optimizer", "unused-parameter", "missing-zero-grad", "missing-step",
    "eval-mode-left-on",
    "loss-input-mismatch", "double-softmax", "sigmoid-before-logits-loss", "suspicious-broadcast",
    "zero-initialised", "dead-relu", "clamped", "underflow", "unnormalised-input", "saturated-activation",
    "exploding-gradient", "learning-rate-too-high", "learning-rate-too-low", "vanishing-gradient",
)  # fmt: skip


def ranked(
    findings: Iterable[Finding], explains: dict[str, frozenset[str]], late: Collection[str] = ()
) -> list[Finding]:  # fmt: skip
    """The findings, the most likely root cause first; consequences of another finding are only information.

    Late causes work by the steps that follow: what was there before those steps is no consequence of them.
    """
    unique = list({(f.code, f.spot): f for f in sorted(findings, key=_key)}.values())
    weighed = [finding.at("info") if _explained(finding, unique, explains, late) else finding for finding in unique]
    return sorted(weighed, key=_key)


def _key(finding: Finding) -> tuple[int, int, int]:
    return SEVERITIES.index(finding.severity), _place(finding.code), finding.since


def _place(code: str) -> int:
    return ORDER.index(code) if code in ORDER else len(ORDER)


def _explained(
    finding: Finding, among: Sequence[Finding], explains: dict[str, frozenset[str]], late: Collection[str]
) -> bool:  # fmt: skip
    """Whether another error is the cause of this finding: it says so, and it was there first."""
    return not finding.independent and any(
        other.severity == "error" and finding.code in explains.get(other.code, ()) and _before(other, finding, explains)
        and (other.code not in late or other.since < finding.since or finding.spot in _lines(other))
        for other in among
        if other is not finding
    )  # fmt: skip


def _lines(finding: Finding) -> set[Spot]:
    return {finding.spot, *(related.spot for related in finding.related)}


def _before(cause: Finding, finding: Finding, explains: dict[str, frozenset[str]]) -> bool:
    if cause.code not in explains.get(finding.code, ()):
        return cause.since <= finding.since
    return (cause.since, _place(cause.code)) < (finding.since, _place(finding.code))  # each may cause the other
