"""An LSTM reads a book from front to back, one character at a time, and then continues it.

    python examples/lstm_text.py

The text is cut into parallel strands that are read side by side. The state flows on from one stretch to the next, the
gradient does not: `detach` ends it where the stretch began.

prints

    reading 1   loss 2.423
    reading 2   loss 1.754
    reading 3   loss 1.480
    reading 4   loss 1.281
    reading 5   loss 1.120
    reading 6   loss 0.986
    reading 7   loss 0.876
    reading 8   loss 0.790
    The first of March. Your brother at the boy. "Somember. The tower. I counted
    the wind went right when the morning and from the morning, and I trem ther
    west beandow for the boa, and the sea was hise on a glass of the sea stairs
    that I could see the boy. "Then I looked to mine was noon, and the weather
    window the clockw
    loss 2.42 -> 0.79
"""

import sys
import textwrap

import pellucid as torch
from pellucid.utils.data.datasets import Text, text

nn, F = torch.nn, torch.nn.functional
STRANDS, STRETCH = 32, 48
TEMPERATURE = 0.6


class Reader(nn.Module):
    def __init__(self, alphabet: int, width: int):
        super().__init__()
        self.embedding = nn.Embedding(alphabet, 32)
        self.lstm = nn.LSTM(32, width, batch_first=True)
        self.score = nn.Linear(width, alphabet)

    def forward(self, tokens, state=None):
        features, state = self.lstm(self.embedding(tokens), state)
        return self.score(features), state


def read_through(model, optimizer, strands) -> float:
    """One pass over the book; returns its mean loss."""
    state, losses = None, []
    for start in range(0, strands.shape[1] - 1 - STRETCH, STRETCH):
        here, following = strands[:, start : start + STRETCH], strands[:, start + 1 : start + STRETCH + 1]
        scores, state = model(here, state)
        state = tuple(part.detach() for part in state)
        loss = F.cross_entropy(scores.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def continue_text(model, book: Text, prompt: str, length: int) -> str:
    written = book.encode(prompt)
    with torch.no_grad():
        scores, state = model(torch.tensor([written]))
        for _ in range(length):
            chances = F.softmax(scores[0, -1] / TEMPERATURE, 0)
            written.append(torch.multinomial(chances, 1).item())
            scores, state = model(torch.tensor([written[-1:]]), state)
    return book.decode(written)


def main() -> None:
    quick = "--quick" in sys.argv
    torch.manual_seed(0)
    book = Text(text().text[:20_000]) if quick else text()
    strands = book.tokens[: len(book.tokens) // STRANDS * STRANDS].view(STRANDS, -1)

    model = Reader(len(book.characters), 32 if quick else 128)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 if quick else 5e-3)
    losses = []
    for reading in range(1, 4 if quick else 9):
        losses.append(read_through(model, optimizer, strands))
        print(f"reading {reading}   loss {losses[-1]:.3f}")
    print(textwrap.fill(continue_text(model, book, "The first of March. ", 40 if quick else 300), 76))
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")


if __name__ == "__main__":
    main()
