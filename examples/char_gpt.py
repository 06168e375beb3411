"""Train a small GPT on a short book, character by character, and let it write.

    python examples/char_gpt.py                 about a minute
    python examples/char_gpt.py --steps 100     shorter
    python examples/char_gpt.py --quick         a second or two: does it run?

From up to 64 characters, the model guesses the next one after each of them: every layer lets each position look back
at the ones before it (attention), then thinks about each position on its own (a small network).
Change `import pellucid as torch` to `import torch` and the same file runs on PyTorch.

With `--steps 2000 --seconds 200`, on one core of a busy machine, it prints

    92,958 characters, 58 different; 111,674 parameters; batches of 8 × 64
    step      1   loss 4.120      4,362 tokens/s   ETA 3:20
    step     50   loss 2.985      4,936 tokens/s   ETA 3:15
    ...
    step    650   loss 1.380      5,988 tokens/s   ETA 1:55
    ...
    step  1,850   loss 0.635      9,196 tokens/s   ETA 0:08
    step  2,000   loss 0.614      9,733 tokens/s   ETA 0:00

    2,000 steps in 105 s. The model writes:

      The first of March. The captain sun, for with the hind the window of the
      south-east all morning and swell come know the and for the sun, and the sea
      was green. I lit the barometer it. At dusk, where it is not could not know and
      the bottom the south-east, first in the sea tall, slow it is week. I read the
      houses, for the lantern room and the sea lamp at smell the well, and I read
      somebody now for bread for the south-west, but there was hardly and the iron
      page the water, the says to hil my coat and filled to the coast so that the
      sun will the water the instrument out, and I hear the number it. I trimmed
      bread the

    report: demo-report.html
    loss 4.12 -> 0.61
"""

import argparse
import math
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from report import Chart, write_report

import pellucid as torch
from pellucid.utils.data.datasets import Text, text
from pellucid.utils.progress import track

nn, F = torch.nn, torch.nn.functional

CONTEXT, LAYERS, HEADS, WIDTH = 64, 2, 4, 64
BATCH = 8
LEARNING_RATE, WARM_UP = 4e-3, 0.05  # the rate rises for the first twentieth, then falls along a cosine
LARGEST_GRADIENT = 1.0
RECORD_EVERY = 10
HELD_OUT_WINDOWS = 64
TEMPERATURE = 0.6  # below 1 the sample prefers likely characters: fewer surprises, better spelling


def windows(tokens, starts):
    """For each start, a stretch of tokens, and for each of these the one that follows."""
    span = tokens[starts.view(-1, 1) + torch.arange(CONTEXT + 1)]
    return span[:, :-1], span[:, 1:]


# ---- the model -------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Each position gathers from those before it what its query asks for; several heads ask at once."""

    def __init__(self):
        super().__init__()
        self.ask = nn.Linear(WIDTH, 3 * WIDTH)
        self.answer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.ask(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        return self.answer(found.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.network_norm = nn.LayerNorm(WIDTH)
        self.network = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.network(self.network_norm(x))


class GPT(nn.Module):
    def __init__(self, alphabet: int):
        super().__init__()
        self.embedding = nn.Embedding(alphabet, WIDTH)
        self.position_embedding = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.output_norm = nn.LayerNorm(WIDTH)
        self.output = nn.Linear(WIDTH, alphabet)
        self.apply(start_small)

    def forward(self, tokens):
        """Scores for the character after each position: (batch, length, alphabet)."""
        x = self.embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[1]))
        return self.output(self.output_norm(self.blocks(x)))


