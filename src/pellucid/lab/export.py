"""Decks on their way to other programs and back: tab separated text for Anki, markdown for people; anki.py does .apkg.

A card keeps its id on every way (Anki calls it the note's GUID), so that importing a newer deck updates the cards that
are there already.
"""

import csv
import hashlib
import io
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pellucid.lab.anki import from_apkg, to_apkg
from pellucid.lab.cards import IDENTIFIER, Card, Deck
from pellucid.lab.reading import LabError, Place, needed, read_text
from pellucid.serialization.atomic import write_bytes

HEADERS = ["#separator:tab", "#html:false", "#notetype:Basic", "#tags column:3", "#guid column:4"]
HEADING = re.compile(r"## ([^ ]+) · ([^ ]+)")
ESCAPED = re.compile(r"\\(.)")
MARKUP = re.compile(r"[\\`*_\[<&~]|^[#>+=-]", re.MULTILINE)


def write(deck: Deck, format: str, path: str | Path) -> None:
    """Write a deck to a file in one of the formats."""
    write_bytes(path, to_apkg(deck, _moment()) if format == "apkg" else TEXTS[format](deck).encode())


def _moment() -> float:
    """The time of the export: Anki takes the newer of two cards. SOURCE_DATE_EPOCH makes it repeatable."""
    return float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())


# --- tab separated


def to_tsv(deck: Deck) -> str:
    """Front, back, topic and id of a card on a line, under the header lines Anki reads.

    >>> print(to_tsv(Deck("Mine", (Card("square", "scalar", "(x*x)'?", "2x"),))).replace("\\t", " | "))
    #separator:tab
    #html:false
    #deck:Mine
    #notetype:Basic
    #tags column:3
    #guid column:4
    (x*x)'? | 2x | scalar | square
    <BLANKLINE>
    """
    out = io.StringIO()
    out.write("\n".join([*HEADERS[:2], f"#deck:{deck.name}", *HEADERS[2:], ""]))
    plain = csv.writer(out, "excel-tab", lineterminator="\n")
    quoted = csv.writer(out, "excel-tab", lineterminator="\n", quoting=csv.QUOTE_ALL)
    for card in deck.cards:
        # A line that begins with # would be read as a comment.
        (quoted if card.front.startswith("#") else plain).writerow([card.front, card.back, card.topic, card.id])
    return out.getvalue()


def from_tsv(text: str, file: str) -> Deck:
    """Read what `to_tsv` writes, or any two columns of fronts and backs."""
    lines = text.split("\n")
    settings = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    name = _checked_settings(settings, file)
    cards: list[tuple[Place, list[str]]] = []
    for line, row in _rows("\n".join(lines[len(settings) :]), len(settings), file):
        place = Place(file, line, 1)
        if not 2 <= len(row) <= 4:
            raise place.error(f"a front and a back, separated by a tab, are wanted here; there are {len(row)} columns")
        cards.append((place, [*row, *["imported", _name_of(row[0])][len(row) - 2 :]]))
    return _deck(name, ((place, row[3], row[2], row[0], row[1]) for place, row in cards), file)


def _name_of(front: str) -> str:
    """An id for a card that has none. The same front gives the same, however many cards there are in the file."""
    return "card-" + hashlib.sha256(front.strip().encode()).hexdigest()[:12]


def _checked_settings(settings: Sequence[str], file: str) -> str:
    """The name of the deck; settings that would change what the fields mean are refused."""
    name = "Imported"
    for number, line in enumerate(settings, 1):
        key, _, value = line[1:].partition(":")
        if key == "deck" and value.strip():
            name = value.strip()
        if key == "separator" and value.strip().lower() not in ("tab", "\\t"):
            raise Place(file, number, 1).error(f"the separator is {value.strip()!r}", "export with tabs")
        if key == "html" and value.strip() != "false":
            raise Place(file, number, 1).error("the fields are HTML", "export without HTML and media references")
    return name


