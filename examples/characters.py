"""The text of the language models, as numbers: one number for each different character."""

from pathlib import Path

TEXT = Path(__file__).parent / "data" / "lighthouse.txt"


def read_text() -> str:
    """The book with its line breaks undone: one line is one paragraph."""
    paragraphs = TEXT.read_text(encoding="utf-8").split("\n\n")
    return "\n".join(paragraph.replace("\n", " ").strip() for paragraph in paragraphs)


class Alphabet:
    """The characters of a text in order, and their numbers."""

    def __init__(self, text: str):
        self.characters = sorted(set(text))
        self.numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> list[int]:
        return [self.numbers[character] for character in text]

    def decode(self, numbers: list[int]) -> str:
        return "".join(self.characters[number] for number in numbers)
