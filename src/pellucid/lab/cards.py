"""Cards: a question in front, its answer at the back, and the snippet that proves what it says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.lab.reading import CONTROL, LabError, Node, read

DATA = Path(__file__).parent / "data"
IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")

# The ten topics in the order of learning; the ids of quizzes count from 01 in this order.
TOPICS = {
    "scalar": {"en": "Scalars and the chain rule", "es": "Escalares y la regla de la cadena"},
    "forward": {"en": "Forward mode", "es": "Modo directo"},
    "tensor": {"en": "Tensors and shapes", "es": "Tensores y formas"},
    "autograd": {"en": "The autograd API", "es": "La interfaz de autograd"},
    "function": {"en": "Functions of your own", "es": "Funciones propias"},
    "memory": {"en": "Memory and checkpointing", "es": "Memoria y puntos de control"},
    "modes": {"en": "Gradient modes", "es": "Modos de gradiente"},
    "training": {"en": "Layers and optimizers", "es": "Capas y optimizadores"},
    "checking": {"en": "Checking gradients", "es": "Comprobar gradientes"},
    "debugging": {"en": "Finding out what is wrong", "es": "Averiguar qué falla"},
}


@dataclass(frozen=True, slots=True)
class Card:
    """One fact to remember.

    >>> Card("square", "scalar", "The derivative of x*x at 3?", "6").topic
    'scalar'
    """

    id: str
    topic: str
    front: str
    back: str
    proof: str | None = None
    only: str | None = None  # "pellucid" or "torch": the snippet is about one of the two

    def __post_init__(self) -> None:
        for name in ("id", "topic", "front", "back"):
            text = getattr(self, name)
            if not text.strip() or CONTROL.search(text):
                raise LabError(f"card {self.id!r}: the {name} is empty or holds a control character")


@dataclass(frozen=True, slots=True)
class Deck:
    """Cards under a name."""

    name: str
    cards: tuple[Card, ...]


def read_deck(path: str | Path | None = None) -> Deck:
    """Read a deck; the one that comes with Pellucid, unless a file is named.

    >>> read_deck().name
    'Pellucid · Autograd'
    """
    fields = read(path or DATA / "cards.yaml").fields(["deck", "cards"])
    cards: dict[str, Card] = {}
    for node in fields["cards"].items():
        card = _card(node)
        if card.id in cards:
            raise node.place.error(f"the id {card.id!r} stands here twice")
        cards[card.id] = card
    return Deck(" ".join(fields["deck"].text().split()), tuple(cards.values()))


def chapter(deck: str, topic: str | None) -> str:
    """The name of the part of a deck that is about a topic.

    >>> chapter("Pellucid · Autograd", "tensor")
    'Pellucid · Autograd · Ch 03'
    """
    if topic is None:
        return deck
    return f"{deck} · Ch {list(TOPICS).index(topic) + 1:02}" if topic in TOPICS else f"{deck} · {topic}"


def _card(node: Node) -> Card:
    fields = node.fields(["id", "topic", "front", "back"], ["proof", "only"])
    only = fields["only"].choice(["pellucid", "torch"]) if "only" in fields else None
    proof = fields["proof"].text() if "proof" in fields else None
    front, back = fields["front"].text(), fields["back"].text()
    return Card(identifier(fields["id"]), identifier(fields["topic"]), front, back, proof, only)


def identifier(node: Node) -> str:
    """A name of small letters, digits and hyphens."""
    text = node.text()
    if not IDENTIFIER.fullmatch(text):
        raise node.place.error(f"{text[:40]!r} is no identifier", "small letters, digits and hyphens")
    return text


def of_topic(cards: Sequence[Card], topic: str | None) -> list[Card]:
    """The cards of a topic, or all of them.

    >>> of_topic(read_deck().cards, "forward")[0].topic
    'forward'
    """
    known = dict.fromkeys(card.topic for card in cards)
    if topic is None:
        return list(cards)
    if topic not in known:
        raise LabError(f"there is no topic {topic!r}: choose one of {', '.join(known)}")
    return [card for card in cards if card.topic == topic]
