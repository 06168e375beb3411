"""The reference: one entry for every public name, made of signatures, docstrings and the table of operations.

A name whose docstring shows no example gets one that was run to make the page (examples.py). A further name of a thing
leads to its main one, and `names` in a text to their entries (book.py).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from book import Book, target_of
from examples import example
from sources import Sources

import pellucid
from pellucid.ops import load_families
from pellucid.ops.operation import OPERATIONS, Operation

# Page, title, modules whose names it lists, what it is for.
NAMESPACES = (
    ("nn.md", "torch.nn: modules", ("nn",), "Layers, losses and containers: objects that own parameters."),
    ("nn-functional.md", "torch.nn.functional", ("nn.functional",), "The same as functions: parameters are arguments."),
    (
        "nn-init.md",
        "torch.nn.init and torch.nn.utils",
        ("nn.init", "nn.utils"),
        "First values of parameters; clipping, packing, parametrizations.",
    ),
    ("optim.md", "torch.optim", ("optim", "optim.lr_scheduler"), "Optimisers, and schedules of their learning rates."),
    (
        "data.md",
        "torch.utils.data",
        ("utils.data", "utils.data.datasets", "utils.progress"),
        "Data sets, samplers, loaders; small data sets that need no download.",
    ),
    (
        "autograd.md",
        "torch.autograd and torch.func",
        ("autograd", "autograd.functional", "autograd.forward_ad", "autograd.graph", "func"),
        "Gradients, and functions that make functions.",
    ),
    ("linalg.md", "torch.linalg", ("linalg",), "Linear algebra."),
    ("fft.md", "torch.fft", ("fft", "signal.windows"), "Fourier transforms and windows."),
    (
        "special.md",
        "torch.special and torch.masked",
        ("special", "masked"),
        "Special functions; reductions of masked tensors.",
    ),
    (
        "distributions.md",
        "torch.distributions",
        ("distributions",),
        "Distributions to draw from and to take probabilities of.",
    ),
    (
        "memory.md",
        "Memory and mixed precision",
        ("memory", "utils.checkpoint", "amp"),
        "What backward keeps, checkpointing, lower precision.",
    ),
    (
        "saving.md",
        "Saving and random numbers",
        ("serialization", "random"),
        "Files in PyTorch's format; the state of the generator.",
    ),
    ("scalar.md", "pellucid.scalar", ("scalar", "scalar.nn"), "The teaching engine on single numbers."),
    ("explorer.md", "pellucid.explorer", ("explorer",), "Pages that show a graph and move."),
)
DIAGNOSE = (
    "explain", "backward_steps", "why", "doctor", "Recorder", "summary", "check_gradient_flow", "find_nan_gradients",
    "inspect_batch", "attach_gradient_nan_hooks", "capture", "explore",
)  # fmt: skip
LETTERS = ("_ab", "cd", "efgh", "ijkl", "mno", "pqr", "s", "tuvwxyz")
INTERNAL = {"array", "node", "cut", "window", "from_data", "to_device"}  # of a Tensor, for the engine's own use


def reference_pages(sources: Sources) -> dict[str, str]:
    """The text of every page of the reference, by file name."""
    load_families()
    listed = list(contents())
    book = Book({file: things for file, _, _, things in listed}, sources)
    pages = {file: page(title, about, things, book) for file, title, about, things in listed}
    return pages | {"index.md": index_page(pages)}


def contents() -> Iterable[tuple[str, str, str, dict[str, Any]]]:
    """Every page: its file, title, what it is about, and the things that have an entry on it, by their paths."""
    yield "tensor.md", "torch.Tensor", tensor_head(), tensor_things()
    yield from torch_pages()
    for file, title, modules, about in NAMESPACES:
        yield file, title, about, {path: thing for module in modules for path, thing in public(module).items()}
    watching = "Everything here watches: it explains gradients, finds what is wrong, and changes nothing."
    yield "diagnose.md", "Seeing through it", watching, {f"torch.{name}": getattr(pellucid, name) for name in DIAGNOSE}


def page(title: str, about: str, things: Mapping[str, Any], book: Book) -> str:
    order = sorted(things, key=in_order)
    return "\n\n".join([f"# {title}", about, *(entry(path, things[path], book) for path in order)]) + "\n"


def in_order(path: str) -> tuple[str, bool, str]:
    """By namespace and letter; names that begin with an underscore last."""
    home, _, name = path.rpartition(".")
    return home, name.startswith("_"), name.lower()


# --- what is public


def public(module: str) -> dict[str, Any]:
    """The functions and classes of one of our modules, and the operations published there, by their path."""
    home = import_module(f"pellucid.{module}")
    prefix = f"{'pellucid' if module.startswith(('scalar', 'explorer', 'memory')) else 'torch'}.{module}"
    names = getattr(home, "__all__", None) or [name for name in dir(home) if not name.startswith("_")]
    found = {f"{prefix}.{name}": thing for name in names if is_ours(thing := getattr(home, name), home)}
    return found | {path: each for path, each in published().items() if path.rpartition(".")[0] == f"torch.{module}"}


def is_ours(thing: Any, home: ModuleType) -> bool:
    if not callable(thing) or isinstance(thing, ModuleType):
        return False
    return getattr(thing, "__module__", home.__name__ or "").startswith("pellucid")


def published() -> dict[str, Operation]:
    """Every operation by its whole path."""
    return {f"torch.{path}": operation for path, operation in OPERATIONS.items()}


def torch_pages() -> Iterable[tuple[str, str, str, dict[str, Any]]]:
    """The main namespace, in pages by first letter: operations and everything else that is callable."""
    names = [name for name in {*dir(pellucid), *pellucid._FROM} if name not in DIAGNOSE]
    things = {f"torch.{name}": thing for name in names if is_main(name, thing := getattr(pellucid, name))}
    things |= {path: each for path, each in published().items() if path.count(".") == 1}
    things.pop("torch.Tensor", None)  # has a page of its own
    for letters in LETTERS:
        chosen = {path: thing for path, thing in things.items() if path[len("torch.")].lower() in letters}
        span = f"{letters.strip('_')[0]} to {letters[-1]}" if len(letters) > 1 else letters
        title = f"torch: {span.upper()}".replace(" TO ", " to ")
        yield f"torch-{letters.strip('_')[0]}.md", title, "Names of the main namespace.", chosen


def is_main(name: str, thing: Any) -> bool:
    return not name.startswith("_") and callable(thing) and is_ours(thing, pellucid)


def tensor_things() -> dict[str, Any]:
    """The methods and attributes of a tensor that are no operations."""
    names = [name for name in tensor_names() if name.rstrip("_") not in OPERATIONS]
    return {f"torch.Tensor.{name}": inspect.getattr_static(pellucid.Tensor, name) for name in names}


def tensor_names() -> list[str]:
    return [name for name in dir(pellucid.Tensor) if not name.startswith("_") and name not in INTERNAL]


def tensor_head() -> str:
    """What a tensor is, and its methods that are operations too, each with a link to it."""
    twins = {name: OPERATIONS[name.rstrip("_")] for name in tensor_names() if name.rstrip("_") in OPERATIONS}
    links = (f"[`{name}`]({letter_page(each.name)}#torch.{each.name})" for name, each in twins.items())
    parts = [
        "An array that remembers how it was made. A name with `_` at its end works in place.",
        "## Methods that are functions too { #functions }", "`x.name(...)` is `torch.name(x, ...)`.", ", ".join(links),
    ]  # fmt: skip
    return "\n\n".join(parts)


def letter_page(name: str) -> str:
    letters = next(letters for letters in LETTERS if name[0].lower() in letters)
    return f"torch-{letters.strip('_')[0]}.md"


# --- one entry


def entry(path: str, thing: Any, book: Book) -> str:
    """Heading, signature, documentation, example, source; for a further name of a thing, the way to the main one."""
    short = path.rpartition(".")[2]  # in the page's own table of contents, where there is little room
    head = f"## {escaped(path)} {{ #{path} data-toc-label='{short}' }}"
    call = f"```python\n{path}{folded(signature(target_of(thing)), path)}\n```"
    if path in book.mains:
        summary = book.linked(escaped(first_paragraph(doc_of(thing))), path, thing)
        return f"{head}\n\n{call}\n\n{summary}\n\nThe same as {book.link(book.mains[path])}."
    return "\n\n".join(part for part in (head, call, *body(path, thing, book)) if part)


def body(path: str, thing: Any, book: Book) -> Iterable[str]:
    target, doc = target_of(thing), doc_of(thing)
    yield as_markdown(doc, lambda line: book.linked(line, path, thing))
    if ">>>" not in doc:
        yield example(path, thing)
    if isinstance(thing, Operation):
        yield forms(thing)
    if inspect.isclass(target):
        yield members(target)
    sources = book.sources
    place = sources.page_of_module(thing.home) if isinstance(thing, Operation) else sources.link(target)
    yield f"[source](../source/{place})" if place else ""


def doc_of(thing: Any) -> str:
    return inspect.cleandoc(thing.doc) if isinstance(thing, Operation) else documentation(thing)


def documentation(thing: Any) -> str:
    return inspect.cleandoc(getattr(thing, "__doc__", None) or "")


def signature(thing: Any) -> str:
    """The arguments and their defaults; nothing for a property. What is told by `Any` is left out."""
    if not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    arguments = [each.replace(annotation=each.empty) for each in found.parameters.values() if each.name != "self"]
    text = str(found.replace(parameters=arguments, return_annotation=found.empty))
    return re.sub(r"<(?:function|class|object|built-in)[^>]*?'?(\w+)'?[^>]*>", r"\1", text)


def folded(call: str, path: str) -> str:
    """A long signature one argument to a line."""
    if len(path + call) <= 84:
        return call
    arguments = re.split(r", (?![^(\[{]*[)\]}])", call[1:-1])
    return "(\n" + "".join(f"    {each},\n" for each in arguments) + ")"


def members(thing: type) -> str:
    """A table of a class's own methods and properties, with the first sentence on each."""
    rows = []
    for name, member in own_members(thing).items():
        doc = documentation(member)
        if not name.startswith("_") and doc and name not in ("forward", "extra_repr"):
            call = signature(member) if not isinstance(member, property) else ""
            rows.append(f"| `{name}{call}` | {escaped(first_paragraph(doc))} |")
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def own_members(thing: type) -> dict[str, Any]:
    """Functions and properties of a class, and of its bases up to the first that has an entry of its own."""
    found: dict[str, Any] = {}
    for base in thing.__mro__:
        if base is not thing and (base in listed_classes() or not base.__module__.startswith("pellucid")):
            break
        found = {name: each for name, each in vars(base).items() if is_member(each)} | found
    return found


