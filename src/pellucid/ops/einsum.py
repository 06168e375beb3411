"""einsum: sums of products, named by letters.

Every einsum is one row, linear in each operand, and the gradient of an operand is again an einsum: of the incoming
gradient and the other operands. The public function spells an equation out first (ellipsis, implicit output,
sublists, sizes of 1), so that the row sees plain letters only. Its forward takes two operands at a time and hands
each pair to BLAS as one product of matrices.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.large import added_up
from pellucid.core.primitive import add_up, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, bearing
from pellucid.ops.arguments import is_floating, refusal
from pellucid.ops.axes import permute_row
from pellucid.ops.convert import as_type
from pellucid.ops.diagonal import diag_embed_row, diagonal_row
from pellucid.ops.expand import expand_row
from pellucid.ops.operation import COMPOSED, call, must_be_tensors, operation
from pellucid.ops.shape import reshape_row

Terms = tuple[str, ...]  # the letters of each operand
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # as in `string`, whose import takes 0.7 ms


# --- the forward: one operand, two, many


def _evaluate(arrays: Sequence[np.ndarray], terms: Terms, output: str) -> np.ndarray:
    """Contract all operands; of three and more, two at a time in the order that costs least."""
    if len(arrays) == 1:
        y = _single(arrays[0], terms[0], output)
        return y.copy() if np.may_share_memory(y, arrays[0]) else y  # the row promises an array of its own
    if len(arrays) == 2:
        return _pair(arrays[0], arrays[1], terms[0], terms[1], output)
    left, names = list(arrays), list(terms)
    for places in contraction_order(tuple(a.shape for a in arrays), terms, output):
        taken, letters = [left.pop(i) for i in places], [names.pop(i) for i in places]
        needed = set(output).union(*names)
        kept = "".join(letter for letter in dict.fromkeys("".join(letters)) if letter in needed)
        names.append(kept if names else output)
        left.append(_evaluate(taken, tuple(letters), names[-1]))
    return left[0]


@lru_cache(maxsize=512)
def contraction_order(shapes: tuple[tuple[int, ...], ...], terms: Terms, output: str) -> list[tuple[int, ...]]:
    """The order of pairwise contractions, worked out once per equation and shapes."""
    like = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
    path = np.einsum_path(f"{','.join(terms)}->{output}", *like, optimize="optimal" if len(shapes) < 6 else "greedy")[0]
    return [step for places in path[1:] for step in _pairs(places)]


def _pairs(places: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A contraction of several operands as contractions of two, each result put at the end of the list.

    Taken from the end, so that the places of those still to come do not shift.

    >>> _pairs((0, 1, 2))
    [(2, 1), (0, -1)]
    """
    last, *rest = sorted(places, reverse=True)
    return [(last, rest[0]), *((place, -1) for place in rest[1:])] if rest else [(last,)]


def _single(a: np.ndarray, letters: str, output: str) -> np.ndarray:
    """Diagonals, sums and a permutation of one operand: a view where nothing is summed."""
    a, letters = _diagonals(a, letters)
    a, letters = _summed(a, letters, set(output))
    return a.transpose([letters.index(letter) for letter in output])


def _diagonals(a: np.ndarray, letters: str) -> tuple[np.ndarray, str]:
    """Repeated letters as one axis: the view of the diagonal, whose stride is the sum of the strides."""
    if len(set(letters)) == len(letters):
        return a, letters
    unique = "".join(dict.fromkeys(letters))
    strides = [sum(s for s, other in zip(a.strides, letters, strict=True) if other == letter) for letter in unique]
    shape = [a.shape[letters.index(letter)] for letter in unique]
    return np.lib.stride_tricks.as_strided(a, shape, strides), unique


def _summed(a: np.ndarray, letters: str, needed: set[str]) -> tuple[np.ndarray, str]:
    """Sum over the axes whose letters nobody else needs."""
    axes = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not axes:
        return a, letters
    total = np.add.reduce(a, axis=axes, dtype=a.dtype) if a.dtype.kind in "biu" else added_up(a, axes)
    return np.asarray(total), "".join(letter for letter in letters if letter in needed)