def _rows(text: str, before: int, file: str) -> Iterator[tuple[int, list[str]]]:
    """The rows with the number of the line each begins on; empty lines and comments are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), "excel-tab", strict=True)
    while True:
        line = before + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Place(file, line, 1).error(f"this row cannot be read: {error}") from None
        if row and not (len(row) == 1 and row[0].startswith("#")):
            yield line, row


# --- markdown


def to_markdown(deck: Deck) -> str:
    """A heading for every card, its front below, its back as a quotation.

    >>> print(to_markdown(Deck("Mine", (Card("square", "scalar", "The derivative of x²?", "2x"),))))
    # Mine
    <BLANKLINE>
    ## square · scalar
    <BLANKLINE>
    The derivative of x²?
    <BLANKLINE>
    > 2x
    <BLANKLINE>
    """
    lines = [f"# {deck.name}", ""]
    for card in deck.cards:
        front, back = (masked(text).split("\n") for text in (card.front, card.back))
        lines += [f"## {card.id} · {card.topic}", "", *front, "", *(f"> {x}".rstrip() for x in back), ""]
    return "\n".join(lines)


def masked(text: str) -> str:
    """Text that markdown shows as it is: what could be markup or HTML stands behind a backslash.

    >>> print(masked("a*b < c"))
    a\\*b \\< c
    """
    return MARKUP.sub(r"\\\g<0>", text)


def from_markdown(text: str, file: str) -> Deck:
    """Read what `to_markdown` writes."""
    lines = text.split("\n")
    if not lines[0].startswith("# ") or not lines[0][2:].strip():
        raise Place(file, 1, 1).error("the name of the deck is wanted here", "# My deck")
    cards: list[tuple[Place, str, str, list[str], list[str]]] = []
    for number, line in enumerate(lines[1:], 2):
        place = Place(file, number, 1)
        if line.startswith("#"):
            heading = HEADING.fullmatch(line.rstrip())
            if not heading:
                raise place.error("this heading names no card", "## id · topic")
            cards.append((place, heading[1], heading[2], [], []))
        elif not cards and line.strip():
            raise place.error("this stands before the first card", "## id · topic")
        elif cards:
            _place_line(line, cards[-1], place)
    return _deck(
        lines[0][2:].strip(), ((place, id, topic, _text(f), _text(b)) for place, id, topic, f, b in cards), file
    )


def _place_line(line: str, card: tuple[Place, str, str, list[str], list[str]], place: Place) -> None:
    front, back = card[3:]
    if line.startswith(">"):
        back.append(line[1:].removeprefix(" "))
    elif not back:
        front.append(line)
    elif line.strip():
        raise place.error("this stands after the back of a card", "begin the lines of a back with >")


def _text(lines: list[str]) -> str:
    return ESCAPED.sub(r"\1", "\n".join(lines)).strip()


# --- back into a deck of ours


def read_foreign(path: str | Path) -> Deck:
    """Read a deck from an .apkg, .tsv, .txt or .md file."""
    readers = {".tsv": from_tsv, ".txt": from_tsv, ".md": from_markdown, ".markdown": from_markdown}
    ending = Path(path).suffix.lower()
    if ending == ".apkg":
        return _of_notes(path)
    if ending not in readers:
        known = ", ".join([".apkg", *readers])
        raise LabError(f"{path}: {ending or 'a file without ending'} is not known here; one of {known}")
    return readers[ending](read_text(path), str(path))


def _of_notes(path: str | Path) -> Deck:
    """A deck of the notes of an Anki package; what is no name of ours (a GUID, a tag) gives way to one."""
    name, notes = from_apkg(path)
    cards = []
    for number, (guid, front, back, tags) in enumerate(notes, 1):
        topic = next((tag for tag in tags if IDENTIFIER.fullmatch(tag)), "imported")
        id = guid if IDENTIFIER.fullmatch(guid) else _name_of(front)
        cards.append((Place(str(path), number, 1), id, topic, front, back))
    return _deck(name, cards, str(path))


def _deck(name: str, cards: Iterable[tuple[Place, str, str, str, str]], file: str) -> Deck:
    found: dict[str, Card] = {}
    for place, id, topic, front, back in cards:
        for word in (id, topic):
            if not IDENTIFIER.fullmatch(word):
                raise place.error(f"{word[:40]!r} is no identifier", "small letters, digits and hyphens")
        if id in found:
            twice = "this card" if found[id].front == front.strip() else f"the id {id!r}"
            raise place.error(f"{twice} stands here twice")
        try:
            found[id] = Card(id, topic, front.strip(), back.strip())
        except LabError as error:
            raise place.error(str(error)) from None
    if not found:
        raise Place(file, 1, 1).error("there is no card in this file")
    return Deck(name, tuple(found.values()))


def to_yaml(deck: Deck) -> str:
    """A deck as `read_deck` reads it.

    >>> print(to_yaml(Deck("Mine", (Card("square", "scalar", "(x*x)'?", "2x"),))))
    deck: Mine
    cards:
    - id: square
      topic: scalar
      front: (x*x)'?
      back: 2x
    <BLANKLINE>
    """
    yaml = needed("yaml", "PyYAML")
    keys = ("id", "topic", "front", "back", "proof", "only")
    cards = [{key: getattr(card, key) for key in keys if getattr(card, key) is not None} for card in deck.cards]
    return str(yaml.safe_dump({"deck": deck.name, "cards": cards}, allow_unicode=True, sort_keys=False, width=110))


TEXTS: dict[str, Callable[[Deck], str]] = {"tsv": to_tsv, "markdown": to_markdown}
