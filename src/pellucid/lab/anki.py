"""Anki packages (.apkg): a zip file with an SQLite database, whose fields are HTML.

What a card says is text. On the way out everything is escaped that Anki would give a meaning: HTML, sounds and LaTeX
in brackets, formulas behind a backslash. On the way in, only the text is taken. A package is somebody else's file: it
is read with bounds for its size, and its database must not run anything.
"""

import html
import io
import itertools
import json
import re
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pellucid.errors import explain
from pellucid.lab.cards import Deck
from pellucid.lab.reading import LabError, needed

# Anki knows decks and note types by numbers: they must never change.
MODEL_NUMBER = 1_904_225_561
LARGEST, MOST, LONGEST = 50_000_000, 20_000, 20_000_000  # bytes of a database that is read, notes, and all their text
STEPS = 50_000_000  # of SQLite's machine: some seconds
SEPARATOR = "\x1f"  # between the fields of a note
# A tag of HTML with its attributes. It holds no <, so that one which is not ended is looked at only up to the next.
TAG = re.compile(r"""<(/?)([a-zA-Z][^\s<>/]*)(?:[^<>"']|"[^"<]*"|'[^'<]*')*>""")
HIDDEN = {name: re.compile(rf"</{name}\b", re.IGNORECASE) for name in ("script", "style")}  # and how each ends
BREAKS = ("br", "div", "p", "li", "tr")
SPECIAL = str.maketrans({"[": "&#91;", "\\": "&#92;", "{": "&#123;", "\n": "<br>"})

Note = tuple[str, str, str, list[str]]  # GUID, front, back, tags


def to_apkg(deck: Deck, timestamp: float) -> bytes:
    """An Anki package. The same deck at the same moment gives the same bytes."""
    genanki = needed("genanki", "genanki")
    template = {"name": "Card 1", "qfmt": "{{Front}}", "afmt": "{{FrontSide}}<hr id=answer>{{Back}}"}
    fields = [{"name": "Front"}, {"name": "Back"}]
    model = genanki.Model(MODEL_NUMBER, "Basic (Pellucid)", fields=fields, templates=[template])
    notes = genanki.Deck(deck_number(deck.name), deck.name)
    for card in deck.cards:
        texts = [escaped(text) for text in (card.front, card.back)]
        notes.add_note(genanki.Note(model, texts, tags=[card.topic], guid=card.id))
    with tempfile.TemporaryDirectory(prefix="pellucid-anki-") as folder:
        # Not by the package's own write_to_file, which leaves its database behind in the temporary folder.
        file = Path(folder) / "collection.anki2"
        with closing(sqlite3.connect(file)) as connection:
            genanki.Package(notes).write_to_db(connection.cursor(), timestamp, itertools.count(int(timestamp * 1000)))
            connection.commit()
        return _zipped({"collection.anki2": file.read_bytes(), "media": json.dumps({}).encode()})


def deck_number(name: str) -> int:
    """The number by which Anki knows a deck: another one for every name.

    >>> deck_number("Mine") == deck_number("Mine") != deck_number("Yours")
    True
    """
    return (1 << 31) + zlib.crc32(name.encode())


def escaped(text: str) -> str:
    """Text as a field that shows it as it is.

    >>> escaped("a < b [sound:x.mp3]")
    'a &lt; b &#91;sound:x.mp3]'
    """
    return html.escape(text).translate(SPECIAL)


def _zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)
    return out.getvalue()


# --- reading


def from_apkg(path: str | Path) -> tuple[str, list[Note]]:
    """The name of the deck of a package, and its notes: the first two fields of each, as text."""
    try:
        raw = _database(path)
        with tempfile.TemporaryDirectory(prefix="pellucid-anki-") as folder:
            file = Path(folder) / "collection"
            file.write_bytes(raw)
            return _contents(file)
    except LabError as error:
        raise LabError(explain(f"{path}: {error}")) from None
    except OSError as error:
        raise LabError(explain(f"{path}: cannot be read", why=error.strerror)) from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise LabError(explain(f"{path}: this is not an Anki package", why=str(error))) from None
    except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(explain(f"{path}: the notes of this package cannot be read", why=str(error))) from None


def _database(path: str | Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if "collection.anki21b" in names:
            raise LabError("it is a package of a newer Anki; export it with 'Support older Anki versions'")
        wanted = next((name for name in ("collection.anki21", "collection.anki2") if name in names), None)
        if wanted is None:
            raise LabError("there is no collection in it: this is not an Anki package")
        with archive.open(wanted) as file:
            raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise LabError(f"its collection is larger than {LARGEST:,} bytes")
    return raw


def _contents(file: Path) -> tuple[str, list[Note]]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.set_progress_handler(lambda: 1, STEPS)  # a query that goes on is stopped
        kinds = connection.execute("SELECT type FROM sqlite_master WHERE name IN ('notes', 'col')").fetchall()
        if kinds != [("table",), ("table",)]:
            raise LabError("there are no notes in its collection")
        for table in ("notes", "col"):  # a column may be computed when it is read, by whatever the file says
            if any(hidden for *_, hidden in connection.execute(f"PRAGMA table_xinfo({table})")):
                raise LabError("its collection computes what it holds, which is not read")
        rows = []
        left = LONGEST  # rows of a forged database may share their text
        for row in connection.execute(f"SELECT guid, flds, tags FROM notes ORDER BY id LIMIT {MOST + 1}"):
            left -= sum(len(part) for part in row if isinstance(part, (str, bytes)))
            if left < 0:
                raise LabError(f"there are more than {LONGEST:,} letters in its notes")
            rows.append(row)
        decks = json.loads(connection.execute("SELECT decks FROM col").fetchone()[0])
    if len(rows) > MOST:
        raise LabError(f"there are more than {MOST:,} notes in it")
    names = [" ".join(deck["name"].split()) for deck in decks.values() if deck["name"] not in ("Default", "")]
    return next(iter(names), "Imported"), [_note(*row) for row in rows]


def _note(guid: str, fields: str, tags: str) -> Note:
    front, back = [*map(plain_text, fields.split(SEPARATOR, 2)[:2]), ""][:2]
    return str(guid), front, back, tags.lower().split()


def plain_text(field: str) -> str:
    """The text of a field that is HTML.

    >>> plain_text("a &lt; b<br><b>bold</b><script>no()</script>")
    'a < b\\nbold'
    """
    return html.unescape("".join(_visible(field))).strip()


def _visible(field: str) -> Iterator[str]:
    """What a reader would see, in time proportional to the text (Python's own parser takes the square of it).

    What begins and does not end, a comment or a script, goes on to the end.
    """
    place = 0
    while (start := field.find("<", place)) >= 0:
        yield field[place:start]
        tag = TAG.match(field, start)
        if tag is not None:
            name, place = tag[2].lower(), tag.end()
            yield "\n" * (not tag[1] and name in BREAKS)
            if name in HIDDEN and not tag[1]:
                ended = HIDDEN[name].search(field, place)
                place = ended.start() if ended else len(field)
        elif field.startswith(("<!", "<?"), start):
            end = "-->" if field.startswith("<!--", start) else ">"
            place = field.find(end, start) + len(end)
            if place < len(end):
                return
        else:
            yield "<"
            place = start + 1
    yield field[place:]