def is_member(thing: Any) -> bool:
    return inspect.isfunction(thing) or isinstance(thing, (property, classmethod, staticmethod))


@cache
def listed_classes() -> frozenset[type]:
    """Every class that has an entry."""
    things = [thing for _, _, modules, _ in NAMESPACES for module in modules for thing in public(module).values()]
    return frozenset(thing for thing in things if inspect.isclass(thing))


def first_paragraph(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split())


def forms(operation: Operation) -> str:
    """The other ways to call it."""
    ways = [f"`x.{operation.name}(...)`"] if operation.method else []
    ways += [f"in place `x.{operation.name}_(...)`"] if operation.inplace else []
    return f"Also {', '.join(ways)}." if ways else ""


# --- docstrings as Markdown


def as_markdown(doc: str, linked: Callable[[str], str]) -> str:
    """Prompts with what they print become fenced blocks; the rest is text with its links."""
    out: list[str] = []
    shown = False
    for line in doc.splitlines():
        if line.lstrip().startswith(">>>") and not shown:
            out += ["", "```pycon"]
            shown = True
        elif shown and not line.strip():
            out += ["```"]
            shown = False
        out.append(line.replace("<BLANKLINE>", "") if shown else linked(text(line)))
    return "\n".join([*out, "```"] if shown else out).strip()


