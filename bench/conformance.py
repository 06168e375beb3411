"""Hold Pellucid to PyTorch's own operator database: every operator, all samples, four ways.

    python bench/conformance.py                    # everything (some minutes), a summary, and the list of what fails
    python bench/conformance.py linalg.qr nn.functional.pad   # these operators, each failure told
    python bench/conformance.py --dtypes --errors  # also: every dtype forward, and which inputs must be refused

For each operator: does it exist; are the results PyTorch's; the gradients; the gradients of gradients; forward mode.
The database is part of the torch wheel (torch.testing._internal), which therefore must be installed, with expecttest.
"""

import argparse
import contextlib
import functools
import multiprocessing
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Their values are whatever the memory holds.
UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Among equal values PyTorch's choice of the index follows from its algorithm; short dtypes have many equal values.
TIES = {"argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"}

# Where PyTorch's own numbers are off, as finite differences or SciPy show; ours are then not counted as passing.
OFF_THERE = {
    "as_strided_scatter": "PyTorch gives the tensor the gradient of what was overwritten: its own gradcheck fails",
    "chalf": "NumPy has no 16-bit complex numbers: a clear NotImplementedError",
    "cholesky_inverse": "PyTorch's forward mode is off by 0.1 from finite differences, its reverse mode is not",
    "logcumsumexp": "PyTorch's forward mode is off by 1e-6; ours is the transpose of the gradient, which agrees",
    "nn.functional.linear_cross_entropy": "PyTorch works its gradient out in the forward: its second order is then 0",
    "pca_lowrank": "PyTorch's second order moves by 1e-7 when the input moves by 1e-15",
    "svd_lowrank": "PyTorch's second order moves by 1e-7 when the input moves by 1e-15",
    "special.airy_ai": "PyTorch's is right to 1e-8 only",
    "special.bessel_j0": "PyTorch's is right to 1e-6 only",
    "special.bessel_j1": "PyTorch's is right to 1e-6 only",
    "special.bessel_y0": "PyTorch's is right to 1e-6 only",
    "special.bessel_y1": "PyTorch's is right to 1e-6 only",
    "triangular_solve": "PyTorch's forward mode sees the triangle that is never read",
}

CHECKS = ("forward", "gradient", "second order", "forward mode")
TOLERANCE = {"forward": 1e-9, "gradient": 1e-8, "second order": 1e-7, "forward mode": 1e-8}

# What the database lists and a dense tensor on a CPU has no use for.
ELSEWHERE = {
    "jiterator_unary": "compiles CUDA code",
    "jiterator_binary": "compiles CUDA code",
    "jiterator_4inputs_with_extra_args": "compiles CUDA code",
    "jiterator_binary_return_by_ref": "compiles CUDA code",
    "jiterator_2inputs_2outputs": "compiles CUDA code",
    "torch._scaled_mm": "8-bit floats on CUDA",
    "torch._scaled_mm_v2": "8-bit floats on CUDA",
    "torch.ops.aten._flash_attention_forward": "a CUDA kernel",
    "torch.ops.aten._efficient_attention_forward": "a CUDA kernel",
    "to_sparse": "sparse tensors",
    "sparse.sampled_addmm": "sparse tensors",
    "sparse.mm": "sparse tensors",
}


@dataclass
class Report:
    """What one operator of the database (with its variants) passed, and the first failures."""

    name: str
    present: bool = False
    samples: int = 0
    applies: set[str] = field(default_factory=set)
    failed: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def fail(self, check: str, text: str) -> None:
        self.failed[check] = self.failed.get(check, 0) + 1
        self.told.append(f"{check}: {text}")

    @property
    def passes(self) -> bool:
        return self.present and not self.failed


# --- from PyTorch's world into ours


@functools.cache
def libraries() -> tuple[Any, Any]:
    """torch and pellucid, imported late: worker processes start quickly and --help needs neither."""
    warnings.filterwarnings("ignore")
    import torch

    import pellucid

    torch.set_num_threads(1)
    pellucid.ops.load_families()
    return torch, pellucid


