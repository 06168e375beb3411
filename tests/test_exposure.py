"""Memory that NumPy shares: a write there is an error or harmless, never a wrong gradient, and it costs little."""

import array as pyarray
import gc
import os
import random
import weakref

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import aliasing, exposure
from pellucid.errors import InplaceError

# Looked at whole, looked at in part, marked by a copy, marked by sums, by sums on both cores, and of no whole words.
MIXTURES = 1000 if os.environ.get("PELLUCID_SOAK") else 25  # random programs in each of four tests
SHAPES = [(3,), (16, 16), (40, 50), (200, 121), (300, 1001), (70_003,)]


def shared(shape, dtype=np.float32, order="C"):
    array = np.asarray(np.random.default_rng(0).random(shape) + 0.5, dtype, order)
    return array, torch.from_numpy(array).requires_grad_()


def refused():
    return pytest.raises(InplaceError, match="NumPy")


# --- what is caught


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__((-1,) * a.ndim, 7),
        lambda a: a.__setitem__((0,) * a.ndim, 7),
        lambda a: np.negative(a, a),
        lambda a: np.multiply(a, 2, a),
        lambda a: a.reshape(-1)[::2].__imul__(-1),
        lambda a: a.reshape(-1).__setitem__(slice(None), a.reshape(-1)[::-1].copy()),
        lambda a: np.random.default_rng(2).shuffle(a.reshape(-1)),
        lambda a: a.reshape(-1).__setitem__([0, 1], a.reshape(-1)[[1, 0]]),
        lambda a: a.sort(axis=0),
    ],
    ids=["last", "first", "negative", "doubled", "signs", "reversed", "shuffled", "swapped", "sorted"],
)
def test_every_write_after_saving_is_caught(shape, dtype, write):
    array, x = shared(shape, dtype)
    loss = (x * x).sum()
    write(array)
    with refused():
        loss.backward()
    assert x.grad is None


@pytest.mark.parametrize("shape", SHAPES)
def test_any_single_element_counts(shape):
    generator = np.random.default_rng(2)
    array, x = shared(shape, np.float64)
    for _ in range(10):
        loss = (x * x).sum()
        place = tuple(generator.integers(0, shape))
        array[place] = np.nextafter(array[place], 9)
        with refused():
            loss.backward()


@pytest.mark.parametrize("shape", [(64, 1024), (60, 4096)])
def test_rows_that_change_places_are_seen(shape):
    array, x = shared(shape, np.float64)
    loss = (x * x).sum()
    array[[3, 5]] = array[[5, 3]]
    with refused():
        loss.backward()


def test_words_that_lie_between_two_words_are_read():
    array = np.frombuffer(bytearray(8 * 20_000 + 1), np.float64, offset=1)
    x = torch.from_numpy(array)
    loss = (x * torch.ones(20_000, dtype=torch.float64, requires_grad=True)).sum()
    array[7] = 1
    with refused():
        loss.backward()


def test_signs_that_change_everywhere_are_seen():
    array, x = shared((24 * exposure.LINE,), np.float64)  # two sums of twelve lines would not see it
    loss = (x * x).sum()
    np.negative(array, array)
    with refused():
        loss.backward()


VIEWS = {
    "t": lambda x: x.T,
    "rows": lambda x: x[1:],
    "columns": lambda x: x[:, ::2],
    "row": lambda x: x[3],
    "other row": lambda x: x[5],
    "flat": lambda x: x.reshape(-1),
    "permuted": lambda x: x.reshape(2, -1, 10).permute(2, 0, 1),
    "expanded": lambda x: x[3:4].expand(5, -1),
    "unsqueezed": lambda x: x.unsqueeze(0),
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
}


@pytest.mark.parametrize("shape", [(40, 50), (300, 1010)])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_shared_memory_are_watched_as_well(shape, name):
    array, x = shared(shape)
    factor = torch.tensor(2.0, requires_grad=True)
    seen = VIEWS[name](x)
    loss = (seen * factor).sum()
    array[3, 4] += 1
    if np.shares_memory(seen.detach().numpy(), array[3:4, 4:5]):
        with refused():
            loss.backward()
    else:
        loss.backward()
        assert factor.grad.item() == pytest.approx(array[5].sum(), rel=1e-5)


def test_a_write_between_two_walks_is_caught():
    for retain_graph in (False, True):
        array, x = shared((5,))
        first, second = (x * x).sum(), (x * x * 3).sum()
        first.backward(retain_graph=retain_graph)
        array[2] = 9
        for loss in (first, second) if retain_graph else (second,):
            with refused():
                loss.backward()


