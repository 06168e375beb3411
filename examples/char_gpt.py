"""Train a small language model of characters on the tensor engine alone: no layers, no optimizer, no magic.

    python examples/char_mlp.py                 about a minute
    python examples/char_mlp.py --steps 500     shorter

From the 16 characters before it, the model guesses the next one: each character is looked up in a table
of vectors, the 16 vectors side by side go through one tanh layer, and a last layer scores every character.
Change the first import to `import torch` and the same file runs on PyTorch.
"""

import argparse
import random
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

from report import Chart, write_report

import pellucid as torch

TEXT = Path(__file__).parent / "data" / "lighthouse.txt"
CONTEXT, EMBEDDING, HIDDEN = 16, 24, 256
BATCH = 128
LEARNING_RATE = 4e-3
MEMORY, SQUARE_MEMORY = 0.9, 0.99  # how slowly Adam forgets gradients and their squares
RECORD_EVERY = 10
HELD_OUT_WINDOWS = 1_000
TEMPERATURE = 0.6  # below 1 the sample prefers likely characters: fewer surprises, better spelling


# ---- the text --------------------------------------------------------------------------------------------


def read_text() -> str:
    """The book with its line breaks undone: one line is one paragraph."""
    paragraphs = TEXT.read_text(encoding="utf-8").split("\n\n")
    return "\n".join(paragraph.replace("\n", " ").strip() for paragraph in paragraphs)


def windows(tokens, starts):
    """For each start, 16 tokens and the one that follows them."""
    offsets = torch.tensor(list(range(CONTEXT + 1)))
    span = tokens[starts.view(-1, 1) + offsets]
    return span[:, :CONTEXT], span[:, CONTEXT]


# ---- the model -------------------------------------------------------------------------------------------


def make_parameters(vocabulary: int) -> dict:
    wide = CONTEXT * EMBEDDING
    parameters = {
        "embedding": torch.randn(vocabulary, EMBEDDING) * 0.5,
        "hidden weight": torch.randn(wide, HIDDEN) * wide**-0.5,
        "hidden bias": torch.zeros(HIDDEN),
        "output weight": torch.randn(HIDDEN, vocabulary) * 0.02,  # small: begin by thinking all are equal
        "output bias": torch.zeros(vocabulary),
    }
    for parameter in parameters.values():
        parameter.requires_grad_()
    return parameters


def predict(parameters: dict, contexts):
    """The logarithm of each character's probability, one row per context."""
    vectors = parameters["embedding"][contexts].view(-1, CONTEXT * EMBEDDING)
    hidden = (vectors @ parameters["hidden weight"] + parameters["hidden bias"]).tanh()
    return torch.log_softmax(hidden @ parameters["output weight"] + parameters["output bias"], 1)


def cross_entropy(log_probabilities, targets):
    return -log_probabilities.gather(1, targets.view(-1, 1)).mean()


class Adam:
    """Steps of even size: each gradient is divided by the usual size of itself."""

    def __init__(self, parameters: list):
        self.parameters = parameters
        self.means = [torch.zeros(*p.shape) for p in parameters]
        self.squares = [torch.zeros(*p.shape) for p in parameters]
        self.steps = 0

    def step(self, rate: float) -> None:
        self.steps += 1
        # Both averages start at zero; this undoes the pull towards it in the first steps.
        rate *= (1 - SQUARE_MEMORY**self.steps) ** 0.5 / (1 - MEMORY**self.steps)
        with torch.no_grad():
            for p, mean, square in zip(self.parameters, self.means, self.squares):
                mean.mul_(MEMORY).add_(p.grad * (1 - MEMORY))
                square.mul_(SQUARE_MEMORY).add_(p.grad * p.grad * (1 - SQUARE_MEMORY))
                p -= rate * mean / (square.sqrt() + 1e-8)
                p.grad.zero_()


# ---- training --------------------------------------------------------------------------------------------


@dataclass
class History:
    loss: list = field(default_factory=list)
    held_out: list = field(default_factory=list)
    gradient_norms: dict = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0


def smooth(points: list, window: int = 10) -> list:
    """Each value averaged with the ones before it: single batches are too noisy to read."""
    return [
        (step, sum(value for _, value in points[max(0, end - window) : end]) / min(window, end))
        for end, (step, _) in enumerate(points, start=1)
    ]