def text(line: str) -> str:
    return line if line.startswith("    ") else escaped(line)


def escaped(line: str) -> str:
    """Signs that Markdown would take for its own, outside of `code`."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else _plain(part) for part in parts)


def _plain(part: str) -> str:
    part = part.replace("<", "&lt;").replace("[", "\\[").replace("|", "\\|")
    return re.sub(r"(?<!^)\*|_(?=_)|(?<=_)_", lambda sign: "\\" + sign[0], part)


# --- the way in


def index_page(pages: Mapping[str, str]) -> str:
    """All pages, and how many names each has; then the operations by topic."""
    lines = [
        "# Reference",
        "",
        "One entry for every public name. `torch` stands for `pellucid`: import it as you like.",
    ]
    lines += ["", "| page | | names |", "|---|---|---|"]
    for file, content in pages.items():
        title, about = content.removeprefix("# ").split("\n\n")[:2]
        count = len(re.findall(r"^## .* \{ #(?:torch|pellucid)\.", content, re.MULTILINE))
        lines.append(f"| [{title}]({file}) | {about} | {count} |")
    lines += ["", "## Operations by topic { #topics }", ""]
    return "\n".join([*lines, *topics()]) + "\n"


def topics() -> Iterable[str]:
    """The operations of each file of ops/, under the first line of that file."""
    by_home: dict[str, list[str]] = {}
    for path, operation in OPERATIONS.items():
        by_home.setdefault(operation.home, []).append(path)
    pages = {module: file for file, _, modules, _ in NAMESPACES for module in modules}
    for home in sorted(by_home):
        head = (import_module(home).__doc__ or home).strip().split("\n")[0].rstrip(".:")
        links = ", ".join(
            f"[`{path}`]({pages.get(path.rpartition('.')[0]) or letter_page(path)}#torch.{path})"
            for path in sorted(by_home[home], key=str.lower)
        )
        yield f"**{escaped(head)}**\n\n{links}\n"