@pytest.mark.parametrize("shape", [(5,), (200, 121)])
def test_a_hook_that_writes_to_numpy_in_the_middle_of_a_walk_is_caught(shape):
    array, x = shared(shape)
    hidden = x * x
    result = hidden * 2

    def write(gradient):
        array[-1] = 9

    result.register_hook(write)
    with refused():
        result.sum().backward()


def test_a_custom_backward_that_writes_to_numpy_is_caught():
    array, x = shared((5,))

    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            array[0] = 9
            return gradient * 2

    loss = Writes.apply(x * x).sum()
    with refused():
        loss.backward()


def test_what_was_kept_before_and_after_it_was_handed_out_is_caught():
    own, w = torch.ones(5), torch.tensor(2.0, requires_grad=True)
    part = own[1:]
    before = (part * w).sum()
    outside = own.numpy()
    after = (part * w).sum()
    outside[2] = 7
    for loss in (after, before):
        with refused():
            loss.backward()


def test_the_result_of_an_in_place_operation_is_watched_as_well():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    outside = y.detach().numpy()
    y.exp_()  # keeps what it has written to memory that NumPy has seen before
    y.sum().backward(retain_graph=True)
    outside[0] = 5
    with refused():
        y.sum().backward()


def test_writing_in_place_to_what_numpy_shares_is_no_write_of_numpys():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    outside = y.detach().numpy()
    y.exp_()
    y.register_hook(lambda g: None)  # after a function of the user's every node is looked at
    other, weight = shared((3,))
    (y * weight).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), outside * other)


@pytest.mark.parametrize("shown", [lambda own: own[1:], lambda own: own[1:].T, lambda own: own.view(3, 2)])
def test_what_was_kept_before_a_part_of_it_was_handed_out_is_caught(shown):
    own, w = torch.ones(3, 2), torch.tensor(2.0, requires_grad=True)
    loss = (own * w).sum()
    outside = shown(own).numpy()
    outside[-1, -1] = 7
    with refused():
        loss.backward()


def test_our_own_write_between_two_nodes_is_told_from_one_by_numpy():
    array, x = shared((30, 40))
    w = torch.tensor(2.0, requires_grad=True)
    x = x.detach()
    first = (x * w).sum()
    x[0, 0] = 5.0
    second = (x * w).sum()
    second.backward(retain_graph=True)
    assert w.grad.item() == pytest.approx(array.sum())
    with pytest.raises(InplaceError, match="version"):
        first.backward()
    array[-1, -1] = 9
    with refused():
        second.backward()


def test_an_array_that_lives_in_a_weak_reference_is_not_ours():
    array = np.ones(3)
    alive = weakref.ref(array)
    x = torch.from_numpy(array).requires_grad_()
    del array
    loss = (x * x).sum()
    alive()[0] = 5
    with refused():
        loss.backward()


def test_a_write_before_the_second_derivative_is_caught():
    array, x = shared((5,))
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    array[1] = 9
    with refused():
        gradient.sum().backward()


def test_nodes_called_by_hand_and_saved_values_are_checked():
    array, x = shared((5,))
    node = (x * x).grad_fn
    node(torch.ones(5))
    array[0] = 9
    with refused():
        node(torch.ones(5))
    with refused():
        _ = node._saved_self


# --- what is no error


@pytest.mark.parametrize("shape", SHAPES)
def test_a_buffer_may_be_filled_again_between_steps(shape):
    buffer = np.zeros(shape, np.float64)
    x, w = torch.from_numpy(buffer), torch.tensor(2.0, requires_grad=True, dtype=torch.float64)
    evaluated = []
    for step in range(12):
        buffer[...] = step + 0.5
        w.grad = None
        if step % 3 == 1:
            evaluated.append(x * w)  # a graph that lives on and is never walked
        (x * w).sum().backward()
        assert w.grad.item() == pytest.approx(buffer.sum())
    with refused():
        evaluated[0].sum().backward()


@pytest.mark.parametrize("shape", SHAPES)
def test_evaluation_without_backward_leaves_nothing_behind(shape):
    buffer = np.zeros(shape, np.float64)
    x, w = torch.from_numpy(buffer), torch.tensor(2.0, requires_grad=True, dtype=torch.float64)
    kept = []
    for step in range(3):
        buffer[...] = step + 0.5
        kept.append(x * w)
    buffer[...] = 7
    (x * w).sum().backward()
    assert w.grad.item() == pytest.approx(buffer.sum())


