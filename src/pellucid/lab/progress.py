"""What a learner has answered, in one SQLite file.

Every answer is one transaction: it reads the card's newest state, asks the scheduler for the next one and writes it,
so that a killed process loses at most the answer it was writing, and two processes never overwrite each other's. A
file that is not ours, or is damaged, is left as it is.
"""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pellucid.errors import explain
from pellucid.lab.cards import Card
from pellucid.lab.reading import LabError, needed

MARK, LAYOUT = 0x50454C4C, 1  # "PELL": how a file of ours is known, and the version of its tables
TABLES = """
CREATE TABLE progress (card TEXT PRIMARY KEY, due TEXT NOT NULL, state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reviews (number INTEGER PRIMARY KEY, card TEXT NOT NULL, rating INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE added (card TEXT PRIMARY KEY, topic TEXT NOT NULL, front TEXT NOT NULL, back TEXT NOT NULL) WITHOUT ROWID;
"""


def default_path() -> Path:
    """The progress file in the user's data folder."""
    folder = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(folder) / "pellucid" / "drill.sqlite3"


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Review:
    """An answer that was given."""

    card: str
    rating: int
    at: datetime


class Progress:
    """The progress file: opened, checked, and made if it does not exist.

    >>> import tempfile
    >>> with Progress.opened(Path(tempfile.mkdtemp()) / "drill.sqlite3") as progress:
    ...     due = progress.answer("square", 3)
    ...     len(progress.reviews()), progress.dates() == {"square": due}
    (1, True)
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self.path = connection, path

    @classmethod
    @contextmanager
    def opened(cls, path: str | Path | None = None) -> "Iterator[Progress]":
        """The progress in a file for the length of a block."""
        path = Path(path) if path else default_path()
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=20, isolation_level=None)  # seconds another process may take
        try:
            with _explained(path):
                progress = cls(connection, path)
                progress._check()
            yield progress
        finally:
            connection.close()

    def _check(self) -> None:
        """Nothing is written before the file is known to be whole and ours, or new."""
        with self._transaction("DEFERRED"):  # one look at it all: another process may be making the tables
            ours = self._is_ours()
        if not ours:
            self.connection.execute("PRAGMA journal_mode = WAL")
            with self._transaction():
                self._make_tables()
        if (state := self._value("PRAGMA quick_check(1)")) != "ok":
            raise sqlite3.DatabaseError(state)
        self.connection.execute("PRAGMA synchronous = FULL")

    def _make_tables(self) -> None:
        """Make a new file ours, unless another process has done so meanwhile."""
        if not self._is_ours():
            for statement in TABLES.strip().split("\n"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA application_id = {MARK}")
            self.connection.execute(f"PRAGMA user_version = {LAYOUT}")

    def _is_ours(self) -> bool:
        mark, layout = self._value("PRAGMA application_id"), self._value("PRAGMA user_version")
        if (mark, layout) == (MARK, LAYOUT):
            return True
        if mark == MARK:
            raise sqlite3.DatabaseError(f"it was written by a newer Pellucid (layout {layout})")
        if mark or self._value("SELECT count(*) FROM sqlite_master"):
            raise sqlite3.DatabaseError("it is a database of another program")
        return False

    def _value(self, query: str) -> Any:
        return self.connection.execute(query).fetchone()[0]

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[None]:
        """All of a block or nothing; a second writer waits."""
        self.connection.execute(f"BEGIN {kind}")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def answer(self, card: str, rating: int, at: datetime | None = None) -> datetime:
        """Write down an answer (1 forgotten, 2 hard, 3 good, 4 easy) and return when the card is due again."""
        fsrs = needed("fsrs", "fsrs")
        at = at or utc_now()
        # No random spread of the dates: the same answers give the same plan.
        scheduler = fsrs.Scheduler(enable_fuzzing=False)
        with _explained(self.path), self._transaction():
            row = self.connection.execute("SELECT state FROM progress WHERE card = ?", [card]).fetchone()
            before = fsrs.Card.from_dict(json.loads(row[0])) if row else fsrs.Card(card_id=0, due=at)
            after, _ = scheduler.review_card(before, fsrs.Rating(rating), at)
            state = json.dumps(after.to_dict())
            self.connection.execute("REPLACE INTO progress VALUES (?, ?, ?)", [card, after.due.isoformat(), state])
            self.connection.execute(
                "INSERT INTO reviews (card, rating, at) VALUES (?, ?, ?)", [card, rating, at.isoformat()]
            )
        return after.due

    def dates(self) -> dict[str, datetime]:
        """When each card that was ever answered is due."""
        with _explained(self.path):
            rows = self.connection.execute("SELECT card, due FROM progress ORDER BY due, card").fetchall()
            return {card: datetime.fromisoformat(due) for card, due in rows}

    def reviews(self) -> list[Review]:
        """Every answer, oldest first."""
        with _explained(self.path):
            rows = self.connection.execute("SELECT card, rating, at FROM reviews ORDER BY number").fetchall()
            return [Review(card, rating, datetime.fromisoformat(at)) for card, rating, at in rows]

    def add(self, card: Card) -> None:
        """Keep a card beside those of the deck; a newer one of the same id takes its place."""
        with _explained(self.path), self._transaction():
            values = [card.id, card.topic, card.front, card.back]
            self.connection.execute("REPLACE INTO added VALUES (?, ?, ?, ?)", values)

    def added(self) -> list[Card]:
        """The cards that `add` kept."""
        with _explained(self.path):
            return [Card(*row) for row in self.connection.execute("SELECT * FROM added ORDER BY card").fetchall()]


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Trouble with the file, told as such."""
    try:
        yield
    except LabError as error:
        raise LabError(explain(f"{path}: holds a card that cannot be shown", why=str(error))) from None
    except (sqlite3.Error, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise LabError(explain(f"{path}: another process keeps the progress file busy")) from None
        what = f"{path}: the progress file cannot be used"
        way = "restore it, move it away to begin anew, or name another file with --data"
        raise LabError(explain(what, why=f"{error}; nothing was changed in it", try_=way)) from None
