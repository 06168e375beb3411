"""The drill: the YAML reader, the deck and its proofs, reviews that survive a kill, and the ways to Anki and back."""

import builtins
import contextlib
import csv
import io
import itertools
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pellucid.cli import main
from pellucid.lab import anki, export, reading
from pellucid.lab.cards import DATA, TOPICS, Card, Deck, chapter, read_deck
from pellucid.lab.progress import Progress, default_path
from pellucid.lab.reading import LabError
from pellucid.lab.review import queue
from pellucid.lab.snippets import run_snippet, run_with

DECK = read_deck()
PROVEN = [card for card in DECK.cards if card.proof]
SOURCE = str(Path(__file__).resolve().parent.parent / "src")
PLACED = re.compile(r"\S+\.yaml:\d+:\d+: .+")

SMALL = """deck: Small
cards:
  - id: one
    topic: scalar
    front: What is one?
    back: The first.
  - id: two
    topic: scalar
    front: What is two?
    back: |
      The second.
      After one.
  - id: three
    topic: tensor
    front: "What is three?"
    back: The third.
"""


def count(topic):
    return sum(card.topic == topic for card in DECK.cards)


# --- the deck


def test_the_deck_covers_the_ten_topics():
    assert len(DECK.cards) >= 120
    for topic in TOPICS:
        assert count(topic) >= 10, topic
    assert {card.topic for card in DECK.cards} == set(TOPICS)
    assert len({card.front for card in DECK.cards}) == len(DECK.cards)


def test_a_card_that_states_a_number_has_a_proof():
    """Those without one state an advice, or a measurement of another machine that is told as such."""
    without = {card.id for card in DECK.cards if not card.proof}
    assert without == {
        "forward-memory", "function-flash", "modes-speed", "modes-metrics", "checking-preflight",
        "debugging-anomaly-cost", "debugging-leak", "debugging-four-classes", "debugging-post-mortem",
    }  # fmt: skip


@pytest.mark.parametrize("card", [card for card in PROVEN if card.only != "torch"], ids=lambda card: card.id)
def test_proof_on_pellucid(card):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_snippet(card.proof, card.id)