@pytest.mark.parametrize("shape", [(64, 784), (64, 28, 28), (64, 1, 28, 28)])
def test_images_with_empty_borders_are_told_apart(shape):
    buffer = np.zeros(shape, np.float32)
    images, x = buffer.reshape(64, 28, 28), torch.from_numpy(buffer)
    w = torch.ones(shape[1:], requires_grad=True)
    for brightness in (1, 2):  # the first loss is never walked
        images[:, 10:18, 10:18] = brightness
        loss = (x * w).sum()
    loss.backward()
    assert w.grad.max().item() == 128


def test_one_changed_element_of_a_tiny_array_is_another_content():
    array, x = shared((5,), np.float64)
    before = (x * x).sum()
    array[3] = 4
    after = (x * x).sum()
    after.backward()
    assert x.grad.tolist() == (2 * array).tolist()
    with refused():
        before.backward()


@pytest.mark.parametrize("shape", [(6,), (300, 100)])
def test_parts_of_one_memory_are_told_apart(shape):
    array, x = shared(shape)
    first, second = (x[1:] * x[1:]).sum(), (x[:2] * x[:2]).sum()
    array[-1] = 9
    second.backward()
    with refused():
        first.backward()


def test_an_expanded_array_is_read_once():
    assert len(exposure.reader_of(np.broadcast_to(np.ones(3), (1000, 1000, 3)))()) == 24


@pytest.mark.parametrize("shape", SHAPES)
def test_writes_of_our_own_are_known_wherever_they_are(shape):
    array, x = shared(shape)
    (x * x).sum().backward(retain_graph=True)
    for place in ((0,) * len(shape), (-1,) * len(shape)):
        x.grad = None
        with torch.no_grad():
            x[place] += 1
        (x * x).sum().backward()
        assert np.allclose(x.grad.numpy(), 2 * array)


