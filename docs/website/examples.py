"""Examples for names whose docstring shows none: the first of a few likely calls that works, with what it gave.

Nothing here is typed from memory. A call is run when the page is made; a call that draws random numbers shows its seed.
"""

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

import pellucid
from pellucid.ops.operation import Draw, Operation, Sample

LONGEST = 600  # of what an example prints
NUMBERS, OTHERS = "torch.tensor([-1.0, 0.5, 2.0])", "torch.tensor([0.2, 0.7]), torch.tensor([0.0, 1.0])"
SHAPES = {"1d": "1, 2, 6", "2d": "1, 2, 6, 6", "3d": "1, 2, 6, 6, 6"}


def example(path: str, thing: Any) -> str:
    """A fenced example of what stands at this path, or nothing."""
    for words in likely_calls(path, thing):
        printed = tried(words)
        if printed is not None:
            return f"```pycon\n{printed}\n```"
    return ""


def likely_calls(path: str, thing: Any) -> Iterable[str]:
    if isinstance(thing, Operation):
        return sample_calls(path, thing)
    home, _, name = path.rpartition(".")
    if home == "torch.nn" and inspect.isclass(thing):
        return module_calls(path, name)
    if home == "torch.distributions" and inspect.isclass(thing):
        return distribution_calls(path)
    if name.startswith("new_"):
        return new_calls(f"torch.tensor([1, 2]).{name}")
    if home == "torch.Tensor":
        return (f"{NUMBERS}.{name}" + ("" if is_attribute(thing) else "()"),)
    if home == "torch.nn.init":
        return (f"{path}(torch.empty(2, 2))", f"{path}(torch.empty(2, 2), 0.5)", f"{path}(torch.empty(2, 2, 3))")
    if home == "torch.nn.functional" and name.endswith("_"):
        return (f"{path}({NUMBERS})", f"{path}({NUMBERS}, 0.1, 0.0)")
    return (f"{path}()",) if home == "torch" and name.startswith(("is_", "are_", "get_")) else ()


def is_attribute(thing: Any) -> bool:
    return isinstance(thing, property) or not callable(thing)


def new_calls(call: str) -> Iterable[str]:
    """A `new_` method keeps the dtype; what it leaves unset is not shown."""
    unset = [f"{call}((2, 3), (3, 1)).shape", f"{call}(2, 3).shape"]
    return unset if "empty" in call else [f"{call}(3)", f"{call}((3,), 7)"]


def module_calls(path: str, name: str) -> Iterable[str]:
    """A layer by what its name says of its input: a result if it is small, else its shape."""
    if shape := next((SHAPES[end] for end in SHAPES if end in name), None):
        return [f"{path}({arguments})(torch.ones({shape})).shape" for arguments in ("2", "2, 3, 2", "2, 2", "(2, 2)")]
    if name.endswith("Loss"):
        triple = "torch.ones(1, 2), torch.zeros(1, 2), torch.ones(1, 2)"
        row = "torch.tensor([[0.2, 0.7]])"
        return [
            f"{path}()({OTHERS})", f"{path}()({row}, torch.tensor([1]))", f"{path}()({triple})",
            f"{path}()({row}, torch.tensor([[1, 0]]))", f"{path}()({row}, {row}, torch.tensor([1.0]))",
        ]  # fmt: skip
    grid = "torch.arange(8.0).reshape(1, 2, 2, 2)"
    return [
        f"{path}()({NUMBERS})", f"{path}(0.5)({NUMBERS})", f"{path}(0.1, 20.0)({NUMBERS})", f"{path}(dim=0)({NUMBERS})",
        f"{path}()(torch.ones(2, 4)).shape", f"{path}(3)({NUMBERS})", f"{path}(2)({grid}).shape",
        f"{path}(1, 2)({grid}).shape", f"{path}()(torch.ones(1, 2), torch.ones(1, 2))",
        f"{path}(4, 3)(torch.ones(2, 4)).shape", f"{path}(4, 2)(torch.ones(2, 3, 4))[0].shape",
        f"{path}(4, 2, 8)(torch.ones(2, 3, 4)).shape",
    ]  # fmt: skip


def distribution_calls(path: str) -> Iterable[str]:
    several = (
        "0.5",
        "1.0, 2.0",
        "3.0, 4.0",
        "torch.tensor([0.2, 0.8])",
        "torch.zeros(2), torch.eye(2)",
        "2, torch.tensor([0.2, 0.8])",
    )
    asked = (".mean", ".entropy()", ".sample()")
    return [f"{path}({arguments}){what}" for what in asked for arguments in several]  # fmt: skip


# --- operations: the samples of their tests


def sample_calls(path: str, operation: Operation) -> Iterable[str]:
    """The small samples of an operation as lines to type, those with more than one number first."""
    samples = sorted(operation.samples(Draw(0, operation.domain)), key=lambda sample: not has_elements(sample))
    return [words for words in (written(path, sample) for sample in samples) if words and len(words) < 110]


def has_elements(sample: Sample) -> bool:
    return all(value.ndim > 0 for value in sample.args if isinstance(value, pellucid.Tensor))


def written(path: str, sample: Sample) -> str | None:
    """A sample call as source, if its arguments are small."""
    values = [literal(value) for value in (*sample.args, *sample.kwargs.values())]
    if None in values:
        return None
    names = [""] * len(sample.args) + [f"{name}=" for name in sample.kwargs]
    return f"{path}({', '.join(name + str(value) for name, value in zip(names, values, strict=True))})"


def literal(value: Any) -> str | None:
    if isinstance(value, pellucid.Tensor):
        if not 0 < value.numel() <= 6 or value.is_complex():
            return None
        return f"torch.tensor({rounded(value.detach().tolist())})"
    if isinstance(value, (list, tuple)):
        return None if None in (parts := [literal(part) for part in value]) else f"[{', '.join(map(str, parts))}]"
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else None


def rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 2) if isinstance(value, float) else value


# --- running


def tried(words: str) -> str | None:
    """The call and what it gives, as a reader would see it; None if it fails or gives nothing to show."""
    state = pellucid.get_rng_state()
    try:
        first, again, other = (evaluated(words, seed) for seed in (0, 0, 1))
    except Exception:  # not a call for this name: the next may be
        return None
    finally:
        pellucid.set_rng_state(state)
    if first != again or first == "None" or " at 0x" in first or len(first) > LONGEST:
        return None
    seed = "" if first == other else ">>> _ = torch.manual_seed(0)\n"
    return f">>> import pellucid as torch\n{seed}>>> {words}\n{first}"


def evaluated(words: str, seed: int) -> str:
    pellucid.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return repr(eval(words, {"torch": pellucid}))
