"""`pellucid drill`: cards in the terminal, each shown again when it is about to be forgotten."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from pellucid.lab.cards import Card, read_deck
from pellucid.lab.progress import Progress, utc_now
from pellucid.lab.reading import needed
from pellucid.lab.terminal import tell, typed

AHEAD = timedelta(minutes=20)  # what was just learned is asked again before the session ends
RATINGS = "1 forgotten, 2 hard, 3 good, 4 easy"
PROMPT = f"{RATINGS}; p shows the proof, q quits: "


def all_cards(progress: Progress, deck: str | Path | None = None) -> list[Card]:
    """The cards of a deck, then those that the learner's own mistakes added."""
    cards = {card.id: card for card in [*read_deck(deck).cards, *progress.added()]}
    return list(cards.values())


def drill(progress: Progress, cards: Sequence[Card], new: int = 10) -> int:
    """Ask the cards that are due and then some new ones, until none is left or the learner stops; says how many."""
    needed("fsrs", "fsrs")  # said before the first card, not after it
    answered = 0
    for card in queue(progress, cards, new):
        due = _ask(progress, card)
        if due is None:
            break
        answered += 1
        print(f"again in {_span(due - utc_now())}\n", flush=True)
    print(f"{answered} answered. {_outlook(progress, cards)}")
    return answered


def queue(progress: Progress, cards: Sequence[Card], new: int, now: Callable[[], datetime] = utc_now) -> Iterator[Card]:
    """The next card to ask, looked up anew each time: another process may have answered it meanwhile."""
    by_id, seen, fresh = {card.id: card for card in cards}, set(), new
    while True:
        dates = {card: due for card, due in progress.dates().items() if card in by_id}
        unknown = [card for card in by_id if card not in dates and card not in seen]
        due = [card for card, date in dates.items() if date <= now()]
        soon = [card for card, date in dates.items() if card in seen and date <= now() + AHEAD]
        if not due and unknown and fresh > 0:
            due, fresh = unknown, fresh - 1
        if not (due or soon):
            return
        card = (due or soon)[0]
        seen.add(card)
        yield by_id[card]


def _ask(progress: Progress, card: Card) -> datetime | None:
    """Show a card, front and back, and write down how well it was known; None when the learner wants to stop."""
    tell(f"[{card.topic}] {card.front}")
    if _line("(Enter turns the card, q quits) ") in ("q", None):
        return None
    tell(card.back)
    while (answer := _line(PROMPT)) not in ("q", None):
        if answer == "p":
            print(card.proof or "this card has no snippet")
        elif answer in ("1", "2", "3", "4"):
            return progress.answer(card.id, int(answer))
    return None


def _line(prompt: str) -> str | None:
    """What was typed; None at the end of the input."""
    line = typed(prompt)
    return None if line is None else line.strip().lower()


def _span(span: timedelta) -> str:
    """A length of time in its largest unit.

    >>> _span(timedelta(minutes=10)), _span(timedelta(days=8, hours=2))
    ('10 min', '8 days')
    """
    minutes = round(span.total_seconds() / 60)
    if minutes < 60:
        return f"{max(minutes, 1)} min"
    if minutes < 36 * 60:
        return f"{round(minutes / 60)} h"
    return f"{round(minutes / 60 / 24)} days"


def _outlook(progress: Progress, cards: Sequence[Card]) -> str:
    known = {card.id for card in cards}
    dates = [due for card, due in progress.dates().items() if card in known]
    if not dates:
        return "No card was begun yet."
    wait = min(dates) - utc_now()
    return "More are due now." if wait.total_seconds() <= 0 else f"The next is due in {_span(wait)}."


def listing(cards: Sequence[Card]) -> str:
    """One line per card: its topic, its id and its front.

    >>> print(listing([Card("square", "scalar", "The derivative of x*x?", "2x")]))
    scalar     square                        The derivative of x*x?
    """
    return "\n".join(f"{card.topic:<10} {card.id:<29} {card.front.splitlines()[0]}" for card in cards)


def statistics(progress: Progress, cards: Sequence[Card]) -> str:
    """A table by topic: how many cards, how many were ever asked, how many are due, and how often they were known."""
    dates, now = progress.dates(), utc_now()
    topics = {card.id: card.topic for card in cards}
    total = Counter(topics.values())
    begun = Counter(topics[card] for card in dates if card in topics)
    due = Counter(topics[card] for card, date in dates.items() if card in topics and date <= now)
    answers = [(topics[each.card], each.rating > 1) for each in progress.reviews() if each.card in topics]
    asked, known = Counter(topic for topic, _ in answers), Counter(topic for topic, good in answers if good)
    lines = [f"{'topic':<12}{'cards':>6}{'begun':>6}{'due':>6}{'answers':>9}{'known':>7}"]
    columns = [total, begun, due, asked, known]
    lines += [_row(topic, [column[topic] for column in columns]) for topic in total]
    return "\n".join([*lines, _row("all", [column.total() for column in columns])])


def _row(topic: str, numbers: list[int]) -> str:
    cards, begun, due, answers, known = numbers
    share = f"{100 * known / answers:.0f} %" if answers else "-"
    return f"{topic:<12}{cards:>6}{begun:>6}{due:>6}{answers:>9}{share:>7}"