def test_parameters_from_numpy_are_trained():
    array, x = shared((200, 121))
    optimizer = torch.optim.SGD([x], lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (x * x).sum().backward()
        expected = array - 0.2 * array
        optimizer.step()
        assert np.allclose(array, expected, rtol=1e-6)


def test_more_contents_than_are_remembered_are_taken_to_differ():
    array, x = shared((3,))
    losses = []
    for step in range(3 * exposure.MOST_MARKS):
        array[:] = step % 2
        losses.append((x * x).sum())
    with refused():
        losses[1].backward()  # the content is the same, but that is no longer known
    losses[-1].backward()


# --- memory that stays as it is for many steps, and is compared as a whole then


def calm_down(x, steps=exposure.CALM + 3):
    """Steps in which nothing outside changes, after which nobody looks at single nodes."""
    for _ in range(steps):
        (x * x).sum().backward()
    x.grad = None


@pytest.fixture
def alone():
    """No other memory is exposed, so that what a test exposes is little."""
    gc.collect()
    for each in (
        aliasing.EXPOSED,
        exposure.KEPT,
        exposure.MARKED,
        exposure.RESTING,
        exposure.LENT,
        exposure.HANDED_OUT,
    ):
        each.clear()
    exposure.stir()


RESTING = {
    "all": lambda a, x: x,
    "view": lambda a, x: x[1:],
    "turned": lambda a, x: x.T,
    "detached": lambda a, x: x.detach(),
    "beside": lambda a, x: torch.from_numpy(a).requires_grad_(),
}


@pytest.mark.parametrize("own", [False, True], ids=["from_numpy", "numpy"])
@pytest.mark.parametrize("name", RESTING)
def test_a_write_after_many_calm_steps_is_caught(alone, name, own):
    array, x = shared((30, 40))
    if own:
        x = torch.tensor(array).requires_grad_()
        array = x.detach().numpy()
    calm_down(x)
    factor = torch.tensor(2.0, requires_grad=True)
    for _ in range(3):
        (x * factor).sum().backward()
    first = (x * factor).sum()
    assert exposure.resting
    loss = (RESTING[name](array, x) * factor).sum() + first
    array[-1, -1] += 1
    with refused():
        loss.backward()
    (RESTING[name](array, x) * factor).sum().backward()
    with refused():
        first.backward()


def test_writes_between_calm_steps_are_no_error(alone):
    array, x = shared((30, 40), np.float64)
    for step in range(40):
        if step % 13 == 12:
            array[step % 30] += 1
        x.grad = None
        (x * x).sum().backward()
        assert x.grad.numpy().tolist() == (2 * array).tolist()


def test_an_old_graph_is_refused_after_calm_steps(alone):
    array, x = shared((30, 40))
    calm_down(x)
    old = (x * x).sum()
    calm_down(x)
    kept = (x * x).sum()
    kept.backward(retain_graph=True)
    array[0, 0] = 9
    for loss in (old, kept):
        with refused():
            loss.backward()


def test_memory_that_comes_up_during_calm_steps_is_watched(alone):
    _array, x = shared((30, 40))
    calm_down(x)
    loss = (x * x).sum()
    assert exposure.resting
    other, y = shared((5,))
    loss = loss + (y * y).sum()
    other[2] = 9
    with refused():
        loss.backward()


def test_what_was_kept_at_rest_is_still_watched_when_something_else_comes_up(alone):
    array, x = shared((30, 40))
    calm_down(x)
    loss = (x * x).sum()
    assert exposure.resting
    shared((5,))
    assert not exposure.resting
    array[2, 2] = 9
    with refused():
        loss.backward()


def test_a_hook_that_writes_during_calm_steps_is_caught(alone):
    array, x = shared((5,))
    calm_down(x)
    hidden = x * x
    result = hidden * 2
    result.register_hook(lambda gradient: array.__setitem__(-1, 9))
    with refused():
        result.sum().backward()


def test_an_array_that_is_at_rest_is_freed_as_soon_as_its_tensor(alone):
    array, x = shared((30, 40))
    calm_down(x)
    died = weakref.ref(array)
    del array, x
    assert died() is None


def test_much_memory_is_not_compared_as_a_whole(alone):
    _array, x = shared((400, 303))
    calm_down(x, 30)
    loss = (x * x).sum()
    assert not exposure.resting
    loss.backward()


# --- any mixture of it


class Mixture:
    """Random steps over shared arrays; what nodes keep is copied, so that it is known what must be refused."""

    SHAPES = ((3,), (16,), (40, 50), (200, 121), (300,))

    def __init__(self, seed):
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.calm = self.random.random() < 0.6
        self.arrays, self.tensors, self.losses = [], [], []
        self.w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        self.refused_rightly = self.refused_wrongly = self.walked = 0
        for _ in range(self.random.randint(1, 4)):
            self.share()

    def chance(self, part):
        return self.random.random() < part

    def share(self):
        array = self.numbers.random(self.random.choice(self.SHAPES)) + 0.5
        if self.chance(0.6):
            tensor = torch.from_numpy(array)
        elif self.chance(0.5):
            tensor = torch.tensor(array)
            array = tensor.numpy()
        else:
            array = np.stack([array, array])[0]
            tensor = torch.from_numpy(array)
        self.arrays.append(array)
        self.tensors.append(tensor)

    def write(self):
        array = self.random.choice(self.arrays)
        if self.chance(0.4):
            array[...] = self.numbers.random(array.shape)
        elif self.chance(0.5):
            array[tuple(self.random.randrange(n) for n in array.shape)] += 1
        else:
            array *= 1.5

    def forward(self):
        loss, kept = 0, []
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(self.arrays))
            array, tensor = self.arrays[at], self.tensors[at]
            part = self.random.choice((lambda a: a, lambda a: a.T, lambda a: a[1:]))
            seen = part(array)
            kept.append((seen, seen.copy()))
            loss = loss + (part(tensor) * self.w).sum()
            if not self.calm and self.chance(0.08):
                self.write()
        self.losses.append((loss, kept))
        del self.losses[:-4]

    def backward(self, at):
        loss, kept = self.losses.pop(at)
        stale = any(not np.array_equal(seen, copy) for seen, copy in kept)
        self.w.grad = None
        try:
            loss.backward()
        except InplaceError:
            self.refused_rightly += stale
            self.refused_wrongly += not stale
            return
        assert not stale, "a write was not noticed"
        assert self.w.grad.item() == pytest.approx(sum(copy.sum() for _, copy in kept))
        self.walked += 1

    def step(self):
        which = self.random.random()
        rarely = not self.calm or self.chance(0.1)
        if which < 0.5:
            self.forward()
            if self.chance(0.75):
                if self.chance(0.15):
                    self.write()
                self.backward(-1)
        elif which < 0.55 and self.losses:
            self.backward(self.random.randrange(len(self.losses)))
        elif which < 0.65 and rarely:
            self.write()
        elif which < 0.7 and rarely and len(self.arrays) < 6:
            self.share()
        elif which < 0.73 and rarely and len(self.arrays) > 1:
            del self.arrays[0], self.tensors[0]
        elif which < 0.76 and rarely:
            with torch.no_grad():
                self.random.choice(self.tensors).mul_(1.01)
        elif which < 0.8:
            for _ in range(self.random.randint(5, 15)):
                self.forward()
                self.backward(-1)