@pytest.mark.parametrize("card", [card for card in PROVEN if card.only != "pellucid"], ids=lambda card: card.id)
def test_proof_on_pytorch(card, torch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_with(torch, card.proof, card.id)


# What people believe of PyTorch and is not so, and the card that says what is: mission.md 1.13.
CLAIMS = {
    "detach gives zero gradients": ("autograd-detach-claim", "None"),
    "anomaly mode checks NaN or Inf": ("debugging-anomaly-nan", "Only NaN"),
    "anomaly mode costs 10-20 %": ("debugging-anomaly-cost", "375 %"),
    "no_grad is 30-50 % faster": ("modes-speed", "3 to 8 %"),
    "checkpointing costs a third": ("memory-checkpoint-cost", "measured"),
    "y = x*2; y.add_(1) breaks the graph": ("autograd-inplace-works", "No"),
    "the expected gradient is sum + a": ("scalar-diamond", "The second summand is b, not a"),
    "mean and relu store their input": ("memory-who-saves", "its result"),
    "naive logsumexp raises": ("function-logsumexp-naive", "inf"),
    "next_functions lists w, x, b": ("autograd-next-functions", "AccumulateGrad"),
    "backward is O(parameters)": ("autograd-cost", "forward"),
    "FlashAttention recomputes Q, K, V": ("function-flash", "saved"),
    "retain_graph is for higher order": ("autograd-retain-or-create", "create_graph"),
    "a child is a consumer": ("scalar-inputs-word", "input and consumer"),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_false_claim_has_its_card(claim):
    id, words = CLAIMS[claim]
    (card,) = [card for card in DECK.cards if card.id == id]
    assert words.lower() in " ".join(card.back.split()).lower(), card.back


def test_every_proof_asserts_something():
    for card in PROVEN:
        assert re.search(r"\bassert\b|\braises\(", card.proof), card.id


# --- reading YAML


def test_nothing_is_guessed(tmp_path):
    file = tmp_path / "deck.yaml"
    file.write_text("no: yes\ntime: 12:30\nsci: 1e3\noctal: 010\nnull: ~\ndate: 2024-01-01\nhex: 0x10\nfloat: .5\n")
    found = reading.read(file).content
    assert {key: node.text() for key, node in found.items()} == {
        "no": "yes", "time": "12:30", "sci": "1e3", "octal": "010", "null": "~", "date": "2024-01-01", "hex": "0x10",
        "float": ".5",
    }  # fmt: skip
    assert found["sci"].number() == 1000
    for key in ("octal", "time", "hex", "null", "float", "date"):
        with pytest.raises(LabError, match="a number is wanted"):
            found[key].number()


# What is wrong, and where it can stand: in place of a card, of a text, or of the whole file.
BAD_CARDS = [
    "- plain text", "- 7", "- []", "- {}", "- [a, b]", "- ~", "- {id: x}", "- {id: x, topic: t, front: f}",
    "- {id: x, topic: t, front: f, back: b, more: m}", "- {id: x, id: y, topic: t, front: f, back: b}",
    "- {id: one, topic: t, front: f, back: b}\n  - {id: one, topic: t, front: f, back: b}",
    "- {id: X Y, topic: t, front: f, back: b}", "- {id: x, topic: '', front: f, back: b}",
    "- {id: x, topic: t, front: f, back: b, only: mars}", "- {? [a] : b}", "- {? {a: b} : c}", "- &anchor {id: x}",
    "- *alias", "- !!python/object:os.system {id: x}", "- !tag {id: x}", "- {id: x, topic: t, front: f, back: b",
    "- [id: x", "- 'open", '- "open', "- id: x\n   topic: t", "- id: x\n  topic: [", "- id: x\n\ttopic: t",
    "- ---", "- %directive", "- @at", "- `tick`", "- {<<: *x}", "- - - - id",
]  # fmt: skip
BAD_TEXTS = [
    "[list]", "{a: b}", "", "''", '"\\e[31mred"', '"\\0"', '"\\u2028"', '"\\x07"', '"\\q"', "&a text", "*a", "!!str",
    "!!binary aGk=", "!!int 3", "a: b", "'open", '"open', "@at", "`tick`", "%per", "|5x", ">-+-", "? a",
    "[" * 60 + "]" * 60, "{a: " * 60 + "}" * 60,
]  # fmt: skip
BAD_FILES = [
    b"", b"\n\n", b"# only a comment", b"- a list", b"text", b"42", b"deck: x", b"cards: []", b"deck: x\ncards: []",
    b"deck: x\ncards:", b"deck: x\ncards: text", b"deck: [x]\ncards: [a]", b"deck: x\ncards: {a: b}",
    b"a: b\n---\nc: d",
    b"\xff\xfe\x00", b"deck: \xe9t\xe9", b"deck: \x00", b"deck: \x1b[31m", b"\xef\xbb\xbf", b"deck: x\ndeck: y",
    b"---\n---\n", b"- a\n" * 200_000,
    b"[" * 20_000, b"{" * 20_000, b"- " * 20_000, b"a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", b"#" * 1_000_001,
    b"!!set {a, b}", b"!!python/name:os.system", b"%YAML 9.0\n---\na: b", b"...", b"deck: x\n cards: y",
    b"key: [a, b\nother: c", b"\x80", b"deck: x\ncards:\n- \xf0\x28\x8c\x28", b"? ", b": ", b"-", b"deck: 'a\n\nb",
    b"deck: |\n  a\n b\ncards: x", b"*x", b"&x", b"!", b"{a: b}: c", b"deck: >\n\tx\n",
]  # fmt: skip


def bad_files():
    """More than 200 files, each with one fault."""
    lines = SMALL.splitlines(keepends=True)
    for bad, line in itertools.product(BAD_CARDS, (2, 6, 12)):
        yield "".join([*lines[:line], f"  {bad}\n", *lines[line:]]).encode()
    for bad, key in itertools.product(
        BAD_TEXTS, ("    back: The first.", "    front: What is two?", "    topic: tensor")
    ):
        yield SMALL.replace(key, f"{key.partition(':')[0]}: {bad}").encode()
    yield from BAD_FILES


def test_T49_two_hundred_bad_files(tmp_path):
    file = tmp_path / "bad.yaml"
    faults = list(bad_files())
    assert len(faults) >= 200
    for raw in faults:
        file.write_bytes(raw)
        with pytest.raises(LabError) as caught:
            read_deck(file)
        assert PLACED.match(str(caught.value)), raw[:200]
        assert caught.value.__suppress_context__ or caught.value.__context__ is None, "no traceback of yaml"


def test_a_text_may_be_as_large_as_a_file_and_no_larger():
    """What an import brings is text before it is parsed: it has the same bound."""
    assert reading.parse("a: " + "x" * (reading.SIZE - 3), "deck").fields(["a"])["a"].text().startswith("xx")
    with pytest.raises(LabError, match=r"deck:1:1: the file is larger than 1,000,000 bytes"):
        reading.parse("a: " + "x" * (reading.SIZE - 2), "deck")


def test_a_damaged_file_is_read_or_refused(tmp_path):
    """Bytes changed at random: a deck or our own error, nothing else."""
    file, chance, good = tmp_path / "fuzz.yaml", random.Random(0), SMALL.encode()
    for _ in range(50_000 if os.environ.get("PELLUCID_SOAK", "") not in ("", "0") else 300):
        raw = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.choice(b"\x00\n\t :-[]{}\"'&*!|>#%@`?,\xff0az")
        file.write_bytes(raw)
        with contextlib.suppress(LabError):
            read_deck(file)


def test_errors_name_the_place(tmp_path):
    file = tmp_path / "deck.yaml"
    file.write_text(SMALL.replace("id: two", "id: one"))
    with pytest.raises(LabError, match=rf"{file}:7:5: the id 'one' stands here twice"):
        read_deck(file)
    with pytest.raises(LabError, match="cannot be read"):
        read_deck(tmp_path / "nowhere.yaml")
    with pytest.raises(LabError, match="cannot be read"):
        read_deck(tmp_path)


def test_a_missing_package_names_the_extra(monkeypatch, capsys, data):
    monkeypatch.setitem(sys.modules, "fsrs", None)
    with pytest.raises(LabError, match=r"fsrs is not installed[\s\S]*pip install 'pellucid\[lab\]'"):
        reading.needed("fsrs", "fsrs")
    status, text = drill(monkeypatch, capsys, data, answers=["", "3"])
    assert status == 2 and "fsrs is not installed" in text and DECK.cards[0].front not in text


# --- reviews


def drill(monkeypatch, capsys, data, *arguments, answers=()):
    """Run `pellucid drill` with answers typed in; the status and what was printed."""
    lines = iter(answers)

    def typed(prompt=""):
        print(prompt, end="")
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", typed)
    status = main(["drill", "--data", str(data), *arguments])
    printed = capsys.readouterr()
    return status, printed.out + printed.err


@pytest.fixture
def data(tmp_path):
    return tmp_path / "drill.sqlite3"


def test_a_session(monkeypatch, capsys, data):
    answers = ["", "3", "", "p", "9", "4", "q"]
    status, text = drill(monkeypatch, capsys, data, "--topic", "forward", answers=answers)
    assert status == 0 and "2 answered. The next is due in 10 min." in text
    assert "again in 10 min" in text and "again in 8 days" in text and "assert" in text
    with Progress.opened(data) as progress:
        assert [review.rating for review in progress.reviews()] == [3, 4]
    assert "2 answered" not in drill(monkeypatch, capsys, data, "--stats")[1]
    assert re.search(rf"forward +{count('forward')} +2 +0 +2 +100 %", drill(monkeypatch, capsys, data, "--stats")[1])


def test_the_end_of_the_input_ends_the_session(monkeypatch, capsys, data):
    assert "0 answered" in drill(monkeypatch, capsys, data)[1]
    assert "0 answered" in drill(monkeypatch, capsys, data, answers=[""])[1]
    assert "1 answered" in drill(monkeypatch, capsys, data, answers=["", "3"])[1]


def test_new_cards_are_limited_and_what_was_forgotten_comes_back(monkeypatch, capsys, data):
    status, text = drill(monkeypatch, capsys, data, "--new", "1", answers=["", "1", "", "4"])
    assert status == 0 and "2 answered" in text and text.count(DECK.cards[0].front) == 2


def test_the_plan_follows_the_answers(data):
    cards, start = DECK.cards[:3], datetime(2030, 1, 1, tzinfo=UTC)
    with Progress.opened(data) as progress:
        first = [progress.answer(card.id, rating, start) for card, rating in zip(cards, (1, 3, 4), strict=True)]
        assert first[0] - start == timedelta(minutes=1) and first[1] - start == timedelta(minutes=10)
        assert first[2] - start > timedelta(days=2)
        later = start + timedelta(minutes=5)
        assert [card.id for card in itertools.islice(queue(progress, cards, 0, lambda: later), 1)] == [cards[0].id]
        again = progress.answer(cards[2].id, 3, first[2])
        assert again - first[2] > first[2] - start, "what was known is asked after a longer time"


def test_a_number_of_cards_is_no_less_than_none(monkeypatch, capsys, data):
    for words in (["--new", "-3"], ["--new", "x"], ["export", "--first", "1.5"]):
        with pytest.raises(SystemExit) as ended:
            drill(monkeypatch, capsys, data, *words)
        assert ended.value.code == 2 and "0 or more is wanted" in capsys.readouterr().err


def test_list_and_unknown_topics(monkeypatch, capsys, data):
    status, text = drill(monkeypatch, capsys, data, "--list", "--topic", "modes")
    assert status == 0 and text.count("\n") == count("modes") and not data.exists(), "to look makes no file"
    status, text = drill(monkeypatch, capsys, data, "--topic", "cooking")
    assert status == 2 and "no topic 'cooking'" in text


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "pellucid" / "drill.sqlite3"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local" / "share" / "pellucid" / "drill.sqlite3"


def damaged(data):
    """Progress files that cannot be used."""
    with Progress.opened(data) as progress:
        for card in DECK.cards:
            progress.answer(card.id, 3)
    good = data.read_bytes()
    yield b"this is not a database, but a letter to a friend" * 20
    yield good[: len(good) // 2]
    yield good[:100] + b"\x55" * (len(good) - 100)
    yield good[:4096] + bytes(random.Random(1).randbytes(len(good) - 4096))
    yield good[:60] + (99).to_bytes(4, "big") + good[64:]  # a layout of the future
    foreign = data.with_suffix(".foreign")
    with contextlib.closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.commit()
    yield foreign.read_bytes()


def test_a_damaged_file_is_never_overwritten(monkeypatch, capsys, data, tmp_path):
    for number, raw in enumerate(damaged(data)):
        file = tmp_path / f"damaged-{number}.sqlite3"
        file.write_bytes(raw)
        for arguments in ([], ["--stats"]):
            status, text = drill(monkeypatch, capsys, file, *arguments, answers=["", "3"])
            assert status == 2 and "cannot be used" in text and "Traceback" not in text, number
        assert file.read_bytes() == raw, number


def test_flipped_bits_in_the_progress_file(data, tmp_path):
    """Whatever is damaged: our own error and the file as it was, or every answer that is still readable."""
    with Progress.opened(data) as progress:
        for card in DECK.cards[:40]:
            progress.answer(card.id, 3)
    good, chance = data.read_bytes(), random.Random(5)
    for number in range(150):
        raw, file = bytearray(good), tmp_path / f"flipped-{number}.sqlite3"
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        file.write_bytes(raw)
        try:
            with Progress.opened(file) as progress:
                assert len(progress.reviews()) <= 40 and len(progress.dates()) <= 40 and not progress.added()
        except LabError:
            assert file.read_bytes() == bytes(raw)


def test_a_folder_that_cannot_be_written(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    status, text = drill(monkeypatch, capsys, tmp_path / "file" / "drill.sqlite3")
    assert status == 2 and "cannot be used" in text


def test_a_damaged_state_of_a_card(monkeypatch, capsys, data):
    with Progress.opened(data) as progress:
        progress.answer(DECK.cards[0].id, 1, datetime(2020, 1, 1, tzinfo=UTC))
        progress.connection.execute("UPDATE progress SET state = '{}'")
    status, text = drill(monkeypatch, capsys, data, answers=["", "3"])
    assert status == 2 and "cannot be used" in text


def test_a_terminal_is_sent_no_escapes(monkeypatch, capsys, data):
    with Progress.opened(data) as progress:
        progress.connection.execute("INSERT INTO added VALUES ('x', 'scalar', '\x1b[31mred', 'b')")
    status, text = drill(monkeypatch, capsys, data, answers=["", "3"])
    assert status == 2 and "a card that cannot be shown" in text and "\x1b" not in text


def started(data, *arguments):
    """`pellucid drill` in a process of its own, to be typed into."""
    return subprocess.Popen(
        [sys.executable, "-m", "pellucid", "drill", "--data", str(data), "--new", "1000", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
@pytest.mark.parametrize("count", [1, 5, 17])
def test_kill_in_the_middle_of_a_review(data, count):
    process = started(data)
    try:
        for _ in range(count):
            process.stdin.write("\n3\n")
        process.stdin.write("\n")  # the next card is turned, and not yet answered
        process.stdin.flush()
        seen = 0
        while seen < count:
            seen += "again in" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    with Progress.opened(data) as progress:
        reviews = progress.reviews()
        assert [review.card for review in reviews] == [card.id for card in DECK.cards[:count]]
        assert len(progress.dates()) == count


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_kill_at_any_moment(data):
    """Killed while it writes: what is there is whole, each answer with its date or not at all."""
    script = (
        "import sys\nfrom pellucid.lab.progress import Progress\n"
        "with Progress.opened(sys.argv[1]) as progress:\n"
        "    for i in range(100000):\n        progress.answer(f'card-{i}', 3)\n        print(i, flush=True)\n"
    )
    chance = random.Random(3)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(data)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        told = [process.stdout.readline() for _ in range(chance.randint(1, 40))]
        process.kill()
        process.communicate()
        with Progress.opened(data) as progress:
            cards = {review.card for review in progress.reviews()}
            assert cards == set(progress.dates()) and f"card-{len(told) - 1}" in cards


def test_two_processes_at_once(data):
    """Both begin with no file, and answer the same cards: no answer is lost."""
    processes = [started(data, "--topic", "scalar") for _ in range(3)]
    texts = [process.communicate("\n2\n" * 12 + "q\n", timeout=120)[0] for process in processes]
    assert all("12 answered" in text for text in texts), texts
    with Progress.opened(data) as progress:
        assert len(progress.reviews()) == 36
        assert {review.card for review in progress.reviews()} == set(progress.dates())


# --- export and import

PAYLOADS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</textarea><svg/onload=alert(1)>", "{{Front}}",
    "{{c1::cloze}}", "a\tb", 'say "hi"', "# no comment", "> no quote", "\\# masked", "&lt;b&gt; stays", "a\n\nb",
    "[sound:x.mp3]", "javascript:alert(1)", "## one · two", "--- \n# x", "=cmd|' /C calc'!A0", "`code <b>`",
    "&amp;amp;",
]  # fmt: skip
PAYLOADS += [one + other for one, other in itertools.product(PAYLOADS[:9], repeat=2)]  # a hundred
HOSTILE = Deck("Hostile", tuple(Card(f"p-{i}", "xss", text, text) for i, text in enumerate(PAYLOADS)))
PLAIN = Deck(DECK.name, tuple(Card(card.id, card.topic, card.front, card.back) for card in DECK.cards))


@pytest.mark.parametrize("deck", [PLAIN, HOSTILE], ids=["ours", "hostile"])
def test_tsv_and_markdown_come_back(deck, tmp_path):
    assert export.from_tsv(export.to_tsv(deck), "x.tsv") == deck
    trimmed = Deck(deck.name, tuple(Card(c.id, c.topic, c.front, c.back.replace(" \n", "\n")) for c in deck.cards))
    assert export.from_markdown(export.to_markdown(trimmed), "x.md") == trimmed
    file = tmp_path / "deck.yaml"
    file.write_text(export.to_yaml(deck), encoding="utf-8")
    assert read_deck(file) == deck


def test_tsv_is_what_anki_reads():
    lines = export.to_tsv(DECK).splitlines()
    assert lines[:4] == ["#separator:tab", "#html:false", "#deck:Pellucid · Autograd", "#notetype:Basic"]
    rows = list(csv.reader(io.StringIO(export.to_tsv(HOSTILE)), "excel-tab"))[6:]
    assert [row[0] for row in rows] == PAYLOADS


def test_ten_cards_of_a_chapter(monkeypatch, capsys, data):
    """A chapter for Anki: front and back separated by a tab, the deck's name ends in its number, note type Basic."""
    status, text = drill(monkeypatch, capsys, data, "export", "--topic", "tensor", "--first", "10")
    lines = text.splitlines()
    assert status == 0 and "#deck:Pellucid · Autograd · Ch 03" in lines and "#notetype:Basic" in lines
    rows = list(csv.reader(io.StringIO(text), "excel-tab"))[6:]
    assert [row[:2] for row in rows] == [[c.front, c.back] for c in DECK.cards if c.topic == "tensor"][:10]
    for row in rows:
        assert row[0].rstrip().endswith(("?", ".")) and row[0].count("?") <= 1, "one question at a time"


@pytest.mark.parametrize("number", range(1, 11))
def test_every_chapter_has_ten_cards(number):
    topic = list(TOPICS)[number - 1]
    assert count(topic) >= 10 and chapter(DECK.name, topic).endswith(f" · Ch {number:02}")


def test_markdown_holds_no_html():
    assert not re.search(r"(?<!\\)<", export.to_markdown(HOSTILE))


def test_T51_html_is_text_in_anki(tmp_path):
    file = tmp_path / "x.apkg"
    export.write(HOSTILE, "apkg", file)
    notes = anki_notes(file)
    assert len(notes) == len(PAYLOADS)
    for _, fields, _ in notes:
        assert not re.search(r"<(?!br>)", fields)
        assert not re.search(r"[\[{\\]", fields), "no sound, no LaTeX, no template, no formula"
    assert any("&lt;script&gt;" in fields for _, fields, _ in notes)


def anki_notes(file):
    with zipfile.ZipFile(file) as archive:
        assert set(archive.namelist()) == {"collection.anki2", "media"}
        database = archive.read("collection.anki2")
    copy = file.with_suffix(".anki2")
    copy.write_bytes(database)
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        return connection.execute("SELECT guid, flds, mid FROM notes ORDER BY id").fetchall()


def test_apkg_is_repeatable_and_updates(tmp_path, monkeypatch):
    first, again = export.to_apkg(DECK, 1e9), export.to_apkg(DECK, 1e9)
    assert first == again
    for name, when in (("a.apkg", "1000000000"), ("b.apkg", "1700000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", when)
        export.write(DECK, "apkg", tmp_path / name)
    before, after = anki_notes(tmp_path / "a.apkg"), anki_notes(tmp_path / "b.apkg")
    assert [note[0] for note in before] == [note[0] for note in after], "the same GUID: Anki updates the card"
    assert {note[2] for note in before} == {anki.MODEL_NUMBER} and len({note[0] for note in before}) == len(DECK.cards)


def test_export_and_import_on_the_command_line(monkeypatch, capsys, data, tmp_path):
    with Progress.opened(data) as progress:
        progress.add(Card("mine", "scalar", "A card of mine?", "Yes."))
    for format, name in (("tsv", "d.tsv"), ("markdown", "d.md"), ("apkg", "d.apkg")):
        file, back = tmp_path / name, tmp_path / f"{name}.yaml"
        status, _ = drill(monkeypatch, capsys, data, "export", "--format", format, "-o", str(file))
        assert status == 0
        assert drill(monkeypatch, capsys, data, "import", str(file), "-o", str(back))[0] == 0
        assert read_deck(back).cards == (*PLAIN.cards, Card("mine", "scalar", "A card of mine?", "Yes."))
        status, text = drill(monkeypatch, capsys, data, "--deck", str(back), "--new", "1", answers=["", "3"])
        assert status == 0 and "1 answered" in text
    for arguments in (["--topic", "modes", "export"], ["export", "--topic", "modes"]):
        status, text = drill(monkeypatch, capsys, data, *arguments)
        assert status == 0 and text.count("\tmodes\t") == count("modes")


def test_two_plain_columns_are_a_deck():
    deck = export.from_tsv('front\tback\nnext\t"a\nb"\n', "x.txt")
    assert [(card.front, card.back) for card in deck.cards] == [("front", "back"), ("next", "a\nb")]
    other = export.from_tsv("before\tx\nnext\ty\n", "y.txt")
    assert deck.cards[1].id == other.cards[1].id and deck.cards[0].id != other.cards[0].id, "named by their fronts"
    with pytest.raises(LabError, match=r"y\.txt:2:1: this card stands here twice"):
        export.from_tsv("a\tb\na\tc\n", "y.txt")


@pytest.mark.parametrize("deck", [PLAIN, HOSTILE], ids=["ours", "hostile"])
def test_apkg_comes_back(deck, tmp_path):
    file = tmp_path / "deck.apkg"
    export.write(deck, "apkg", file)
    assert export.read_foreign(file) == deck


def test_what_anki_made_is_read_as_text(tmp_path):
    """Another program's GUIDs, tags and HTML."""
    file = tmp_path / "theirs.apkg"
    file.write_bytes(
        package("INSERT INTO notes VALUES (1, 'aB%<c', '<b>One</b>&nbsp;<img src=x>?\x1fYes<div>No</div>', ' Ä ')")
    )
    (card,) = export.read_foreign(file).cards
    assert (card.front, card.back, card.topic) == ("One\xa0?", "Yes\nNo", "imported") and card.id.startswith("card-")


@pytest.mark.parametrize("name", ["deck.apkg", "deck.tsv", "deck.md"])
def test_a_damaged_export_is_read_or_refused(name, tmp_path):
    file, chance = tmp_path / name, random.Random(2)
    export.write(Deck("Small", PLAIN.cards[:5]), {"md": "markdown"}.get(name[5:], name[5:]), file)
    good = file.read_bytes()
    for _ in range(150):
        raw = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        file.write_bytes(raw[: chance.randint(1, len(raw))] if chance.random() < 0.2 else raw)
        with contextlib.suppress(LabError):
            export.read_foreign(file)


NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, guid, flds, tags);"
COLLECTION = """CREATE TABLE col (decks); INSERT INTO col VALUES ('{"1": {"name": "Mine"}}');"""


def package(statements, tables=NOTES + COLLECTION, name="collection.anki2"):
    """An Anki package with a database made by some statements."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(tables + statements)
    raw = connection.serialize()
    connection.close()
    return zipped({name: raw})


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return out.getvalue()


ENDLESS = (
    "CREATE TABLE x (y); CREATE VIEW notes AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) "
    "SELECT n AS id, 'a' AS guid, 'b' AS flds, '' AS tags FROM t;"
)
BAD_PACKAGES = {
    "no zip": b"this is not a zip file" * 10,
    "empty": b"",
    "half": zipped({"collection.anki2": b"x" * 1000})[:400],
    "no collection": zipped({"media": b"{}"}),
    "newer": zipped({"collection.anki21b": b"", "collection.anki2": b""}),
    "no database": zipped({"collection.anki2": b"not a database" * 100}),
    "bomb": zipped({"collection.anki2": bytes(60_000_000)}),
    "no notes": package("", tables=COLLECTION),
    "endless view": package("", tables=ENDLESS + COLLECTION),
    "empty notes": package(""),
    "one field": package("INSERT INTO notes VALUES (1, 'a', 'front only', '')"),
    "blank": package("INSERT INTO notes VALUES (1, NULL, 5, NULL)"),
    "no name": package("", tables=NOTES + "CREATE TABLE col (decks); INSERT INTO col VALUES ('[]');"),
    "no json": package("", tables=NOTES + "CREATE TABLE col (decks); INSERT INTO col VALUES ('{');"),
    "deep json": package("", tables=NOTES + f"CREATE TABLE col (decks); INSERT INTO col VALUES ('{'[' * 100_000}');"),
    "computed notes": package(
        "INSERT INTO notes VALUES (1, 'a', '')", tables="CREATE TABLE notes (id INTEGER PRIMARY KEY, guid, tags, "
        "flds GENERATED ALWAYS AS (hex(zeroblob(400000000))));" + COLLECTION,
    ),
    "computed decks": package("", tables=NOTES + "CREATE TABLE col (x, decks AS (hex(zeroblob(400000000))) STORED);"),
    "escape": package("INSERT INTO notes VALUES (1, 'a', '\x1b[31m\x1fb', '')"),
    "twice": package("INSERT INTO notes VALUES (1, 'a', 'b\x1fc', ''), (2, 'a', 'd\x1fe', '')"),
}  # fmt: skip


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a ", "<a/", "<a b='", '<a b="', "</", "<?", "<!", "<![CDATA[", "<", "&#", "a&", "<script>", "<p x=y>"],
)
def test_fields_are_read_in_proportion_to_their_length(piece):
    """Python's own parser of HTML takes the square of it: minutes for the 300 000 letters of a file of 1 kB."""
    began = time.process_time()
    anki.plain_text(piece * (300_000 // len(piece)))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("a &lt; b &amp;lt; c", "a < b &lt; c"), ("1 < 2 <3> 4", "1 < 2 <3> 4"),
        ("a<br/>b<BR>c<div>d</div>", "a\nb\nc\nd"),
        ('<img alt="x > y" src=z>after', "after"), ("<a title='it\"s'>in</a>", "in"),
        ("don't <b>can't</b>", "don't can't"),
        ("a<!-- <b> -->c<!-- d", "ac"), ("<!DOCTYPE x>a<?php b ?>c", "ac"),
        ("a<script>1 < 2</b></SCRIPT >b", "ab"),
        ("a<style>b", "a"), ("<ul><li>a<li>b</ul>", "a\nb"), ("a <b", "a <b"),
        ("&#65;&#x42;&notaname;", "AB¬aname;"),
    ],
)  # fmt: skip
def test_what_a_reader_sees_of_a_field(field, text):
    assert anki.plain_text(field) == text


def test_notes_that_hold_more_than_their_package(tmp_path, monkeypatch):
    file = tmp_path / "long.apkg"
    file.write_bytes(package("INSERT INTO notes VALUES (1, 'a', 'b\x1fc', ''), (2, 'd', 'e\x1ff', '')"))
    assert len(anki.from_apkg(file)[1]) == 2
    monkeypatch.setattr(anki, "LONGEST", 7)
    with pytest.raises(LabError, match="more than 7 letters"):
        anki.from_apkg(file)


@pytest.mark.parametrize("name", BAD_PACKAGES)
def test_a_bad_package_is_refused(name, tmp_path, monkeypatch, capsys, data):
    file, target = tmp_path / "bad.apkg", tmp_path / "deck.yaml"
    file.write_bytes(BAD_PACKAGES[name])
    target.write_text("untouched")
    status, text = drill(monkeypatch, capsys, data, "import", str(file), "-o", str(target))
    assert status == 2 and str(file) in text and "Traceback" not in text and "\x1b" not in text
    assert target.read_text() == "untouched"


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("x.tsv", "front only\n", r"x.tsv:1:1: a front and a back"),
        ("x.tsv", "#html:false\na\tb\n\nc\n", r"x.tsv:4:1: a front and a back"),
        ("x.tsv", "a\tb\tc\td\te\n", r"x.tsv:1:1: .* 5 columns"),
        ("x.tsv", "a\tb\n\t\n", r"x.tsv:2:1: .* is empty"),
        ("x.tsv", 'a\tb\n"c\td\n', r"x.tsv:2:1: this row cannot be read"),
        ("x.tsv", "#separator:comma\na,b\n", r"x.tsv:1:1: the separator"),
        ("x.tsv", "#html:true\na\tb\n", r"x.tsv:1:1: the fields are HTML"),
        ("x.tsv", "a\tb\tt\tid\nc\td\tt\tid\n", r"x.tsv:2:1: the id 'id' stands here twice"),
        ("x.tsv", "a\tb\tt\tBad Id\n", r"x.tsv:1:1: 'Bad Id' is no identifier"),
        ("x.tsv", "a\x1b[31m\tb\n", r"x.tsv:1:1: .* control character"),
        ("x.tsv", "", r"x.tsv:1:1: there is no card"),
        ("x.md", "no title\n", r"x.md:1:1: the name of the deck"),
        ("x.md", "# D\n\ntext\n", r"x.md:3:1: this stands before the first card"),
        ("x.md", "# D\n## a\n", r"x.md:2:1: this heading names no card"),
        ("x.md", "# D\n## a · t\n\nfront\n", r"x.md:2:1: .* the back is empty"),
        ("x.md", "# D\n## a · t\nfront\n> back\nmore\n", r"x.md:5:1: this stands after the back"),
        ("x.md", "# D\n", r"x.md:1:1: there is no card"),
        ("x.pdf", "", r"is not known here"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_told_with_its_line(monkeypatch, capsys, tmp_path, data, name, text, error):
    file, target = tmp_path / name, tmp_path / "deck.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    target.write_text("untouched")
    status, printed = drill(monkeypatch, capsys, data, "import", str(file), "-o", str(target))
    assert status == 2 and re.search(error, printed) and "Traceback" not in printed
    assert target.read_text() == "untouched"


def test_the_data_ships_with_the_package():
    assert (DATA / "cards.yaml").is_file() and (DATA / "quizzes.yaml").is_file()