def start_small(module) -> None:
    """Small weights: the model begins without strong opinions."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.06)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def cross_entropy(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


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


def learning_rate(share: float) -> float:
    """After this share of the training."""
    return LEARNING_RATE * min(share / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * min(share, 1)))


def gradient_norms(model) -> dict:
    """The size of the gradient in each kind of layer."""
    squares: dict = {}
    for name, parameter in model.named_parameters():
        kind = next(kind for kind in ("norm", "embedding", "attention", "network", "output") if kind in name)
        squares[kind] = squares.get(kind, 0.0) + parameter.grad.square().sum().item()
    return {kind: square**0.5 for kind, square in squares.items()}


def train(model, tokens, steps: int, seconds: float) -> History:
    """Until `steps` are done or `seconds` have passed."""
    cut = len(tokens) * 9 // 10
    held_out = windows(tokens, torch.randint(cut, len(tokens) - CONTEXT, (HELD_OUT_WINDOWS,)))
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.1)
    history = History()
    bar = track(range(steps), seconds=seconds, unit="tokens", per_step=BATCH * CONTEXT)
    for _ in bar:
        inputs, targets = windows(tokens, torch.randint(0, cut - CONTEXT, (BATCH,)))
        loss = cross_entropy(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        history.steps, history.seconds = bar.step, bar.elapsed
        if bar.step == 1 or bar.step % RECORD_EVERY == 0 or bar.share == 1:
            record(history, model, loss.item(), held_out)
            bar.note(loss=smooth(history.loss[-10:])[-1][1])
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(bar.share)
        optimizer.step()
    return history


def record(history: History, model, loss: float, held_out: tuple) -> None:
    step = history.steps
    history.loss.append((step, loss))
    for kind, norm in gradient_norms(model).items():
        history.gradient_norms.setdefault(kind, []).append((step, norm))
    if step == 1 or step % (10 * RECORD_EVERY) == 0:
        with torch.no_grad():
            history.held_out.append((step, cross_entropy(model, *held_out).item()))


# ---- writing ---------------------------------------------------------------------------------------------


def write(model, book: Text, prompt: str, length: int) -> str:
    """Continue the prompt, one drawn character after the other."""
    written = book.encode(prompt)
    with torch.no_grad():
        for _ in range(length):
            scores = model(torch.tensor([written[-CONTEXT:]]))[0, -1]
            chances = F.softmax(scores / TEMPERATURE, 0)
            written.append(torch.multinomial(chances, 1).item())
    return book.decode(written)


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
            "Gradient norm by kind of layer",
            "Size of the gradient before clipping, on a logarithmic scale.",
            {name: smooth(points) for name, points in history.gradient_norms.items()},
            logarithmic=True,
        ),
    ]
    write_report(path, "A small GPT, trained by Pellucid", summary, charts, settings, sample)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=3_000, help="train at most this many steps (default 3000)")
    parser.add_argument("--seconds", type=float, default=60, help="train at most this long (default 60)")
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=Path("demo-report.html"), help="the page to write")
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.seconds <= 0:
        parser.error("--steps and --seconds must be positive")
    return arguments


def print_sample(sample: str) -> None:
    for paragraph in sample.split("\n"):
        print(textwrap.fill(paragraph, 80, initial_indent="  ", subsequent_indent="  "))


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    book = text()
    tokens = torch.tensor(book.encode(book.text))
    model = GPT(len(book.characters))
    size = sum(parameter.numel() for parameter in model.parameters())
    characters = f"{len(book.text):,} characters, {len(book.characters)} different"
    print(f"{characters}; {size:,} parameters; batches of {BATCH} × {CONTEXT}")

    history = train(model, tokens, 30 if arguments.quick else arguments.steps, arguments.seconds)
    sample = write(model, book, "The first of March. ", 60 if arguments.quick else 600)
    print(f"\n{history.steps:,} steps in {history.seconds:.0f} s. The model writes:\n")
    print_sample(sample)

    settings = {
        "text": f"the book of the light, {characters}",
        "model": f"{LAYERS} layers, {HEADS} heads, width {WIDTH}, context {CONTEXT}, {size:,} parameters",
        "training": f"AdamW, rate {LEARNING_RATE:g} falling to 0, batches of {BATCH} × {CONTEXT}",
        "speed": f"{history.steps * BATCH * CONTEXT / history.seconds:,.0f} tokens/s",
        "sampling": f"temperature {TEMPERATURE:g}",
        "seed": arguments.seed,
    }
    report(arguments.report, history, settings, sample)
    print(f"\nreport: {arguments.report}")
    print(f"loss {history.loss[0][1]:.2f} -> {smooth(history.loss)[-1][1]:.2f}")


if __name__ == "__main__":
    main()
