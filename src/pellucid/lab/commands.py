"""`pellucid drill` and `pellucid quiz`: their arguments, and what they call."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pellucid.lab.terminal import add_command, count, reported

if TYPE_CHECKING:
    from pellucid.lab.cards import Card

DATA_HELP = "the file of progress (default: in the user's data folder)"


def add_commands(commands: Any) -> None:
    """Add the lab's commands to those of `pellucid`."""
    _add_drill(commands)
    _add_quiz(commands)


def _add_drill(commands: Any) -> None:
    drill = add_command(
        commands, "drill", "learn facts about autograd with cards, each shown when it is due",
        epilog="examples:\n  pellucid drill\n  pellucid drill --topic memory --new 5\n"
        "  pellucid drill export --format apkg -o autograd.apkg",
    )  # fmt: skip
    drill.add_argument("--new", type=count, default=10, metavar="N", help="how many new cards (default: 10)")
    drill.add_argument("--list", action="store_true", help="list the cards")
    drill.add_argument("--stats", action="store_true", help="what was learned so far, by topic")
    _add_cards(drill)
    drill.set_defaults(function=drill_command)
    actions = drill.add_subparsers(dest="action", metavar="export | import")
    export = add_command(actions, "export", "write the cards for Anki, or to be read")
    _add_cards(export, default=argparse.SUPPRESS)  # given before or after the word export
    export.add_argument("--format", choices=["tsv", "apkg", "markdown"], default="tsv", help="default: tsv")
    export.add_argument("--first", type=count, metavar="N", help="only the first N cards")
    export.add_argument("-o", "--output", metavar="FILE", help="default: the terminal, and cards.apkg")
    importing = add_command(actions, "import", "make a YAML deck of a tab separated, markdown or .apkg file")
    importing.add_argument("file", metavar="FILE", help="the file")
    importing.add_argument("-o", "--output", metavar="FILE", help="default: the terminal")


def _add_quiz(commands: Any) -> None:
    quiz = add_command(
        commands, "quiz", "answer questions about autograd; what you compute is run and judged",
        epilog="examples:\n  pellucid quiz --topic scalar\n  pellucid quiz --id q-01-01 --lang es\n"
        "  pellucid quiz --topic debugging --cards",
    )  # fmt: skip
    quiz.add_argument("--file", metavar="FILE", help="other questions than ours (YAML)")
    quiz.add_argument("--topic", help="only questions of this topic")
    quiz.add_argument("--id", help="only this question")
    quiz.add_argument("--lang", choices=["en", "es"], default="en", help="English or Spanish (default: en)")
    quiz.add_argument("--cards", action="store_true", help="keep what was answered wrong as drill cards")
    quiz.add_argument("--list", action="store_true", help="list the questions")
    quiz.add_argument("--data", metavar="FILE", help=DATA_HELP)
    quiz.set_defaults(function=quiz_command)


def _add_cards(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Which cards, and where the progress is kept."""
    parser.add_argument("--topic", default=default, help="only cards of this topic")
    parser.add_argument("--deck", default=default, metavar="FILE", help="another deck (YAML)")
    parser.add_argument("--data", default=default, metavar="FILE", help=DATA_HELP)


@reported
def drill_command(options: argparse.Namespace) -> int:
    """`pellucid drill [export | import]`."""
    actions = {None: _drill, "export": _export, "import": _import}
    actions[options.action](options)
    return 0


def _drill(options: argparse.Namespace) -> None:
    from pellucid.lab.cards import of_topic
    from pellucid.lab.progress import Progress
    from pellucid.lab.review import all_cards, drill, listing, statistics

    if options.list:
        print(listing(_cards(options)))
        return
    with Progress.opened(options.data) as progress:
        cards = of_topic(all_cards(progress, options.deck), options.topic)
        if options.stats:
            print(statistics(progress, cards))
        else:
            drill(progress, cards, options.new)


def _cards(options: argparse.Namespace) -> "list[Card]":
    """What would be drilled; to look at it makes no file."""
    from pellucid.lab.cards import of_topic, read_deck
    from pellucid.lab.progress import Progress, default_path
    from pellucid.lab.review import all_cards

    if not Path(options.data or default_path()).exists():
        return of_topic(read_deck(options.deck).cards, options.topic)
    with Progress.opened(options.data) as progress:
        return of_topic(all_cards(progress, options.deck), options.topic)


def _export(options: argparse.Namespace) -> None:
    from pellucid.lab.cards import Deck, chapter, read_deck
    from pellucid.lab.export import TEXTS, write

    cards = _cards(options)[: options.first]
    deck = Deck(chapter(read_deck(options.deck).name, options.topic), tuple(cards))
    output = options.output or ("cards.apkg" if options.format == "apkg" else None)
    if output is None:
        sys.stdout.write(TEXTS[options.format](deck))
    else:
        write(deck, options.format, output)
        print(f"{_amount(len(cards))} written to {output}")


def _import(options: argparse.Namespace) -> None:
    from pellucid.lab.cards import read_deck
    from pellucid.lab.export import read_foreign, to_yaml
    from pellucid.serialization.atomic import write_bytes

    deck = read_foreign(options.file)
    if options.output is None:
        sys.stdout.write(to_yaml(deck))
        return
    write_bytes(options.output, to_yaml(deck).encode())
    amount = _amount(len(read_deck(options.output).cards))
    print(f"{amount} written to {options.output}: pellucid drill --deck {options.output}")


def _amount(cards: int) -> str:
    return "1 card" if cards == 1 else f"{cards} cards"


@reported
def quiz_command(options: argparse.Namespace) -> int:
    """`pellucid quiz`."""
    from pellucid.lab.progress import Progress
    from pellucid.lab.questions import chosen, read_questions
    from pellucid.lab.quiz import take

    questions = chosen(read_questions(options.file), options.topic, options.id)
    if options.list:
        for each in questions:
            print(f"{each.id}  {each.topic:<10} {each.question[options.lang].splitlines()[0]}")
    elif options.cards:
        with Progress.opened(options.data) as progress:
            take(questions, options.lang, progress)
    else:
        take(questions, options.lang)
    return 0
