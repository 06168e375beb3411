"""What a rule is: it looks at passes while their arrays are there, and says at the end what it found.

A rule's file holds all there is about one code: the class with its docstring (the page of the documentation), and
example programs. Broken ones mark the line to be reported with `# BUG`; healthy ones must give no finding at all.
"""

from collections.abc import Iterable

from pellucid.diagnose.events import Pass
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.trace import Trace


class Rule:
    """One cause. A new rule is a subclass in a file of its own; one instance watches one run."""

    code: str
    explains: frozenset[str] = frozenset()  # codes that are consequences: beside this one they are only information
    at_once: bool = True  # False: what it does to other lines, it does by the steps that follow
    broken: tuple[str, ...] = ()  # programs with this bug, its line marked with `# BUG`
    healthy: tuple[str, ...] = ()  # programs that look alike and are right

    def look(self, done: Pass, trace: Trace) -> None:
        """Look at a pass whose backward has just ended (or that the run ended in), while its arrays are there.

        Called for the first passes, then for samples of the later ones, and for every pass with numbers that are not
        finite. Keep what you need: numbers, operations (their place, shapes and modules stay), never arrays.
        """

    def findings(self, trace: Trace) -> Iterable[Finding]:
        """What is wrong, when the run is over."""
        return ()