def translated(value: Any) -> Any:
    """An argument of a sample as Pellucid takes it."""
    torch, pellucid = libraries()
    if isinstance(value, torch.Tensor):
        return as_ours(value)
    if isinstance(value, torch.Size):
        return pellucid.Size(value)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(pellucid, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return pellucid.device(str(value))
    if isinstance(value, dict):
        return {key: translated(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(translated(part) for part in value)
    if isinstance(value, torch.nn.Module):  # a distance of its own, made with its defaults
        return getattr(pellucid.nn, type(value).__name__)()
    return rebound(value) if isinstance(value, types.FunctionType) else value


def as_ours(tensor: Any) -> Any:
    """The same values in the same layout, a leaf if it requires grad."""
    torch, pellucid = libraries()
    plain = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        made = pellucid.from_numpy(plain.float().numpy().copy()).to(pellucid.bfloat16)
    else:
        array = plain.numpy()
        made = pellucid.from_numpy(array.copy("K") if array.size else array.copy())
    return made.requires_grad_(tensor.requires_grad)


def rebound(function: Any) -> Any:
    """A function of the database's own (a lambda, a wrapper) that works on Pellucid: its `torch` is ours."""
    _, pellucid = libraries()
    if function is None or not isinstance(function, types.FunctionType):
        return ours(function)
    if not function.__module__.startswith("torch.testing."):
        return ours(function)
    known = dict(function.__globals__)
    known["torch"] = pellucid
    known["F"] = pellucid.nn.functional
    known["freeze_rng_state"] = contextlib.nullcontext
    for name, value in list(known.items()):
        if name == "freeze_rng_state":
            continue
        if isinstance(value, types.FunctionType) and name in function.__code__.co_names and value is not function:
            known[name] = rebound(value)
    cells = None
    if function.__closure__:
        cells = tuple(types.CellType(_rebound_cell(cell.cell_contents)) for cell in function.__closure__)
    made = types.FunctionType(function.__code__, known, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _rebound_cell(value: Any) -> Any:
    if callable(value) and not isinstance(value, type):
        return rebound(value)
    return translated(value)


def ours(function: Any) -> Any:
    """Pellucid's function for one of PyTorch's: by where it lives."""
    torch, pellucid = libraries()
    if not callable(function):
        return function
    name = getattr(function, "__name__", "")
    if isinstance(function, functools.partial):
        return functools.partial(rebound(function.func), *translated(function.args), **translated(function.keywords))
    for home, place in homes():
        if getattr(home, name, None) is function:
            return getattr(place, name)
    if getattr(torch.Tensor, name, None) is function or type(function).__name__ == "method_descriptor":
        return getattr(pellucid.Tensor, name)
    return function


@functools.cache
def homes() -> list[tuple[Any, Any]]:
    torch, pellucid = libraries()
    paths = ("", "nn.functional", "linalg", "fft", "special", "masked", "signal.windows")
    result = []
    for path in paths:
        theirs, mine = torch, pellucid
        for part in filter(None, path.split(".")):
            theirs, mine = getattr(theirs, part), getattr(mine, part, None)
        result.append((theirs, mine))
    return result


def found_by_name(operator: Any) -> Any:
    """The public function of the operator's name, or the method."""
    _, pellucid = libraries()
    found: Any = pellucid
    for part in operator.name.removeprefix("torch.").split("."):
        found = getattr(found, part, None)
    return found if callable(found) else getattr(pellucid.Tensor, operator.name, None)


def function_of(operator: Any) -> Any:
    """What to call for an operator; None when it is missing."""
    try:
        if isinstance(operator.op, types.FunctionType) and operator.op.__module__.startswith("torch.testing"):
            return rebound(operator.op)
        return found_by_name(operator)
    except AttributeError:
        return None


# --- results


def leaves(tree: Any, kind: type) -> list[Any]:
    """The tensors in a tree of lists, tuples and dictionaries."""
    if isinstance(tree, kind):
        return [tree]
    if isinstance(tree, dict):
        return [leaf for part in tree.values() for leaf in leaves(part, kind)]
    return [leaf for part in tree for leaf in leaves(part, kind)] if isinstance(tree, (list, tuple)) else []


def plain(value: Any) -> Any:
    """A tensor of either library as an ndarray; None stays."""
    if value is None:
        return None
    value = value.detach()
    if str(value.dtype).endswith("bfloat16"):
        value = value.float()
    if hasattr(value, "resolve_conj"):
        value = value.resolve_conj().resolve_neg()
    return value.numpy(force=True) if getattr(value, "_is_zerotensor", bool)() else value.numpy()


def differ(theirs: Any, mine: Any, tolerance: float, derivative: bool = False) -> str:
    """How two arrays differ; empty when they do not. A missing gradient counts as zeros."""
    if theirs is None and mine is None:
        return ""
    theirs = np.zeros_like(mine) if theirs is None else theirs
    mine = np.zeros_like(theirs) if mine is None else mine
    if theirs.shape != mine.shape:
        return f"shape {mine.shape}, PyTorch's {theirs.shape}"
    if theirs.dtype != mine.dtype:
        return f"dtype {mine.dtype}, PyTorch's {theirs.dtype}"
    if theirs.dtype.kind not in "fc":
        wrong = int((theirs != mine).sum())
        return f"{wrong} of {theirs.size} values differ" if wrong else ""
    with np.errstate(all="ignore"):
        close = np.isclose(mine, theirs, rtol=tolerance, atol=tolerance * _scale(theirs), equal_nan=True)
        if derivative:  # a convention may be better than PyTorch's 0 / 0
            close |= np.isnan(theirs) & np.isfinite(mine)
    if close.all():
        return ""
    where = tuple(int(i) for i in np.argwhere(~close)[0])
    return f"{int((~close).sum())} of {theirs.size} values, at {where} {mine[where]}, PyTorch's {theirs[where]}"


def _scale(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return max(1.0, float(finite.max())) if finite.size else 1.0


def compare(theirs: list[Any], mine: list[Any], tolerance: float, derivative: bool = False) -> None:
    if len(theirs) != len(mine):
        raise AssertionError(f"{len(mine)} results, PyTorch's {len(theirs)}")
    for k, (a, b) in enumerate(zip(theirs, mine, strict=True)):
        text = differ(plain(a), plain(b), tolerance, derivative)
        if text:
            raise AssertionError(f"result {k}: {text}")


# --- the four checks: the same steps on either library


@dataclass
class Run:
    """One sample on one library."""

    library: Any
    function: Callable[..., Any]
    process: Callable[[Any], Any]
    input: Any
    args: Any
    kwargs: Any

    def __post_init__(self) -> None:
        self.kind = self.library.Tensor
        tensors = leaves([self.input, self.args, self.kwargs], self.kind)
        self.single = any(x.dtype == self.library.float32 for x in tensors)  # weights of float32 beside wider data
        self.variables = [x for x in leaves([self.input, self.args, self.kwargs], self.kind) if x.requires_grad]

    def call(self) -> Any:
        self.library.manual_seed(7)
        result = self.function(self.input, *self.args, **self.kwargs)
        return result if isinstance(result, (self.kind, list, tuple, dict)) else self.library.as_tensor(result)

    def outputs(self) -> list[Any]:
        """What is differentiated: the database takes out what is free to vary, the sign of an eigenvector say."""
        return leaves(self.process(self.call()), self.kind)

    def results(self) -> list[Any]:
        """The values to compare, and the empty shells of what the operator itself returned: shape and dtype."""
        shells = [self.library.empty(0, *y.shape, dtype=y.dtype) for y in leaves(self.call(), self.kind)]
        return shells + self.outputs()

    def drawn(self, like: list[Any], seed: int) -> list[Any]:
        """Random tensors of the same shapes and dtypes, the same ones for both libraries."""
        random = np.random.default_rng(seed)
        result = []
        for x in like:
            values = random.standard_normal(tuple(x.shape))
            if x.is_complex():
                values = values + 1j * random.standard_normal(tuple(x.shape))
            result.append(self.library.from_numpy(np.asarray(values)).to(x.dtype))
        return result

    def gradients(self, create_graph: bool = False) -> tuple[list[Any], list[Any]]:
        outputs = [y for y in self.outputs() if y.requires_grad]
        weights = [w.requires_grad_(create_graph) for w in self.drawn(outputs, 1)]
        if not outputs or not self.variables:
            return [], weights
        found = self.library.autograd.grad(
            outputs, self.variables, weights, allow_unused=True, create_graph=create_graph
        )
        return list(found), weights

    def second(self) -> list[Any]:
        first, weights = self.gradients(create_graph=True)
        chosen = [g for g in first if g is not None and g.requires_grad]
        if not chosen:
            return []
        found = self.library.autograd.grad(
            chosen, [*self.variables, *weights], self.drawn(chosen, 2), allow_unused=True
        )
        return list(found)

    def pushed(self) -> list[Any]:
        ad = self.library.autograd.forward_ad
        tangents = self.drawn(self.variables, 3)
        with ad.dual_level():
            duals = {id(x): ad.make_dual(x.detach(), t) for x, t in zip(self.variables, tangents, strict=True)}
            input, args, kwargs = _replaced((self.input, self.args, self.kwargs), duals)
            self.library.manual_seed(7)
            result = leaves(self.process(self.function(input, *args, **kwargs)), self.kind)
            return [ad.unpack_dual(y).tangent for y in result]


def _replaced(tree: Any, table: dict[int, Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _replaced(part, table) for key, part in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(_replaced(part, table) for part in tree)
    return table.get(id(tree), tree)


# --- comparing


def compare_second(theirs: list[Any], mine: list[Any], tolerance: float) -> None:
    """A function whose gradient does not depend on its inputs has a second order of nothing, or of zeros."""
    nothing = not (theirs and mine) and all(x is None or not plain(x).any() for x in theirs + mine)
    if not nothing:
        compare(theirs, mine, tolerance, derivative=True)


def compare_derivatives(theirs: list[Any], mine: list[Any], tolerance: float) -> None:
    compare(theirs, mine, tolerance, derivative=True)


# What a check computes on either library, and how the two are compared.
CHECKERS: dict[str, tuple[Callable[[Run], list[Any]], Callable[..., None]]] = {
    "forward": (Run.results, compare),
    "gradient": (lambda run: run.gradients()[0], compare_derivatives),
    "second order": (Run.second, compare_second),
    "forward mode": (Run.pushed, compare_derivatives),
}


def applying(operator: Any, differentiable: bool) -> Iterator[str]:
    yield "forward"
    if not differentiable or not operator.supports_autograd:
        return
    yield "gradient"
    if operator.supports_gradgrad:
        yield "second order"
    if operator.supports_forward_ad:
        yield "forward mode"


def pair(operator: Any, function: Any, sample: Any) -> tuple[Run, Run]:
    """The sample on PyTorch and on Pellucid, each with leaves of its own: an operator may write to its input."""
    torch, pellucid = libraries()
    process = sample.output_process_fn_grad or (lambda value: value)
    if operator.name in UNSET:
        process = _nothing
    call = (sample.input, sample.args, sample.kwargs)
    theirs = Run(torch, operator.op, process, *copied(call))
    return theirs, Run(pellucid, function, rebound(process), *(translated(part) for part in call))


def _nothing(value: Any) -> list[Any]:
    return []


def copied(value: Any) -> Any:
    torch, _ = libraries()
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: copied(part) for key, part in value.items()}
    return type(value)(copied(part) for part in value) if type(value) in (list, tuple) else value


def check_sample(report: Report, operator: Any, function: Any, sample: Any, label: str, checks: list[str]) -> None:
    for check in checks:
        compute, comparison = CHECKERS[check]
        theirs, mine = pair(operator, function, sample)
        try:
            expected = compute(theirs)
        except Exception:
            continue  # PyTorch refuses it itself: nothing to compare with
        report.applies.add(check)
        try:
            comparison(expected, compute(mine), TOLERANCE[check] * (1e4 if mine.single else 1))
        except Exception as error:
            report.fail(check, f"{label}: {type(error).__name__}: {first_line(error)}")


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:200]


def check_operator(operator: Any, report: Report, dtypes: bool = False, errors: bool = False) -> None:
    """Hold one entry of the database to all its samples."""
    torch, _ = libraries()
    function = function_of(operator)
    report.present = function is not None
    if function is None:
        report.fail("present", "missing")
        return
    for dtype in (torch.float64, torch.complex128):
        if dtype not in operator.dtypes:
            continue
        differentiable = operator.supports_autograd and dtype in operator.supported_backward_dtypes("cpu")
        for number, sample in enumerate(operator.sample_inputs("cpu", dtype, requires_grad=differentiable)):
            report.samples += 1
            label = f"{'complex ' if dtype.is_complex else ''}sample {number} {summary(sample)}"
            check_sample(report, operator, function, sample, label, list(applying(operator, differentiable)))
    if not report.samples or dtypes:
        check_other_dtypes(operator, function, report)
    if errors:
        check_errors(operator, function, report)


def check_other_dtypes(operator: Any, function: Any, report: Report) -> None:
    """The forward of every other dtype the operator takes; looser for short floats."""
    torch, _ = libraries()
    for dtype in sorted(operator.dtypes, key=str):
        if dtype in (torch.float64, torch.complex128, torch.complex32) or "8_e" in str(dtype):
            continue
        for number, sample in enumerate(operator.sample_inputs("cpu", dtype)):
            theirs, mine = pair(operator, function, sample)
            try:
                expected = theirs.outputs()
            except Exception:
                continue
            report.samples += 1
            try:
                found = mine.outputs()
                if operator.name in TIES:
                    expected, found = ([y for y in part if y.dtype.is_floating_point] for part in (expected, found))
                compare(expected, found, LOOSE.get(str(dtype), 3e-5))
            except Exception as error:
                report.fail("dtypes", f"{dtype} sample {number} {summary(sample)}: {type(error).__name__}: "
                                      f"{first_line(error)}")  # fmt: skip


# Others compute in float32, integers too.
LOOSE = {"torch.float16": 2e-2, "torch.bfloat16": 8e-2}


def check_errors(operator: Any, function: Any, report: Report) -> None:
    """What PyTorch refuses is refused, with an exception of the same class that has its words."""
    if operator.error_inputs_func is None:
        return
    for number, refused in enumerate(operator.error_inputs("cpu")):
        try:
            pair(operator, function, refused.sample_input)[1].call()
        except refused.error_type as error:
            if not re.search(refused.error_regex, str(error)):
                said = f"{first_line(error)!r}, PyTorch's {refused.error_regex!r}"
                report.fail("words", f"{number} {summary(refused.sample_input)}: {said}")
        except Exception as error:
            report.fail("errors", f"{number} {summary(refused.sample_input)}: {type(error).__name__} "
                                  f"({first_line(error)}) instead of {refused.error_type.__name__}")  # fmt: skip
        else:
            if refused.error_regex and "unsupported operation" not in refused.error_regex:
                # An empty text: PyTorch wants a tensor where a number does as well. An unsupported operation: an
                # output that overlaps an input, which does no harm here, where the result is computed first.
                text = f"{number} {summary(refused.sample_input)}: accepted; PyTorch: {refused.error_regex}"
                report.fail("errors", text)


def summary(sample: Any) -> str:
    """A sample's arguments as one reads a call."""
    torch, _ = libraries()

    def shown(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, (list, tuple)):
            return f"({', '.join(shown(part) for part in value)})"
        return repr(value)

    parts = [shown(sample.input), *map(shown, sample.args)]
    parts += [f"{key}={shown(value)}" for key, value in sample.kwargs.items()]
    return f"({', '.join(parts)})"


# --- the whole database


@functools.cache
def database() -> dict[str, list[Any]]:
    """The operators by name, each with its variants."""
    libraries()
    from torch.testing._internal.common_methods_invocations import op_db

    result: dict[str, list[Any]] = {}
    for operator in op_db:
        result.setdefault(operator.name, []).append(operator)
    return result


def check_name(job: tuple[str, bool, bool]) -> Report:
    name, dtypes, errors = job
    report = Report(name)
    for operator in database()[name]:
        try:
            check_operator(operator, report, dtypes, errors)
        except Exception as error:  # the database's own code failed
            report.fail("samples", f"{type(error).__name__}: {first_line(error)}")
    report.told = report.told[:400]
    return report


def run(names: list[str], processes: int, dtypes: bool, errors: bool) -> list[Report]:
    jobs = [(name, dtypes, errors) for name in names]
    if processes == 1 or len(jobs) < 4:
        return [check_name(job) for job in jobs]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        result = []
        for report in pool.imap_unordered(check_name, jobs):
            result.append(report)
            print(f"\r{len(result)}/{len(jobs)} {report.name:<50.50}", end="", file=sys.stderr)
        print(file=sys.stderr)
    return sorted(result, key=lambda report: report.name)


def print_summary(reports: list[Report]) -> None:
    useful = [r for r in reports if r.name not in ELSEWHERE]
    print(f"{len(reports)} operators, {sum(r.samples for r in reports)} samples")
    print(f"  present       {sum(r.present for r in reports)}")
    for check in CHECKS:
        apply = [r for r in useful if check in r.applies]
        print(f"  {check:<13} {sum(check not in r.failed for r in apply)} of {len(apply)}")
    print(f"  everything    {sum(r.passes for r in reports)}")
    print("\nnot passing:")
    for report in reports:
        if report.name in ELSEWHERE:
            print(f"  {report.name}: left out: {ELSEWHERE[report.name]}")
        elif not report.passes:
            reason = f"; {OFF_THERE[report.name]}" if report.name in OFF_THERE else ""
            counts = ", ".join(f"{check} {count}" for check, count in report.failed.items())
            print(f"  {report.name} ({report.samples} samples): {counts}{reason}\n      {report.told[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operators of the database; all when none is named")
    parser.add_argument("--dtypes", action="store_true", help="also the forward of every dtype")
    parser.add_argument("--errors", action="store_true", help="also what must be refused")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    start = time.perf_counter()
    names = options.names or list(database())
    unknown = [name for name in names if name not in database()]
    if unknown:
        parser.error(f"not in PyTorch's database: {', '.join(unknown)}")
    reports = run(names, options.processes, options.dtypes, options.errors)
    if options.names:
        for report in reports:
            print(f"{report.name}: {'passes' if report.passes else report.failed or 'missing'} "
                  f"({report.samples} samples; {', '.join(sorted(report.applies))})")  # fmt: skip
            for text in report.told[:12]:
                print(f"    {text}")
    else:
        print_summary(reports)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
