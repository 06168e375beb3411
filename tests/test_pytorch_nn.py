"""Layers, optimisers, data and distributions where PyTorch's own tests found a difference: both libraries side by side.

A case does something with one of the two libraries; both must give the same numbers, or raise the same class of error.
"""

import warnings
from typing import Any

import numpy as np
import pytest

import pellucid
from likeness import alike, plain

CASES: dict[str, Any] = {}


def case(function: Any) -> Any:
    """Try something with both libraries."""
    CASES[function.__name__.replace("_", " ")] = function
    return function


def each(*attempts: Any) -> list[Any]:
    """What each of some attempts gives, or the class of its error."""
    found = []
    for attempt in attempts:
        try:
            found.append(attempt())
        except Exception as error:
            found.append(type(error).__name__)
    return found


@pytest.fixture
def quiet() -> Any:
    """Warnings are looked at by the cases that are about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- functions of neural networks


@case
def a_result_has_memory_of_its_own(torch: Any) -> Any:
    functional = torch.nn.functional
    image = torch.ones(1, 4, 4, 4)
    for mode in ("constant", "reflect", "replicate", "circular"):
        functional.pad(image, (0, 0, 0, 0), mode=mode).fill_(4)
    functional.pixel_shuffle(image, 1).fill_(4)
    functional.pixel_unshuffle(image, 1).fill_(4)
    return image


@case
def fractional_pooling_of_odd_sizes(torch: Any) -> Any:
    functional = torch.nn.functional
    plane, volume = torch.arange(49.0).reshape(1, 7, 7), torch.arange(343.0).reshape(1, 7, 7, 7)
    odd = (), (1,), 0, -1
    return each(
        *(lambda s=s: functional.fractional_max_pool2d(plane, 2, s).shape for s in (*odd, (0, 1))),
        *(lambda s=s: functional.fractional_max_pool3d(volume, 2, s).shape for s in (*odd, (0, 1, 1))),
        *(lambda k=k: functional.fractional_max_pool2d(plane, k, 3) for k in ((), (1,))),
    )


@case
def bags_of_a_matrix_are_its_rows(torch: Any) -> Any:
    table, index = torch.arange(12.0).reshape(6, 2), torch.tensor([[1, 2], [4, 3]])
    return torch.nn.functional.embedding_bag(index, table, include_last_offset=True)


@case
def rows_are_shortened_under_forward_mode(torch: Any) -> Any:
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        table = forward.make_dual(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.ones(2, 2))
        rows = torch.nn.functional.embedding(torch.tensor([0, 1]), table, max_norm=1.0)
        return forward.unpack_dual(rows)


@case
def a_cosine_takes_no_negative_eps(torch: Any) -> Any:
    return each(lambda: torch.nn.functional.cosine_similarity(torch.ones(2, 2), torch.ones(2, 2), eps=-1.0))


@case
def empty_batches_have_gradients(torch: Any) -> Any:
    seen = []
    for layer, shape in ((torch.nn.GroupNorm(2, 4), (0, 4, 2)), (torch.nn.LayerNorm(4), (0, 4))):
        layer(torch.zeros(shape, requires_grad=True)).sum().backward()
        seen += [parameter.grad for parameter in layer.parameters()]
    return seen


@case
def what_losses_and_layers_refuse(torch: Any) -> Any:
    functional, none = torch.nn.functional, torch.zeros(0, dtype=torch.int64)
    options = torch.nn.LinearCrossEntropyOptions
    return each(
        lambda: functional.nll_loss(torch.zeros(9), torch.zeros(3, dtype=torch.int64)),
        lambda: functional.cross_entropy(torch.zeros(9), torch.zeros(3, dtype=torch.int64)),
        lambda: functional.ctc_loss(torch.zeros(0, 0, 4), none, none, none),
        lambda: options(acc_dtype=torch.int32), lambda: options(batch_chunk_size=0),
        lambda: options(acc_dtype=torch.float32).acc_dtype is torch.float32,
        lambda: torch.nn.Linear(1, 1).to("cpu", copy=True),
    )  # fmt: skip


@case
def a_celu_of_negative_alpha(torch: Any) -> Any:
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    y = torch.nn.functional.celu(x, alpha=-2.0)
    y.sum().backward()
    return [y, x.grad]


@case
def models_larger_than_the_memory_are_built_on_meta(torch: Any) -> Any:
    many = 3_000_000
    with torch.device("meta"):
        layer = torch.nn.Linear(many, many)
    made = [torch.randn(many, many, device="meta"), torch.full((many, many), 2.0, device="meta"), layer.weight]
    return [[list(each.shape), str(each.device)] for each in (*made, torch.zeros_like(made[0]))]


# --- schedules


@case
def bounds_of_a_schedule_are_copied(torch: Any) -> Any:
    seen = []
    for kind, names in (("CyclicLR", ("base_lr", "max_lr")), ("OneCycleLR", ("max_lr",)), ("SWALR", ("swa_lr",))):
        bounds = {name: torch.tensor(0.1 * (i + 1)) for i, name in enumerate(names)}
        if kind != "SWALR":
            bounds |= {"base_momentum": torch.tensor(0.8), "max_momentum": torch.tensor(0.9)}
        given = {**bounds, "total_steps": 9} if kind == "OneCycleLR" else bounds
        optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5, momentum=0.9)
        home = torch.optim.swa_utils if kind == "SWALR" else torch.optim.lr_scheduler
        scheduler = getattr(home, kind)(optimizer, **given)
        for bound in bounds.values():
            bound.mul_(0.5)
        optimizer.step()
        scheduler.step()
        group = optimizer.param_groups[0]
        seen.append([float(scheduler.get_last_lr()[0]), *(float(group[n]) for n in group if "momentum" in n)])
    return seen


@case
def a_line_search_keeps_to_the_evaluations_left(torch: Any) -> Any:
    def search(most: int | None) -> Any:
        x = torch.tensor([-1.5, 2.0], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], lr=4.0, max_iter=6, max_eval=most, line_search_fn="strong_wolfe")
        losses = []

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + x.sin().sum()
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
        optimizer.step(closure)
        return [len(losses), losses[-1], x]

    return [search(most) for most in (1, 2, 5, 8, None)]


@case
def values_that_are_loaded_into_nothing(torch: Any) -> Any:
    with torch.device("meta"):
        layer = torch.nn.Linear(1, 2)
    state = {"weight": torch.ones(2, 1), "bias": torch.empty(2, device="meta")}
    seen = []
    for how in ({}, {"assign": True}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            layer.load_state_dict(state, **how)
        seen += [[str(each.message)[:20] for each in caught], str(layer.weight.device)]
    return seen


# --- modules with other tensors than their own


@case
def functional_calls(torch: Any) -> Any:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.again = self.layer.bias
            self.steps = torch.nn.Buffer(torch.zeros(1))
            self.number = 0.0

        def forward(self, x: Any) -> Any:
            self.steps = self.steps + 1
            return self.layer(x) + self.again + getattr(self, "extra", 0.0)

    def call(values: Any, **how: Any) -> Any:
        torch.manual_seed(0)
        model = Tied()
        result = torch.func.functional_call(model, values, torch.ones(1, 1), **how)
        return [result, model.steps, hasattr(model, "extra"), len(list(model.parameters())), values]

    def around() -> Any:
        model = Tied()
        model.layer.outer = model
        values = {"layer.outer.layer.weight": torch.ones(1, 1), "layer.bias": one}
        return torch.func.functional_call(model, values, torch.zeros(1, 1), tie_weights=False) - model.again

    one, two = torch.ones(1), torch.full((1,), 2.0)
    whole = {"layer.weight": torch.ones(1, 1), "layer.bias": two, "steps": one}
    return each(
        lambda: call({"steps": two}), lambda: call({"layer.bias": two}), lambda: call({"again": two}),
        lambda: call({"layer.bias": two, "again": two}), lambda: call({"layer.bias": two, "again": one}),
        lambda: call({"layer.bias": two, "again": one}, tie_weights=False), lambda: call({"extra": two}),
        lambda: call({"extra": two}, strict=True), lambda: call(dict(whole), strict=True),
        lambda: call(dict(whole), strict=True, tie_weights=False), lambda: call({"number": two}),
        lambda: call({"layer.bias": 3.0}), lambda: call({"nowhere.bias": two}), lambda: call(({"steps": two}, {})),
        around, lambda: call({"extra": torch.nn.Parameter(two)}),
    )  # fmt: skip


# --- data


@case
def ways_to_start_workers(torch: Any) -> Any:
    load = torch.utils.data.DataLoader
    return each(
        lambda: load([1], num_workers=0, multiprocessing_context="spawn"),
        lambda: load([1], num_workers=1, multiprocessing_context="bad"),
        lambda: load([1], num_workers=1, multiprocessing_context=object()),
        lambda: len(load([1], num_workers=1, multiprocessing_context="spawn")),
    )


@case
def several_items_at_once(torch: Any) -> Any:
    class Many(torch.utils.data.Dataset):
        def __init__(self, lost: int) -> None:
            self.lost = lost

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: Any) -> Any:
            return 10 * index

        def __getitems__(self, indices: Any) -> Any:
            return [100 * i for i in indices[self.lost :]]

    class Half(torch.utils.data.Subset):
        def __getitem__(self, index: Any) -> Any:
            return index

    stack = torch.utils.data.StackDataset
    return each(
        lambda: stack(Many(0), [1, 2, 3, 4]).__getitems__([3, 0]),
        lambda: stack(a=Many(0), b=[1, 2, 3, 4]).__getitems__([3, 0]),
        lambda: stack(Many(1), [1, 2, 3, 4]).__getitems__([3, 0]),
        lambda: stack(Many(0), [1, 2, 3, 4]).__getitems__([4]),
        lambda: list(torch.utils.data.DataLoader(stack(Many(0), [1, 2, 3, 4]), batch_size=3)),
        lambda: Half([1, 2], [0]),
    )


@case
def after_an_error_the_next_batch_comes(torch: Any) -> Any:
    class Gaps(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> int:
            if index % 3 == 1:
                raise NotImplementedError(index)
            return index

    def walk(workers: int, start: Any = None) -> list[Any]:
        batches = iter(torch.utils.data.DataLoader(Gaps(), num_workers=workers, worker_init_fn=start))
        return each(*[lambda: next(batches).tolist()] * 7)

    return [walk(0), walk(2), walk(1, lambda number: 1 / 0)[:1]]


@case
def a_stream_that_is_longer_than_it_said(torch: Any) -> Any:
    class Stream(torch.utils.data.IterableDataset):
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Any:
            return iter(range(4))

    def walk(asked: bool, workers: int) -> list[int]:
        loader, seen = torch.utils.data.DataLoader(Stream(), num_workers=workers, persistent_workers=workers > 0), []
        if asked:
            seen.append(len(loader))
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                seen += [len(list(loader)), sum(issubclass(each.category, UserWarning) for each in caught)]
        return seen

    return [walk(False, 0), walk(True, 0), walk(True, 1)]


# --- distributions


@case
def shares_are_never_all_or_nothing(torch: Any) -> Any:
    seen = []
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        few = torch.full((), 1e-2, dtype=dtype)
        shares = torch.distributions.Beta(few, few).sample((300,))
        seen.append([shares.min(), shares.max() < 1])
    return seen


@case
def binomials_count_in_floats(torch: Any) -> Any:
    whole, half, double = torch.tensor([3]), torch.tensor([0.5]), torch.tensor([0.5], dtype=torch.float64)
    rare = torch.full((9,), 5e-324, dtype=torch.float64)
    torch.manual_seed(0)
    return each(
        lambda: torch.binomial(whole, half), lambda: torch.binomial(half, whole), lambda: torch.binomial(half, double),
        lambda: torch.binomial(torch.full_like(rare, 3.0), rare),
    )  # fmt: skip


# --- what is not here


@case
def flags_of_backends_are_contexts_and_decorators(torch: Any) -> Any:
    @torch.backends.cudnn.flags(enabled=False)
    def decorated() -> int:
        return 3

    switches = [torch.backends, torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn.matmul]
    for each in switches:  # programs of other tests may have asked for another precision
        each.fp32_precision = "none"
    with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(deterministic=True):
        return [decorated(), torch.cuda.is_tf32_supported(), *(each.fp32_precision for each in switches)]


@pytest.mark.parametrize("name", CASES)
def test_both_libraries_agree(torch: Any, quiet: Any, name: str) -> None:
    alike(plain(CASES[name](pellucid)), plain(CASES[name](torch)), name)


def test_a_window_of_no_size_is_refused() -> None:
    """PyTorch reads beside the array."""
    with pytest.raises(RuntimeError, match="kernel_size should be greater than zero"):
        pellucid.nn.functional.fractional_max_pool2d(pellucid.ones(1, 7, 7), 0, 3)


def test_halves_are_summed_in_single_precision() -> None:
    pellucid.manual_seed(0)
    x, g = (pellucid.randn(4, 256).bfloat16() for _ in range(2))
    grads = []
    for kind in (pellucid.bfloat16, pellucid.float32):
        a = x.to(kind).detach().requires_grad_()
        pellucid.log_softmax(a, -1).backward(g.to(kind))
        grads.append(a.grad.float().numpy())
    np.testing.assert_allclose(grads[0], grads[1], atol=0.02)