def _pair(a: np.ndarray, b: np.ndarray, first: str, second: str, output: str) -> np.ndarray:
    """Two operands: as one (stack of) matrix products, or an elementwise product where nothing is contracted."""
    a, first = _diagonals(a, first)
    b, second = _diagonals(b, second)
    a, first = _summed(a, first, set(output).union(second))
    b, second = _summed(b, second, set(output).union(first))
    batch, left, right, inside = _roles(first, second, output)
    if not inside:
        return _spread(a, first, output) * _spread(b, second, output)
    if output == batch + right + left:  # the product the other way round lies in memory as the output is spelled
        a, b, first, second, left, right = b, a, second, first, right, left
    size = dict(zip(first + second, a.shape + b.shape, strict=True))
    shapes = [[size[letter] for letter in group] for group in (batch, left, right)]
    stack, n, m, k = *map(prod, shapes), prod(size[letter] for letter in inside)
    one = _ordered(a, first, batch + left + inside)
    two = _ordered(b, second, batch + inside + right)
    if batch:
        y = np.matmul(one.reshape(stack, n, k), two.reshape(stack, k, m))
    else:
        y = np.dot(one.reshape(n, k), two.reshape(k, m))
    y = y.reshape([*shapes[0], *shapes[1], *shapes[2]])
    return _ordered(y, batch + left + right, output)


@lru_cache(maxsize=1024)
def _roles(first: str, second: str, output: str) -> tuple[str, str, str, str]:
    """Sort the letters: in both and kept, only in the first, only in the second, in both and summed."""
    batch = "".join(letter for letter in first if letter in second and letter in output)
    left = "".join(letter for letter in first if letter not in second)
    right = "".join(letter for letter in second if letter not in first)
    inside = "".join(letter for letter in first if letter in second and letter not in output)
    return batch, left, right, inside


def _ordered(a: np.ndarray, letters: str, wanted: str) -> np.ndarray:
    """The axes in another order."""
    return a if letters == wanted else a.transpose([letters.index(letter) for letter in wanted])


def _spread(a: np.ndarray, letters: str, output: str) -> np.ndarray:
    """The axes where the output has them, with axes of size 1 where it has others."""
    a = _ordered(a, letters, "".join(letter for letter in output if letter in letters))
    return a[tuple(slice(None) if letter in letters else None for letter in output)]


# --- the row


def _pullback(g: Any, inputs: Any, shapes: Any, needs: Any, terms: Terms, output: str) -> list[Any]:
    """The gradient of each operand that needs one."""
    return [_gradient(i, g, inputs, shapes[i], terms, output) if need else None for i, need in enumerate(needs)]


def _gradient(i: int, g: Any, inputs: tuple[Any, ...], shape: tuple[int, ...], terms: Terms, output: str) -> Any:
    """One operand's gradient: g times the other operands, summed over what the operand does not have."""
    target = terms[i]
    pair = _repeated(target)
    if pair:  # the gradient lies on the diagonal
        rest = (*(n for axis, n in enumerate(shape) if axis not in pair), shape[pair[0]])
        on_it = _gradient(i, g, inputs, rest, (*terms[:i], _merged(target, pair), *terms[i + 1 :]), output)
        return diag_embed_row(on_it, shape, 0, *pair)
    others = [k for k in range(len(terms)) if k != i]
    factors, names = [g, *(inputs[k] for k in others)], [output, *(terms[k] for k in others)]
    known = "".join(letter for letter in target if letter in set().union(*names))
    partial = einsum_row(tuple(factors), tuple(names), known)
    if known == target:
        return partial
    sizes = tuple(n if letter in known else 1 for letter, n in zip(target, shape, strict=True))
    return expand_row(reshape_row(partial, sizes), shape)


def _repeated(letters: str) -> tuple[int, int] | None:
    """The first two places of a letter that is there more than once.

    >>> _repeated("iji"), _repeated("ij")
    ((0, 2), None)
    """
    for first, letter in enumerate(letters):
        second = letters.find(letter, first + 1)
        if second > 0:
            return first, second
    return None


def _merged(letters: str, pair: tuple[int, int]) -> str:
    """The letters of the diagonal along two axes of one letter: their common axis comes last.

    >>> _merged("iji", (0, 2))
    'ji'
    """
    first, second = pair
    return letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letters[first]


def _jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return add_up(
        einsum_row((*inputs[:i], t, *inputs[i + 1 :]), *params) for i, t in enumerate(tangents) if t is not None
    )


def _batch(op: Any, arrays: tuple[Any, ...], terms: Terms, output: str) -> Any:
    used = set(output).union(*terms)
    letter = next(letter for letter in LETTERS if letter not in used)
    return op(arrays, tuple(letter + term for term in terms), letter + output)


einsum_row = bind(general("einsum", _evaluate, jvp=_jvp, pullback=_pullback, dtypes="equal", batch=_batch))


# --- reading an equation


def _fail(what: str) -> None:
    raise refusal(RuntimeError, f"einsum(): {what}")


