"""Functions of functions: grad, vjp, jacobians. Each makes arguments of its own, runs the function, walks back.

The tape has no levels: what keeps nested calls apart is that every call differentiates with respect to tensors that
it made itself (`Argument`), and that a walk goes only where these targets are. Where a call is nested in another one,
its result is recorded (create_graph), otherwise it has no graph and costs no more than one backward.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.backward import gradients, oldest_first
from pellucid.core.primitive import Primitive, edges_of, same
from pellucid.core.provenance import here
from pellucid.core.tensor import Leaf, Node, Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.errors import explain
from pellucid.ops.axes import permute_row
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import slice_row
from pellucid.transforms.batch import vmap
from pellucid.transforms.forward import jvp, zeros_like
from pellucid.transforms.tree import Structure, flatten, map_tree

# --- the arguments of a differentiated function


def _no_forward(*_: Any) -> Any:
    raise AssertionError("an argument is never run")


ARGUMENT = Primitive("argument", _no_forward, (same,), None, edges=edges_of((same,)), grad_name="ArgumentBackward0")


class Argument(Leaf):
    """A leaf within the function; seen from outside, a step that passes the gradient on to the tensor it stands for."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, source: Node) -> None:
        super().__init__(tensor, here())
        self.primitive = ARGUMENT
        self.inputs = (source,)
        self.saved = (None,)