@pytest.mark.parametrize("part", range(4))
def test_no_mixture_of_writes_and_walks_gives_a_wrong_gradient(alone, part):
    wrongly = walked = 0
    for seed in range(part * MIXTURES, (part + 1) * MIXTURES):
        mixture = Mixture(seed)
        for _ in range(100):
            mixture.step()
        wrongly, walked = wrongly + mixture.refused_wrongly, walked + mixture.walked
    assert wrongly < walked / 100  # what a look at some elements cannot tell, and parts of what we write to ourselves


# --- what it costs


def test_an_array_that_many_nodes_keep_is_read_twice_for_each_backward(monkeypatch):
    reads = []
    original = exposure.sums_of

    def counted(memory):
        read = original(memory)
        return lambda: (reads.append(1), read())[1]

    monkeypatch.setattr(exposure, "sums_of", counted)
    _array, x = shared((400, 303))
    for _ in range(3):
        reads.clear()
        y = torch.ones(400, 303)
        for _ in range(20):
            y = y * x
            y = (y.T * x.T).T
        y.sum().backward()
        assert len(reads) == 2


def test_memory_that_nobody_outside_holds_is_ours():
    held = np.ones(3)
    _beside = torch.from_numpy(held)
    exposed = len(aliasing.EXPOSED)
    x = torch.from_numpy(np.ones(3)).requires_grad_()
    loss = (x * x).sum()
    assert len(aliasing.EXPOSED) == exposed
    loss.backward()
    again = (x * x).sum()
    outside = x.detach().numpy()
    later = (x * x).sum()
    outside[0] = 5
    for kept in (later, again):
        with refused():
            kept.backward()


@pytest.mark.parametrize("length", [3, 20_000])
@pytest.mark.parametrize(
    "made",
    [
        lambda n: np.frombuffer(bytearray(8 * n), np.float64),
        lambda n: np.asarray(memoryview(np.zeros(n))),
        lambda n: np.ndarray((n,), np.float64, bytearray(8 * n)),
        lambda n: np.asarray(pyarray.array("d", bytes(8 * n))),
        lambda n: np.zeros(n)[:],
    ],
    ids=["frombuffer", "memoryview", "ndarray", "array", "view"],
)
def test_an_array_that_shows_the_memory_of_something_else_is_never_ours_alone(made, length):
    array = made(length)  # what it shows is held by nobody but the array
    w = torch.ones(length, dtype=torch.float64, requires_grad=True)
    loss = (torch.from_numpy(array) * w).sum()
    array[-1] = 1
    with refused():
        loss.backward()


def test_a_buffer_that_is_held_by_a_view_of_it_alone_is_not_ours():
    view = memoryview(bytearray(np.ones(3, np.float32).tobytes()))
    x = torch.frombuffer(view, dtype=torch.float32).requires_grad_()
    loss = (x * x).sum()
    view[3] = 0
    with refused():
        loss.backward()


def test_memory_of_a_buffer_is_never_ours_alone():
    buffer = bytearray(np.ones(3, np.float32).tobytes())
    x = torch.frombuffer(buffer, dtype=torch.float32).requires_grad_()
    loss = (x * x).sum()
    buffer[3] = 0
    with refused():
        loss.backward()


@pytest.mark.parametrize("shape", [(3,), (200, 121)])
def test_an_array_from_numpy_is_freed_as_soon_as_backward_has_used_it(shape):
    w = torch.tensor(2.0, requires_grad=True)
    for held in (True, False):
        array = np.ones(shape, np.float32)
        died = weakref.ref(array)
        x = torch.from_numpy(array)
        if not held:
            del array
        loss = (x * w).sum()
        loss.backward()
        array = None
        del x
        assert died() is None
        assert loss.item()


LEDGERS = (
    aliasing.EXPOSED, exposure.KEPT, exposure.MARKED, exposure.OURS, exposure.YOUNG, exposure.HANDED_OUT
)  # fmt: skip


def test_ledgers_forget_what_is_gone():
    gc.collect()
    before = [len(each) for each in LEDGERS]
    array, x = shared((3,))
    own = torch.ones(3)
    outside = own.numpy()
    loss = (x * x[1:].sum() * own).sum()
    temporary = torch.from_numpy(np.ones(3)) * x
    del array, x, own, outside, loss, temporary
    assert [len(each) for each in LEDGERS] == before