def _from_sublists(arguments: Sequence[Any]) -> tuple[str, list[Any]]:
    """The form einsum(a, [0, 1], b, [1, 2], [0, 2]) as an equation."""
    operands, lists = list(arguments[0:-1:2]), list(arguments[1::2])
    output = arguments[-1] if len(arguments) % 2 else None
    if output is not None:
        operands = list(arguments[:-1:2])

    def letters(numbers: Sequence[Any]) -> str:
        return "".join("..." if n is Ellipsis else _letter(int(n)) for n in numbers)

    equation = ",".join(letters(numbers) for numbers in lists)
    return equation if output is None else f"{equation}->{letters(output)}", operands


def _letter(number: int) -> str:
    if not 0 <= number < 52:
        raise refusal(ValueError, f"einsum(): subscript {number} is not within the valid range [0, 52)")
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number]


@lru_cache(maxsize=512)
def _parsed(equation: str) -> tuple[Terms, str | None]:
    """An equation's operands and its output (None: implicit), checked letter by letter."""
    if "." in equation.replace("...", ""):
        _fail("found '.' that is not part of any ellipsis (...)")
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = tuple(left.split(","))
    for i, term in enumerate((*terms, right)):
        where = f"operand {i}" if i < len(terms) else "the output"
        plain = term.replace("...", "", 1)
        if "." in plain:
            _fail(f"found '.' for {where} that is not part of any ellipsis")
        for letter in plain:
            if letter not in LETTERS:
                at = equation.index(letter)
                _fail(f"invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]")
    return terms, right if arrow else None


@lru_cache(maxsize=512)
def _spelled(equation: str, ranks: tuple[int, ...]) -> tuple[Terms, str]:
    """The equation with every ellipsis written in letters of its own and the output written out."""
    terms, output = _parsed(equation)
    if len(terms) != len(ranks):
        _fail("more operands were provided than specified in the equation" if len(ranks) > len(terms)
              else "fewer operands were provided than specified in the equation")  # fmt: skip
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for i, (term, extra) in enumerate(zip(terms, hidden, strict=True)):
        if extra < 0 or (extra and "..." not in term):
            _fail(f"the number of subscripts in the equation ({ranks[i] - extra}) does not match the number of "
                  f"dimensions ({ranks[i]}) for operand {i} and no ellipsis was given")  # fmt: skip
    used = {letter for letter in equation if letter in LETTERS}
    spare = "".join(letter for letter in reversed(LETTERS) if letter not in used)[: max(hidden)]
    full = tuple(term.replace("...", spare[len(spare) - extra :]) for term, extra in zip(terms, hidden, strict=True))
    if output is None:
        everything = "".join(full)
        return full, spare + "".join(sorted(c for c in set(everything) - set(spare) if everything.count(c) == 1))
    output = output.replace("...", spare)
    _check_output(output, full)
    return full, output


def _check_output(output: str, terms: Terms) -> None:
    for letter in output:
        if output.count(letter) > 1:
            _fail(f"output subscript {letter} appears more than once in the output")
        if not any(letter in term for term in terms):
            _fail(f"output subscript {letter} does not appear in the equation for any input operand")


