"""Errors that teach: what happened, where in the user's code, why, and what to try.

Every message of Pellucid is written by `explain`, so that all of them read alike.
"""

from typing import Any

__all__ = [
    "AnomalyError",
    "CaptureError",
    "CheckpointError",
    "FreedGraphError",
    "GradcheckError",
    "InplaceError",
    "LinAlgError",
    "a_kind",
    "explain",
    "printable",
]


def printable(text: str) -> str:
    """A text without characters that would move a terminal's cursor or change its colours.

    >>> printable("\\x1b[31mred\\x07")
    '[31mred'
    """
    if text.isprintable():
        return text
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def a_kind(value: Any) -> str:
    """What kind of thing a value is, as a sentence names it.

    >>> a_kind(3), a_kind([])
    ('an int', 'a list')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def explain(what: str, where: str | None = None, why: str | None = None, try_: str | None = None) -> str:
    """Write an error message: one line each for what, where, why and a way out.

    >>> print(explain("matmul: (3, 4) @ (3, 4)", "train.py:41", "inner sizes 4 and 3 differ", "b.mT"))
    matmul: (3, 4) @ (3, 4)
      where: train.py:41
      why:   inner sizes 4 and 3 differ
      try:   b.mT
    """
    lines = [what]
    for label, text in (("where:", where), ("why:  ", why), ("try:  ", try_)):
        if text:
            lines.append(f"  {label} {text}")
    return printable("\n".join(lines))


class InplaceError(RuntimeError):
    """A value that backward needs was overwritten after it had been saved.

    >>> import pellucid
    >>> x = pellucid.ones(2, requires_grad=True)
    >>> y = x.exp()
    >>> _ = y.add_(1)
    >>> try:
    ...     y.sum().backward()
    ... except InplaceError as error:
    ...     print(str(error).splitlines()[0])
    backward of exp needs its result, but that was overwritten by add_
    """

    saved_at: Any = None  # the user's line that needs the old value, a Place
    written_at: Any = None  # the user's line that overwrote it, if it is known


class FreedGraphError(RuntimeError):
    """A graph was walked a second time after its saved values had been given back."""

    first: Any = None  # the user's line of the first backward, a Place
    recorded_at: Any = None  # the user's line of the operation whose values are gone


class AnomalyError(RuntimeError):
    """Anomaly mode met the first NaN or Inf; the message names the operation and its line."""


class CaptureError(RuntimeError):
    """A captured program cannot be replayed: its Python code looked at a tensor's value."""


class CheckpointError(RuntimeError):
    """A checkpointed function did something else when it was run again for backward.

    >>> import pellucid as torch
    >>> from pellucid.utils.checkpoint import CheckpointError, checkpoint
    >>> x, runs = torch.ones(2, requires_grad=True), []
    >>> def differently(x):
    ...     runs.append(1)
    ...     return x.exp() if len(runs) == 1 else x.sin()
    >>> y = checkpoint(differently, x, use_reentrant=False)
    >>> try:
    ...     y.sum().backward()
    ... except CheckpointError as error:
    ...     print(str(error).splitlines()[0])
    checkpoint: Recomputed values for the following tensors have different metadata than during the ...
    """


class GradcheckError(RuntimeError):
    """Analytic and numeric gradient differ; the message carries the diagnosis."""


class LinAlgError(RuntimeError):
    """A matrix has no inverse or no decomposition of the kind that was asked for; also `linalg.LinAlgError`.

    >>> import pellucid as torch
    >>> try:
    ...     torch.linalg.inv(torch.zeros(2, 2))
    ... except torch.linalg.LinAlgError as error:
    ...     print(str(error).splitlines()[0])
    linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input ...
    """