class Progress:
    """One living line on a terminal; elsewhere a plain line every few seconds."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.next_line = 0.0

    def show(self, history: History, share: float) -> None:
        elapsed = history.seconds
        if not self.live and elapsed < self.next_line and share < 1:
            return
        self.next_line = elapsed + 5
        loss = smooth(history.loss[-10:])[-1][1]
        speed = history.steps * BATCH / elapsed
        minutes, seconds = divmod(round(max(0.0, elapsed / share - elapsed)), 60)
        left = f"{minutes}:{seconds:02d}"
        line = f"step {history.steps:>6,}   loss {loss:.3f}   {speed:>8,.0f} tokens/s   ETA {left}"
        print(f"\r\033[K{line}" if self.live else line, end="" if self.live else "\n", flush=True)

    def close(self) -> None:
        if self.live:
            print()


def train(parameters: dict, tokens, steps: int, seconds: float) -> History:
    """Until `steps` are done or `seconds` have passed; the learning rate falls to zero towards the end."""
    cut = len(tokens) * 9 // 10
    training = tokens[:cut]
    held_out = windows(tokens, torch.randint(cut, len(tokens) - CONTEXT, (HELD_OUT_WINDOWS,)))
    history, progress, adam = History(), Progress(), Adam(list(parameters.values()))
    began = time.perf_counter()
    share = 0.0
    while share < 1:
        contexts, targets = windows(training, torch.randint(0, cut - CONTEXT, (BATCH,)))
        loss = cross_entropy(predict(parameters, contexts), targets)
        loss.backward()
        history.steps += 1
        history.seconds = time.perf_counter() - began
        share = max(history.steps / steps, history.seconds / seconds)
        if history.steps == 1 or history.steps % RECORD_EVERY == 0:
            record(history, parameters, loss.item(), held_out)
            progress.show(history, share)
        adam.step(LEARNING_RATE * max(0.0, 1 - share))
    progress.close()
    return history


def record(history: History, parameters: dict, loss: float, held_out: tuple) -> None:
    step = history.steps
    history.loss.append((step, loss))
    for name, parameter in parameters.items():
        norm = (parameter.grad * parameter.grad).sum().item() ** 0.5
        history.gradient_norms.setdefault(name, []).append((step, norm))
    if step == 1 or step % (20 * RECORD_EVERY) == 0:
        history.held_out.append((step, evaluate(parameters, held_out)))


def evaluate(parameters: dict, held_out: tuple) -> float:
    contexts, targets = held_out
    with torch.no_grad():
        return cross_entropy(predict(parameters, contexts), targets).item()


# ---- writing ---------------------------------------------------------------------------------------------


def write(parameters: dict, characters: list[str], prompt: str, length: int, seed: int) -> str:
    """Continue the prompt, one drawn character after the other."""
    chance = random.Random(seed)
    index = {character: number for number, character in enumerate(characters)}
    written = [index[character] for character in prompt]
    with torch.no_grad():
        for _ in range(length):
            log_probabilities = predict(parameters, torch.tensor([written[-CONTEXT:]]))
            weights = (log_probabilities[0] / TEMPERATURE).exp().tolist()
            written += chance.choices(range(len(characters)), weights)
    return "".join(characters[number] for number in written)


def report(path: Path, history: History, settings: dict, sample: str) -> None:
    first, last = history.loss[0][1], smooth(history.loss)[-1][1]
    summary = (
        f"{history.steps:,} steps in {history.seconds:.0f} seconds; "
        f"the loss fell from {first:.2f} to {last:.2f} nats per character."
    )
    charts = [
        Chart(
            "Loss",
            "Cross-entropy per character; lower is better. What lies between the lines was learned by heart.",
            {"training": smooth(history.loss), "held-out text": history.held_out},
        ),
        Chart(
            "Gradient norm per parameter",
            "Size of the gradient that reaches each parameter, on a logarithmic scale.",
            {name: smooth(points) for name, points in history.gradient_norms.items()},
            logarithmic=True,
        ),
    ]
    write_report(path, "A character model, trained by Pellucid", summary, charts, settings, sample)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--steps", type=int, default=8_000, help="train at most this many steps (default 8000)")
    parser.add_argument("--seconds", type=float, default=60, help="train at most this long (default 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="the page to write")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.seconds <= 0:
        parser.error("--steps and --seconds must be positive")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    text = read_text()
    characters = sorted(set(text))
    index = {character: number for number, character in enumerate(characters)}
    tokens = torch.tensor([index[character] for character in text])
    parameters = make_parameters(len(characters))
    size = sum(parameter.numel() for parameter in parameters.values())
    print(f"{len(text):,} characters, {len(characters)} different; {size:,} parameters; batches of {BATCH}")

    history = train(parameters, tokens, arguments.steps, arguments.seconds)
    sample = write(parameters, characters, "The first of March. ", 600, arguments.seed)
    print(f"\n{history.steps:,} steps in {history.seconds:.0f} s. The model writes:\n")
    for paragraph in sample.split("\n"):
        print(textwrap.fill(paragraph, 80, initial_indent="  ", subsequent_indent="  "))

    settings = {
        "text": f"{TEXT.name}, {len(text):,} characters, {len(characters)} different",
        "model": f"context {CONTEXT}, embedding {EMBEDDING}, hidden {HIDDEN}, {size:,} parameters",
        "training": f"Adam, rate {LEARNING_RATE:g} falling to 0, batches of {BATCH}",
        "speed": f"{history.steps * BATCH / history.seconds:,.0f} tokens/s",
        "sampling": f"temperature {TEMPERATURE:g}",
        "seed": arguments.seed,
    }
    report(arguments.report, history, settings, sample)
    print(f"\nreport: {arguments.report}")


if __name__ == "__main__":
    main()