@lru_cache(maxsize=512)
def _stretched(terms: Terms, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Per operand the axes of size 1 whose letter is longer elsewhere: they are left out, for they broadcast."""
    size: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[str, int] = {}
        for letter, n in zip(term, shape, strict=True):
            if own.setdefault(letter, n) != n:
                _fail(f"subscript {letter} is repeated for operand {i} but the sizes don't match, {n} != {own[letter]}")
            if n != size.get(letter, n) and 1 not in (n, size[letter]):
                _fail(f"subscript {letter} has size {n} for operand {i} which does not broadcast with previously "
                      f"seen size {size[letter]}")  # fmt: skip
            size[letter] = n if size.get(letter, 1) == 1 else size[letter]
    return tuple(
        tuple(axis for axis, letter in enumerate(term) if shape[axis] != size[letter])
        for term, shape in zip(terms, shapes, strict=True)
    )


def _diagonal_view(input: Any, name: str) -> tuple[Any, str]:
    """A view of the elements whose places along axes of one letter agree, and the letters that are left."""
    pair = _repeated(name)
    while pair:
        input, name = diagonal_row(input, 0, *pair), _merged(name, pair)
        pair = _repeated(name)
    return input, name


def _sums_alone(names: Sequence[str], output: str) -> bool:
    """Whether an operand is summed over a letter that nothing else has."""
    return any(
        letter not in output and not any(letter in other for k, other in enumerate(names) if k != i)
        for i, name in enumerate(names) for letter in name
    )  # fmt: skip


def _node_name(names: Sequence[str], output: str) -> str:
    """The node that PyTorch ends with: a sum, a product of matrices seen in the wanted shape, or a plain product."""
    if len(names) == 1:
        return "SumBackward1"
    summed = (set(names[-1]) & set("".join(names[:-1]))) - set(output)
    return "ViewBackward0" if summed else "MulBackward0"


def _einsum_samples(draw: Any) -> list[Any]:
    return [
        call("ij,jk->ik", draw(2, 3), draw(3, 4)), call("ij,jk", draw(2, 3), draw(3, 4)), call("ii", draw(3, 3)),
        call("ii->i", draw(3, 3)), call("ij->ji", draw(2, 3)), call("ij->", draw(2, 3)), call("ij->j", draw(2, 3)),
        call("bij,bjk->bik", draw(2, 3, 4), draw(2, 4, 2)), call("i,j->ij", draw(2), draw(3)),
        call("...ij,...jk->...ik", draw(2, 1, 2, 3), draw(4, 3, 2)),
        call("bn,anm,bm->ba", draw(2, 3), draw(4, 3, 2), draw(2, 2)),
        call("i,i", draw(3), draw(3)), call("iij,jk->ik", draw(2, 2, 3), draw(3, 2)), call("...", draw(2, 3)),
        call("ij,ij->ij", draw(2, 3), draw(2, 3)), call("bhqd,bhkd->bhqk", draw(2, 2, 3, 4), draw(2, 2, 5, 4)),
        call("ij,jk,kl->il", draw(2, 3), draw(3, 4), draw(4, 2)), call("ij,jk->ik", draw(2, 1), draw(3, 4)),
        call("ij,jk->ik", draw(0, 3), draw(3, 2)), call("ij,jk->ik", draw(2, 0), draw(0, 2)),
        call(",i->i", draw(), draw(3)),
        call("a,b,c,d->abcd", draw(2), draw(1), draw(3), draw(2)), call("ijk,ijl->kl", draw(2, 3, 2), draw(2, 3, 4)),
    ]  # fmt: skip


@operation(samples=_einsum_samples, methods=(), unclaimed=COMPOSED)
def einsum(*args: Any) -> Any:
    """Sum of products over named indices: einsum("ij,jk->ik", a, b) is a matrix product.

    >>> import pellucid as torch
    >>> torch.einsum("ij,ij->i", torch.ones(2, 3), torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 5.0]]))
    tensor([6., 5.])
    """
    if not args or (isinstance(args[0], str) and len(args) < 2):
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, "
            "or at least one operand and its subscripts list"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_sublists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    if not operands:
        raise ValueError("einsum(): must provide at least one operand")
    for i, operand in enumerate(operands):
        if not isinstance(operand, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 1, but got {type(operand).__name__}")
    terms, output = _spelled(equation, tuple(operand.ndim for operand in operands))
    shapes = tuple(tuple(operand.shape) for operand in operands)
    inputs, names = [], []
    for operand, term, dropped in zip(operands, terms, _stretched(terms, shapes), strict=True):
        kept = [axis for axis in range(len(term)) if axis not in dropped]
        inputs.append(reshape_row(operand, tuple(operand.shape[axis] for axis in kept)) if dropped else operand)
        names.append("".join(term[axis] for axis in kept))
    if len(inputs) == 1 and set(names[0]) == set(output):  # nothing to sum up: a view, which may be written to
        view, name = _diagonal_view(inputs[0], names[0])
        return permute_row(view, tuple(name.index(letter) for letter in output))
    if not is_floating(inputs[0]) and _sums_alone(names, output):
        inputs = [as_type(operand, dtypes.int64) for operand in inputs]  # a plain sum: of integers it is int64
    return bearing(_node_name(names, output), einsum_row(tuple(inputs), tuple(names), output))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 4), draw(5, 3, 4)), call(draw(2, 3), draw(2, 4), draw(5, 3, 4), draw(5)),
        call(draw(3), draw(4), draw(5, 3, 4)), call(draw(2, 6, 3), draw(2, 6, 4), draw(5, 3, 4), draw(5)),
        call(draw(3), draw(4), draw(5, 3, 4), draw(5)), call(draw(1, 1), draw(1, 1), draw(1, 1, 1)),
        call(draw(0, 3), draw(0, 4), draw(5, 3, 4), draw(5)), call(draw(2, 3), draw(2, 3), draw(1, 3, 3)),
        call(draw(3, 2).mT, draw(2, 4), draw(5, 3, 4)), call(draw(2, 1, 3), draw(2, 1, 4), draw(2, 3, 4)),
    ],
    module="torch.nn.functional",
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """What a bilinear layer computes: `input1 @ weight[k] @ input2 + bias[k]` for each output k.

    >>> import pellucid as torch
    >>> bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(4, 2, 3))
    tensor([[6., 6., 6., 6.]])
    """
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    if bias is None:
        return result
    must_be_tensors("bilinear", bias=bias)
    return result + bias
