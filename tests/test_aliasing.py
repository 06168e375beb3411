"""Stale saved values are caught, whichever way they were overwritten; unsaved ones may be (mission A7, A8, A10)."""

import gc
import sys

import numpy as np
import pytest

import pellucid as torch
from pellucid.core import aliasing
from pellucid.errors import InplaceError


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_overwriting_a_saved_result_names_both_lines():
    x = leaf()
    y = x.exp()  # saved here
    y.add_(1)  # overwritten here
    with pytest.raises(InplaceError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "backward of exp needs its result, but that was overwritten by add_" in text
    assert "y = x.exp()  # saved here" in text and "y.add_(1)  # overwritten here" in text
    assert x.grad is None


def test_overwriting_an_unsaved_value_works():
    x = leaf()
    y = x * 2
    y.add_(1)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_only_what_the_needed_rule_keeps_counts():
    x, factor = leaf(), torch.tensor([2.0, 2.0, 2.0])
    h = x * 1.0
    y = h * factor  # keeps factor only: h needs no saving
    h.mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_write_through_data_is_caught():
    x = leaf()
    y = x.exp()
    y.data[0] = 7.0
    with pytest.raises(InplaceError):
        y.sum().backward()


def test_write_through_detach_is_caught():
    x = leaf()
    y = x.exp()
    y.detach().zero_()
    with pytest.raises(InplaceError, match="zero_"):
        y.sum().backward()


def test_write_through_a_numpy_alias_taken_after_saving_is_caught():
    x = leaf()
    y = x.exp()
    alias = y.detach().numpy()
    alias[0] = 7.0
    with pytest.raises(InplaceError, match="NumPy"):
        y.sum().backward()


def test_write_through_a_numpy_alias_taken_before_saving_is_caught():
    array = np.ones(3, np.float32)
    t = torch.from_numpy(array)
    w = leaf()
    y = (t * w).sum()
    array[1] = 5.0
    with pytest.raises(InplaceError, match="NumPy"):
        y.backward()


def test_filling_a_shared_buffer_between_steps_is_fine():
    buffer = np.zeros(3, np.float32)
    t = torch.from_numpy(buffer)
    w = leaf()
    for step in range(3):
        buffer[:] = step
        w.grad = None
        (t * w).sum().backward()
        assert w.grad.tolist() == [step] * 3


def test_only_numpy_writes_after_saving_count():
    w, x = leaf(), torch.ones(4)
    outside = x[:3].numpy()
    outside[0] = 5.0  # before anything is saved
    loss = (w * x[:3]).sum()
    torch.zeros(1).add_(1)  # something else is written later
    loss.backward()
    assert w.grad.tolist() == [5, 1, 1]


def test_reading_through_numpy_costs_no_error():
    x = leaf()
    y = x.exp()
    assert y.detach().numpy().sum() > 0
    y.sum().backward()
    assert x.grad is not None


def test_parameter_update_between_forward_and_backward_is_caught():
    w = leaf()
    y = (w * w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(InplaceError, match="add_"):
        y.backward()


def test_ordinary_training_steps_are_not_disturbed():
    w = leaf()
    for _ in range(3):
        loss = (w * w).sum()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    assert torch.allclose(w, leaf() * 0.8**3)


def test_version_counter_is_shared_by_views_and_counts_writes():
    x = torch.zeros(4)
    view = x[1:]
    assert x._version == 0
    view.add_(1)
    x.mul_(2)
    assert x._version == view._version == x.detach()._version == 2


def test_the_ledger_forgets_dead_memory():
    gc.collect()
    before = len(aliasing.WRITES), len(aliasing.EXPOSED)
    x = torch.zeros(4)
    x.add_(1)
    x.numpy()
    assert len(aliasing.WRITES) == before[0] + 1
    del x
    assert (len(aliasing.WRITES), len(aliasing.EXPOSED)) == before


def test_gradients_of_two_leaves_never_share_memory():
    x, w = leaf(), leaf()
    (x + w).sum().backward()
    x.grad.mul_(10)
    assert w.grad.tolist() == [1, 1, 1]
    seed = torch.ones(3)
    y = leaf()
    (y + 0).backward(seed)
    y.grad.mul_(10)
    assert seed.tolist() == [1, 1, 1]


@pytest.mark.parametrize("traced", [False, True])
def test_a_fresh_gradient_is_not_copied(monkeypatch, traced):
    from pellucid.core import backward

    made = []
    original = backward.copied
    monkeypatch.setattr(backward, "copied", lambda g: made.append(g) or original(g))
    x = torch.ones(1000, requires_grad=True)
    loss = (x * x * 3.0).sum()
    before = sys.gettrace()
    sys.settrace((lambda *event: None) if traced else before)  # a debugger must not change what counts as held
    try:
        loss.backward()
    finally:
        sys.settrace(before)
    assert not made


def test_memory_given_to_numpy_is_marked_if_somebody_else_holds_it():
    def mark(tensor):
        whole = aliasing.EXPOSED[id(aliasing.owner_of(tensor.array))].whole
        return whole and whole.marks[0][1]

    x, held = torch.ones(3), torch.ones(3)
    product = leaf() * held
    x.numpy(), held.numpy()
    assert mark(x) is None
    assert mark(held) is not None
    assert product.requires_grad


def test_accumulation_keeps_the_gradient_object():
    x = leaf()
    (x * 2).sum().backward()
    grad = x.grad
    (x * 3).sum().backward()
    assert x.grad is grad and grad.tolist() == [5, 5, 5]


def test_accumulation_beside_a_gradient_with_a_graph():
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7, 9] and first.requires_grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad.tolist() == [7, 11, 15] and x.grad.requires_grad
    x.grad = None


def test_a_view_taken_before_requires_grad_stays_without():
    x = torch.ones(3)
    view = x[:2]
    x.requires_grad_()
    assert not (view * 2).requires_grad and x[:2].requires_grad


# --- writes by way of .data, which PyTorch's version counter does not see


def test_writes_to_other_parts_by_way_of_data_spoil_nothing():
    """As torchdiffeq's solvers do: what was saved of a buffer stays right when its other columns are filled."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    buffer = x[:, None] * torch.ones(2, 3)
    y = buffer[:, :1] * buffer[:, :1] * 3
    for column in (1, 2) * 10:
        buffer.data[:, column] = 7.0
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_only_writes_after_saving_count():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    buffer = x[:, None] * torch.ones(2, 3)
    buffer.data[:, 0] = 5.0
    y = buffer[:, :1] * buffer[:, :1]
    buffer.data[:, 1] = 7.0
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


def test_parts_that_are_too_hard_to_compare_count_as_shared(monkeypatch):
    def too_hard(*_, **__):
        raise np.exceptions.TooHardError

    def loss_after_a_write_between():
        x = torch.ones(4, requires_grad=True)
        buffer = x[:, None] * torch.ones(4, 6)
        y = buffer[:, ::3] * buffer[:, ::3]
        buffer.data[:, 1::3] = 7.0
        return y.sum()

    loss_after_a_write_between().backward()
    monkeypatch.setattr(np, "shares_memory", too_hard)
    with pytest.raises(InplaceError):
        loss_after_a_write_between().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda b: b.data.__setitem__((slice(None), 0), 7.0),
        lambda b: b.data.__setitem__((slice(None), 1), 7.0) or b.data.__setitem__(0, 7.0),
        lambda b: b.data.__setitem__(0, 7.0) or b.data.__setitem__((slice(None), 1), 7.0),
        lambda b: b.data.zero_(),
        lambda b: (b.data.zero_(), b.data.__setitem__((slice(None), 1), 7.0)),
        lambda b: b[:, 1].detach().zero_(),  # a version counter sees this one
        lambda b: b[:, 1].mul_(2),
    ],
)
def test_writes_to_the_saved_part_are_caught(write):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    buffer = x[:, None] * torch.ones(2, 3)
    y = buffer[:, :1] * buffer[:, :1]
    write(buffer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_many_parts_are_remembered_together():
    x = torch.ones(2, requires_grad=True)
    buffer = x[:, None] * torch.ones(2, 200)
    y = buffer[:, :1] * buffer[:, :1]
    buffer.data[:, 0] = 7.0
    for column in range(1, 200):
        buffer.data[:, column] = 7.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.unbind()[0],
        lambda x: x.split(1)[0],
        lambda x: torch.no_grad()(lambda: x[0])(),
        lambda x: x.unbind()[0][:1],
    ],
)
def test_a_view_whose_base_could_not_follow_takes_no_recorded_values(view):
    weight = torch.ones(1, requires_grad=True)
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="cannot be modified in place"):
        view(x).add_(weight)
    view(x).add_(1)
    assert x[0, 0].item() == 1.0 and not x.requires_grad


def test_data_of_a_tensor_with_gradient_stays_floating():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = torch.tensor([1, 2])
    x.data = torch.zeros(2)
    assert x.tolist() == [0.0, 0.0]


# --- other memory for a tensor


def other_memory(view):
    view.data = torch.full((3,), 2.0)


def other_source(view):
    view.set_(torch.full((3,), 2.0))


def other_tensor(view):
    torch.utils.swap_tensors(view, torch.full((3,), 2.0))


@pytest.mark.parametrize("give", [other_memory, other_source, other_tensor])
def test_a_view_that_is_given_other_memory_is_a_view_no_longer(give):
    base, weight = torch.ones(3), torch.tensor(5.0, requires_grad=True)
    view = base[:]
    give(view)
    view[:2] = weight
    assert view.tolist() == [5.0, 5.0, 2.0] and view.sum().item() == 12.0
    assert base.tolist() == [1.0, 1.0, 1.0] and not base.requires_grad
    base.mul_(3)
    (view * view).sum().backward()
    assert view.tolist() == [5.0, 5.0, 2.0] and weight.grad.item() == 20.0


@pytest.mark.parametrize("give", [other_memory, other_source, other_tensor])
def test_a_view_keeps_its_memory_when_its_base_is_given_other(give):
    base, weight = torch.ones(3), torch.tensor(5.0, requires_grad=True)
    view = base[:]
    give(base)
    base[:2] = weight
    assert base.tolist() == [5.0, 5.0, 2.0] and view.tolist() == [1.0, 1.0, 1.0] and not view.requires_grad
    part = view[1:]
    part.add_(1)
    assert view.tolist() == [1.0, 2.0, 2.0] and base.tolist() == [5.0, 5.0, 2.0]
    for orphan in (view, part):
        with pytest.raises(RuntimeError, match="has been given other memory since"):
            orphan.mul_(weight)
    base.sum().backward()
    assert weight.grad.item() == 2.0


def test_other_memory_for_a_view_with_a_history():
    x = leaf()
    y = x * 1
    view = y[:2]
    view.data = torch.tensor([7.0, 8.0])
    view.mul_(3)
    assert view.tolist() == [21.0, 24.0] and y.tolist() == [1.0, 2.0, 3.0]
    (view.sum() + y.sum()).backward()
    assert x.grad.tolist() == [4.0, 4.0, 1.0]


# --- every way of writing by way of .data


@pytest.mark.parametrize(
    "write",
    [
        lambda part: part.add_(1),
        lambda part: part.mul_(torch.ones(2)),
        lambda part: part.copy_(torch.zeros(2)),
        lambda part: part.fill_(3),
        lambda part: part.zero_(),
        lambda part: part.normal_(),
        lambda part: part.sigmoid_(),
        lambda part: part.clamp_(0, 1),
        lambda part: part.masked_fill_(torch.tensor([True, False]), 0.0),
        lambda part: part.__setitem__(slice(None), 5.0),
        lambda part: part.__setitem__(0, 5.0),
        lambda part: part.__setitem__(torch.tensor([1, 0]), 5.0),
        lambda part: part.__setitem__(torch.tensor([True, False]), 5.0),
        lambda part: part.index_add_(0, torch.tensor([1]), torch.ones(1)),
        lambda part: torch.add(torch.ones(2), 1, out=part),
    ],
)
@pytest.mark.parametrize("recorded", [True, False], ids=["of a result", "of a constant"])
def test_a_write_to_a_view_of_data_spoils_nothing_else(recorded, write):
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    w = x * 1 if recorded else torch.tensor([1.0, 2.0, 3.0, 4.0])
    y = w[2:] * x[2:]
    write(w.data[:2])
    y.sum().backward()
    assert x.grad.tolist() == ([0.0, 0.0, 6.0, 8.0] if recorded else [0.0, 0.0, 3.0, 4.0])
    y = w[1:] * x[1:]
    write(w.data[2:])
    with pytest.raises(InplaceError):
        y.sum().backward()


def test_a_leaf_that_is_detached_in_place_gets_no_gradient_from_graphs_of_before():
    x = leaf()
    y = x[:] * 3
    x.detach_()
    y.sum().backward(retain_graph=True)
    assert x.grad is None
    x.requires_grad_()
    (y + x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