class Scope:
    """One differentiated call: the arguments it made, and whether anything outside wants to see its graph."""

    def __init__(self) -> None:
        self.outer = modes.current()
        self.own: set[Node] = set()

    def argument(self, value: Any) -> Tensor:
        """A tensor of this call's own that stands for one of the user's."""
        if not isinstance(value, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        tensor = wrap(current_array(value))
        if np.dtype(tensor.array.dtype).kind in "biu":
            raise RuntimeError(
                explain(
                    f"only Tensors of floating point and complex dtype can require gradients, not {tensor.dtype}",  # type: ignore[attr-defined]
                    str(here()),
                    try_="convert it first, e.g. x.float(), or leave it out of argnums",
                )
            )
        source = current_node(value) if self.outer.grad else None
        tensor.node = Leaf(tensor, here()) if source is None else Argument(tensor, source)
        self.own.add(tensor.node)
        return tensor

    def seen_outside(self, tensors: Iterable[Tensor]) -> bool:
        """Whether somebody outside could differentiate these tensors: a leaf that is not ours took part."""
        if not self.outer.grad:
            return False
        roots = [node for node in (current_node(tensor) for tensor in tensors) if node is not None]
        return any(isinstance(node, Leaf) and type(node) is not Argument and node not in self.own
                   for node in oldest_first(roots))  # fmt: skip

    def release(self, tree: Any) -> Any:
        """What the call hands out: without graph, unless it is part of a larger one."""
        return map_tree(lambda leaf: self._released(leaf) if isinstance(leaf, Tensor) else leaf, tree)

    def _released(self, tensor: Tensor) -> Tensor:
        if current_node(tensor) is None or self.seen_outside([tensor]):
            return tensor
        return wrap(current_array(tensor))


def recording() -> Any:
    """Record inside a differentiated function whatever the mode outside."""
    return modes.switched(grad=True, inference=False)


# --- which arguments


def chosen(args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    """The positions of the differentiated arguments, checked."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    positions = tuple(n % len(args) for n in numbers)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return positions


def replaced(args: tuple[Any, ...], positions: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with some of them replaced."""
    result = list(args)
    for position, value in zip(positions, values, strict=True):
        result[position] = value
    return tuple(result)


def without_aux(returned: Any, has_aux: bool, api: str) -> tuple[Any, Any]:
    """The output of a function and what it returned beside it."""
    if not has_aux:
        return returned, None
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return returned


def filled(grads: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with zeros where an input had no influence."""
    return [zeros_like(wrap(x.array)) if g is None else g for g, x in zip(grads, inputs, strict=True)]


# --- reverse mode


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function that returns one number, as a function.

    >>> import pellucid as torch
    >>> slope = torch.func.grad(torch.sin)
    >>> slope(torch.tensor(0.0)), torch.func.grad(slope)(torch.tensor(0.0))
    (tensor(1.), tensor(-0.))
    """
    with_value = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        grads, value = with_value(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Like `grad`, with the function's value beside the gradient.

    >>> import pellucid as torch
    >>> torch.func.grad_and_value(lambda x: x * x)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """
    api = "grad_and_value(f)(*args)"

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        scope = Scope()
        with recording():
            leaves, structure = flatten(tuple(args[i] for i in positions))
            inputs = [scope.argument(leaf) for leaf in leaves]
            arguments = replaced(args, positions, structure.unflatten(inputs))
            output, aux = without_aux(func(*arguments, **kwargs), has_aux, api)
            grads = filled(_pulled_back(scope, [_scalar(output, api)], [None], inputs), inputs)
        found = structure.unflatten(grads)
        result = scope.release((found[0] if isinstance(argnums, int) else found, output, aux))
        return (result[0], result[1:]) if has_aux else result[:2]

    return wrapped


def _scalar(output: Any, api: str) -> Tensor:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{api}: Expected f(*args) to return a Tensor, got {type(output)}")
    rank = len(output.array.shape)
    if rank:
        raise RuntimeError(
            f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {rank} dims. "
            "Maybe you wanted to use the vjp or jacrev APIs instead?"
        )
    return output


def _pulled_back(
    scope: Scope, outputs: Sequence[Tensor], seeds: Sequence[Any], inputs: Sequence[Tensor], retain: bool = False
) -> list[Tensor | None]:
    """The gradients of outputs with respect to a call's arguments, recorded if somebody outside may ask."""
    pairs = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if current_node(y) is not None]
    if not pairs:
        return [None] * len(inputs)
    live = [y for y, _ in pairs]
    given = [seed for _, seed in pairs]
    seen = scope.seen_outside([*live, *(seed for seed in given if seed is not None)])
    return gradients(live, given, inputs, retain_graph=seen or retain, create_graph=seen)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and the function that pulls a gradient of the value back to the inputs.

    >>> import pellucid as torch
    >>> value, pull_back = torch.func.vjp(lambda x: x * x, torch.tensor([1.0, 2.0]))
    >>> pull_back(torch.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    output, aux, pull_back = _vjp(func, primals, tuple(range(len(primals))), has_aux)
    return (output, pull_back, aux) if has_aux else (output, pull_back)


def _vjp(func: Callable[..., Any], args: tuple[Any, ...], positions: tuple[int, ...], has_aux: bool) -> tuple[Any, ...]:
    scope = Scope()
    with recording():
        leaves, structure = flatten(tuple(args[i] for i in positions))
        inputs = [scope.argument(leaf) for leaf in leaves]
        arguments = replaced(args, positions, structure.unflatten(inputs))
        output, aux = without_aux(func(*arguments), has_aux, "vjp(f, *primals)")
        outputs, out_structure = flatten(output)
        _check_outputs(outputs, "vjp(f, *primals)")

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, given = flatten(cotangents)
        if given != out_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given}, primal output: {out_structure}"
            )
        inside = Scope()
        inside.own = scope.own
        inside.outer = modes.current() if scope.outer.grad else scope.outer
        grads = filled(_pulled_back(inside, outputs, seeds, inputs, retain=True), inputs)
        return structure.unflatten([inside.release(g) for g in grads])

    return scope.release(output), scope.release(aux), pull_back


def _check_outputs(outputs: Sequence[Any], api: str) -> None:
    if not outputs:
        raise RuntimeError(f"{api}: Expected f to be a function that has non-empty output (got output = {outputs})")
    for out in outputs:
        if not isinstance(out, Tensor):
            raise RuntimeError(f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(out)}")
        if np.dtype(out.array.dtype).kind in "biu":
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{out.dtype}"  # type: ignore[attr-defined]
            )


# --- jacobians


def basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The unit vectors of several tensors taken together: per tensor, one slice for every element of all of them.

    >>> import pellucid as torch
    >>> [tuple(t.shape) for t in basis([torch.ones(2), torch.ones(1, 3)])]
    [(5, 2), (5, 1, 3)]
    """
    sizes = [int(np.prod(t.array.shape, dtype=np.int64)) for t in tensors]
    units, begin = [], 0
    for tensor, size in zip(tensors, sizes, strict=True):
        unit = np.zeros((sum(sizes), size), plain_dtype(tensor))
        unit[np.arange(begin, begin + size), np.arange(size)] = 1
        units.append(wrap(unit.reshape(sum(sizes), *tensor.array.shape)))
        begin += size
    return units


def plain_dtype(tensor: Tensor) -> np.dtype:
    """The NumPy dtype of a tensor whatever kind of array it holds."""
    return tensor.dtype.numpy  # type: ignore[attr-defined, no-any-return]


def jacrev(
    func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The Jacobian of a function by reverse mode: one walk for all outputs together, or for `chunk_size` at a time.

    >>> import pellucid as torch
    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        _refuse_complex("jacrev", args, "inputs")
        output, aux, pull_back = _vjp(functools.partial(func, **kwargs), args, positions, has_aux)
        outputs, out_structure = flatten(output)
        _refuse_complex("jacrev", outputs, "outputs")
        units = out_structure.unflatten(basis(outputs))
        rows = vmap(lambda unit: pull_back(unit), chunk_size=chunk_size)(units)
        by_input, in_structure = flatten(rows)
        blocks = [split_rows(columns, outputs) for columns in by_input]
        found = _nested(list(zip(*blocks, strict=True)), out_structure, in_structure, argnums)
        return (found, aux) if has_aux else found

    return wrapped


def split_rows(jacobian: Tensor, outputs: Sequence[Tensor]) -> list[Tensor]:
    """The rows of a Jacobian, shared out among the outputs: each gets out.shape + in.shape."""
    blocks, begin = [], 0
    for out in outputs:
        shape = tuple(out.array.shape)
        end = begin + int(np.prod(shape, dtype=np.int64))
        rows = slice_row(jacobian, (slice(begin, end),))
        blocks.append(reshape_row(rows, (*shape, *jacobian.array.shape[1:])))
        begin = end
    return blocks


def _nested(blocks: Sequence[Sequence[Any]], out: Structure, inside: Structure, argnums: Any) -> Any:
    """Blocks by output and input, as a pytree of outputs whose leaves are pytrees of inputs."""
    trees = [inside.unflatten(list(row)) for row in blocks]
    return out.unflatten([tree[0] if isinstance(argnums, int) else tree for tree in trees])


def jacfwd(
    func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """The Jacobian of a function by forward mode, for all inputs together.

    >>> import pellucid as torch
    >>> torch.func.jacfwd(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        positions = chosen(args, argnums)
        _refuse_complex("jacfwd", args, "inputs")
        primals = tuple(args[i] for i in positions)
        leaves, in_structure = flatten(primals)
        aux: list[Any] = []

        def of_some(*values: Any) -> Any:
            return func(*replaced(args, positions, values), **kwargs)

        def push_forward(unit: Any) -> Any:
            _, tangent, *beside = jvp(of_some, primals, unit, has_aux=has_aux)
            aux[:] = beside
            return tangent

        columns = vmap(push_forward, randomness=randomness)(in_structure.unflatten(basis(leaves)))
        by_output, out_structure = flatten(columns)
        _refuse_complex("jacfwd", by_output, "outputs")
        blocks = [split_columns(block, leaves) for block in by_output]
        found = _nested(blocks, out_structure, in_structure, argnums)
        return (found, aux[0]) if has_aux else found

    return wrapped


def split_columns(jacobian: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The columns of a Jacobian (in front, as vmap leaves them), shared out among the inputs: out.shape + in.shape."""
    rank = len(jacobian.array.shape)
    behind = permute_row(jacobian, (*range(1, rank), 0))
    blocks, begin = [], 0
    for x in inputs:
        shape = tuple(x.array.shape)
        end = begin + int(np.prod(shape, dtype=np.int64))
        columns = slice_row(behind, (*(slice(None),) * (rank - 1), slice(begin, end)))
        blocks.append(reshape_row(columns, (*behind.array.shape[:-1], *shape)))
        begin = end
    return blocks


def _refuse_complex(api: str, tree: Any, name: str) -> None:
    for leaf in flatten(tree)[0]:
        if isinstance(leaf, Tensor) and np.dtype(leaf.array.dtype).kind == "c":
            raise RuntimeError(
                f"{api}: Expected all {name} to be real but received complex tensor. "
                "Consider using torch.view_as_real to convert the tensor to a real one."
            )


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """The matrix of second derivatives: forward mode over reverse mode.

    >>> import pellucid as torch
    >>> torch.func.hessian(lambda x: (x * x * x).sum())(torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function at a point, and its derivative there as a function of tangents.

    The function runs once. Pulling back is linear in the gradient, so its own pull-back is the derivative: the second
    function walks a recorded graph and does not run `func` again.

    >>> import pellucid as torch
    >>> value, derivative = torch.func.linearize(lambda x: x * x, torch.tensor(3.0))
    >>> value, derivative(torch.tensor(1.0)), derivative(torch.tensor(2.0))
    (tensor(9.), tensor(6.), tensor(12.))
    """
    scope = Scope()
    leaves, structure = flatten(primals)
    with recording():
        inputs = [scope.argument(leaf) for leaf in leaves]
        output = func(*structure.unflatten(inputs))
        outputs, out_structure = flatten(output)
        _check_outputs(outputs, "linearize(f, *primals)")
        seeds = [scope.argument(zeros_like(wrap(y.array))) for y in outputs]
        pulled = _linear_pull_back(outputs, seeds, inputs)

    def derivative(*tangents: Any) -> Any:
        given, found = flatten(tangents)
        if found != structure:
            raise RuntimeError(
                "Expected the tangents to have the same pytree structure as the primals. "
                f"tangents: {found}, primals: {structure}"
            )
        for i, (tangent, primal) in enumerate(zip(given, leaves, strict=True)):
            _check_alike(i, tangent, primal)
        live = [(g, given[i]) for i, g in enumerate(pulled) if g is not None]
        pushed = _pulled_back(scope, [g for g, _ in live], [v for _, v in live], seeds, retain=True)
        return scope.release(out_structure.unflatten(filled(pushed, seeds)))

    return scope.release(output), derivative


def _linear_pull_back(outputs: Sequence[Tensor], seeds: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Any]:
    """The gradients of the inputs, recorded as linear functions of the seeds."""
    live = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if current_node(y) is not None]
    if not live:
        return [None] * len(inputs)
    return gradients([y for y, _ in live], [seed for _, seed in live], inputs, True, True)


def _check_alike(index: int, tangent: Any, primal: Tensor) -> None:
    for what in ("shape", "dtype"):
        mine, expected = getattr(tangent, what), getattr(primal, what)
        if mine != expected:
            raise RuntimeError(
                f"tangent:{index} with {what} {mine} in flattened pytree doesn't match the {what} {expected} of the "
                "corresponding primal."
            )


# --- modules


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, named as `named_parameters` names them.

    The module is as it was afterwards, also after an error. With `tie_weights` a tensor the module holds under
    several names is replaced under all of them.

    >>> import pellucid as torch
    >>> class Scale:
    ...     factor = torch.tensor(2.0)
    ...     def named_parameters(self): return [("factor", self.factor)]
    ...     def named_buffers(self): return []
    ...     def __call__(self, x): return x * self.factor
    >>> torch.func.functional_call(Scale(), {"factor": torch.tensor(10.0)}, torch.tensor(1.0))
    tensor(10.)
    """
    values = _merged(parameter_and_buffer_dicts)
    known = {**_named(module, "named_parameters"), **_named(module, "named_buffers")}
    if strict:
        _check_names(values.keys(), known.keys())
    if tie_weights:
        values = _tied(values, known)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before: list[tuple[Any, str, Any]] = []
    try:
        for name, value in values.items():
            *path, last = name.split(".")
            owner = functools.reduce(getattr, path, module)
            before.append((owner, last, _exchange(owner, last, value)))
        return module(*args, **(kwargs or {}))
    finally:
        for owner, last, value in reversed(before):
            _exchange(owner, last, value)


ABSENT = object()  # an object found its attribute in its class, not in itself


def _exchange(owner: Any, name: str, value: Any) -> Any:
    """Put a value where an object keeps one under this name, and return what was there."""
    for home in (getattr(owner, "_parameters", None), getattr(owner, "_buffers", None), vars(owner)):
        if home is not None and name in home:
            old = home[name]
            if value is ABSENT:
                del home[name]
            else:
                home[name] = value
            return old
    if not hasattr(owner, name):
        raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
    vars(owner)[name] = value
    return ABSENT


def _merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(part, dict) for part in dicts):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    merged: dict[str, Any] = {}
    for part in dicts:
        for name in part:
            if name in merged:
                raise ValueError(f"{name} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        merged.update(part)
    return merged


def _named(module: Any, method: str) -> dict[str, Any]:
    """All names of a module's tensors; those of shared tensors too, where the method can tell them."""
    try:
        return dict(getattr(module, method)(remove_duplicate=False))
    except TypeError:
        return dict(getattr(module, method)())


def _check_names(given: Iterable[str], known: Iterable[str]) -> None:
    missing, unexpected = sorted(set(known) - set(given)), sorted(set(given) - set(known))
    if missing or unexpected:
        parts = [f"Unexpected key(s): {', '.join(unexpected)}."] if unexpected else []
        parts += [f"Missing key(s): {', '.join(missing)}."] if missing else []
        raise RuntimeError(f"Error(s) in reparametrizing: {' '.join(parts)}")


def _tied(values: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    given = {id(known[name]): value for name, value in values.items() if name in known}
    tied = {name: given[id(tensor)] for name, tensor in known.items() if id(tensor) in given}
    return {**tied, **values}


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The function itself: in-place operations are recorded as their functional forms anyway."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}.")
    return func


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and buffers of several models of one class, each stacked: what `vmap` runs an ensemble on.

    >>> import pellucid as torch
    >>> models = [torch.nn.Linear(2, 3) for _ in range(5)]
    >>> params, buffers = torch.func.stack_module_state(models)
    >>> params["weight"].shape
    torch.Size([5, 3, 2])
    >>> def run(params, x): return torch.func.functional_call(models[0], params, (x,))
    >>> torch.func.vmap(run, in_dims=(0, None))(params, torch.ones(2)).shape
    torch.Size([5, 3])
    """
    what = "stack_module_state: Expected"
    if not models:
        raise RuntimeError(f"{what} at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{what} all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{what} all models to be of the same class.")
    found = []
    for method in ("named_parameters", "named_buffers"):
        by_model = [dict(getattr(model, method)()) for model in models]
        found.append({name: _stacked(name, [each[name] for each in by_model]) for name in by_model[0]})
    return found[0], found[1]


def _stacked(name: str, tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of several models as one leaf."""
    needs = {current_node(tensor) is not None for tensor in tensors}
    if len(needs) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    made = wrap(np.stack([current_array(tensor) for tensor in tensors]))
    if needs.pop():
        made.node = Leaf(made, here())
    return made
