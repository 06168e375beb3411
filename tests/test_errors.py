"""Errors teach: the operation, the shapes and dtypes, the user's line, the way out; and nothing is changed by them."""

import re

import numpy as np
import pytest

import pellucid as torch
from pellucid.core.backward import fold
from pellucid.core.primitive import TABLE, edges_of, register
from pellucid.core.provenance import here


def message(run, kind=RuntimeError):
    with pytest.raises(kind) as caught:
        run()
    return str(caught.value)


def test_broadcast_error_names_operation_shapes_axis_and_line():
    a, b = torch.ones(2, 3), torch.ones(2, 4)
    text = message(lambda: a + b)  # this line
    assert "add: cannot take (2, 3) torch.float32 and (2, 4) torch.float32" in text
    assert (
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1".lower()
        in text.lower()
    )
    assert "# this line" in text and "test_errors.py" in text and "try:" in text


@pytest.mark.parametrize(("shape", "dim"), [((4, 3, 6, 6), 50), ((4, 3, 6, 6), -50), ((), 10)])
def test_a_dimension_out_of_range_is_said_in_pytorchs_words_and_the_line_in_a_note(shape, dim):
    with pytest.raises(IndexError) as caught:
        torch.squeeze(torch.ones(shape), dim)  # this line
    low, high = -(len(shape) or 1), (len(shape) or 1) - 1
    words = f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
    assert str(caught.value) == words, "tests of other libraries compare the text with their own"
    (note,) = caught.value.__notes__
    assert "# this line" in note and f"the tensor has {len(shape)} dimensions" in note


def test_matmul_error_suggests_the_transpose_that_fits():
    a, b = torch.ones(2, 3), torch.ones(4, 3)
    text = message(lambda: a @ b)
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x3)" in text
    assert "b.mT" in text


def test_matmul_dtype_error():
    assert "same dtype" in message(lambda: torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64))


def test_non_scalar_backward():
    x = torch.ones(3, requires_grad=True)
    text = message(lambda: (x * 2).backward())
    assert "grad can be implicitly created only for scalar outputs" in text and "(3,)" in text and ".sum()" in text


def test_second_backward_names_the_first_backward_and_the_operation():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()  # recorded here
    loss.backward()  # first here
    text = message(loss.backward)
    assert "Trying to backward through the graph a second time" in text
    assert "# first here" in text and "# recorded here" in text


def test_of_two_backwards_the_one_is_named_that_took_the_values():
    x = torch.ones(3, requires_grad=True)
    shared = x * x  # recorded here
    shared.sum().backward()  # first here
    loss = (shared * 2).exp().sum()  # whose own values are gone when the walk gets to those of the product
    text = message(loss.backward)
    assert "MulBackward0 has given its saved values back" in text
    assert "# first here" in text and "# recorded here" in text


def test_a_graph_without_saved_values_may_be_walked_twice():
    x = torch.ones(3, requires_grad=True)
    loss = (x + 1).sum()
    loss.backward()
    loss.backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("cut", "name"),
    [
        (lambda x: x.detach() * 2, "detach"),
        (lambda x: x.data * 2, "data"),
        (lambda x: x.argmax() * 1.0, "argmax"),
        (lambda x: (x > 0).float(), "gt"),
        (lambda x: x.long().float(), "cast"),
    ],
)
def test_no_graph_names_the_cut(cut, name):
    x = torch.ones(3, requires_grad=True)
    y = cut(x)
    text = message(lambda: y.sum().backward())
    assert "does not require grad and does not have a grad_fn" in text
    assert f"cut by {name}" in text and "test_errors.py" in text


@pytest.mark.parametrize(
    ("leave", "name"),
    [
        (lambda y: torch.tensor(y.tolist()).sum(), "tolist"),
        (lambda y: torch.tensor(y.sum().item()), "item"),
        (lambda y: torch.from_numpy(y.detach().numpy()).sum(), "numpy"),
        (lambda y: torch.tensor([float(part) for part in y]).sum(), "float"),
    ],
)
def test_no_graph_names_the_line_where_numbers_left_it(leave, name):
    x = torch.ones(3, requires_grad=True)
    loss = leave(x * 2)
    assert re.search(rf"left the graph by {name}(\(\))? of \w+ at {__file__}", message(lambda: loss.backward()))
    (x * 2).sum().backward()
    assert name not in message(lambda: loss.backward())  # what came before a backward was for that one


def test_no_graph_names_the_no_grad_block():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():  # the block
        y = x * 2
    assert "# the block" in message(lambda: y.sum().backward())


def test_no_graph_in_a_hook_or_a_custom_function_says_that_nothing_is_recorded_there():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            torch.autograd.grad((x * x).sum(), x)

    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: (x * x).sum().backward())
    for loss in (y.sum(), Inner.apply(x).sum()):
        text = message(lambda loss=loss: loss.backward())
        assert "nothing is recorded: in a hook" in text and "enable_grad" in text


def test_no_graph_without_any_parameter():
    assert "no tensor that requires grad took part" in message(lambda: torch.ones(3).sum().backward())


def test_leaf_in_place():
    x = torch.ones(3, requires_grad=True)
    text = message(lambda: x.add_(1))
    assert "a leaf Variable that requires grad is being used in an in-place operation" in text and "no_grad" in text
    assert x.tolist() == [1, 1, 1]


def test_in_place_on_a_view_of_a_leaf():
    x = torch.ones(3, requires_grad=True)
    assert "a view of a leaf Variable" in message(lambda: x[0].add_(1))


def test_in_place_on_views_that_the_graph_cannot_follow():
    y = torch.ones(3, requires_grad=True) * 2
    assert "one of several views that" in message(lambda: y.unbind()[0].add_(1))
    assert "one of several views that" in message(lambda: y[:, None].unbind()[0][:1].add_(1))  # a view of such a view
    with torch.no_grad():
        view = y[:1]
    assert "made under no_grad" in message(lambda: view.add_(1))
    assert y.tolist() == [2, 2, 2]


def test_failed_in_place_operations_leave_the_tensor_as_it_was():
    x = torch.zeros(2)
    assert "doesn't match the broadcast shape" in message(lambda: x.add_(torch.ones(3, 2)))
    assert "can't be cast" in message(lambda: torch.ones(2, dtype=torch.int64).add_(1.5))
    message(lambda: x.mul_(torch.ones(3)))
    message(lambda: x[:1].add_(torch.ones(3)))
    message(lambda: x.__setitem__(slice(None), torch.ones(3)))
    assert x.tolist() == [0, 0] and x._version == 0


# --- what is written in place and does not fit: every way to write, every shape, in every mode

TARGETS = [(), (1,), (3,), (0,), (2, 3), (1, 3), (3, 1), (1, 1)]
VALUES = [(), (1,), (3,), (0,), (4,), (1, 1), (1, 3), (2, 3), (1, 1, 3), (2, 2, 3), (1, 1, 1)]
BROADCASTING = {  # a way to write -> that write, which broadcasts its value with the tensor
    **{name: lambda x, v, name=name: getattr(x, name)(v) for name in (
        "add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "pow_",
        "__ifloordiv__", "__imod__", "fmod_", "remainder_", "eq_", "ne_", "lt_", "le_", "gt_", "ge_", "copysign_",
        "atan2_", "hypot_", "nextafter_", "xlogy_", "clamp_", "clamp_min_", "clamp_max_", "clip_",
        "logical_and_", "logical_or_", "logical_xor_", "true_divide_", "floor_divide_", "copy_",
    ) if hasattr(torch.Tensor, name)},
    "add_ alpha": lambda x, v: x.add_(v, alpha=2),
    "lerp_": lambda x, v: x.lerp_(v, 0.5),
    "addcmul_": lambda x, v: x.addcmul_(v, v),
    "addcdiv_": lambda x, v: x.addcdiv_(v, v),
    "data": lambda x, v: x.data.add_(v),
    "detach": lambda x, v: x.detach().mul_(v),
    "view": lambda x, v: x[...].add_(v),
    "_foreach_add_": lambda x, v: torch._foreach_add_([x], [v]),
    "_foreach_copy_": lambda x, v: torch._foreach_copy_([x], [v]),
}  # fmt: skip
EXPANDING = {  # a way to write -> that write, which only expands its value: other words
    "x[...]": lambda x, v: x.__setitem__(..., v),
    "x[0]": lambda x, v: x.__setitem__(0, v),
    "x[[0]]": lambda x, v: x.__setitem__([0], v),
    "x[mask]": lambda x, v: x.__setitem__(torch.ones(x.shape, dtype=torch.bool), v),
    "index_put_": lambda x, v: x.index_put_((torch.tensor([0]),), v),
    "index_put_ accumulate": lambda x, v: x.index_put_((torch.tensor([0]),), v, accumulate=True),
    "masked_fill_": lambda x, v: x.masked_fill_(torch.ones(v.shape, dtype=torch.bool), 2.0),
    "index_add_": lambda x, v: x.index_add_(0, torch.tensor([0]), v),
    "index_copy_": lambda x, v: x.index_copy_(0, torch.tensor([0]), v),
    "index_reduce_": lambda x, v: x.index_reduce_(0, torch.tensor([0]), v, "prod"),
    "scatter_": lambda x, v: x.scatter_(0, torch.zeros(x.shape, dtype=torch.int64), v),
    "bernoulli_": lambda x, v: x.bernoulli_(v * 0.25),
}


def written(write, shape, value, how):
    """A tensor of ones after an attempt to write to it, its version before, and the error."""
    x, v = torch.ones(shape), torch.full(value, 2.0)
    if how == "recorded":
        x = torch.ones(shape, requires_grad=True) * 1
    elif how == "recorded value":
        v.requires_grad_()
    before, problem = x._version, None
    try:
        with torch.set_grad_enabled(how != "no_grad"):
            write(x, v)  # this line
    except Exception as error:
        problem = error
    return x, before, problem


def fits_into(value, shape):
    try:
        return np.broadcast_shapes(value, shape) == shape
    except ValueError:
        return False


@pytest.mark.parametrize("how", ["plain", "recorded", "recorded value", "no_grad"])
@pytest.mark.parametrize("way", BROADCASTING)
def test_a_value_that_would_broadcast_the_written_tensor_is_refused_in_pytorchs_words(way, how):
    for shape in TARGETS:
        for value in VALUES:
            x, version, problem = written(BROADCASTING[way], shape, value, how)
            if fits_into(value, shape):
                assert problem is None or "cast" in str(problem), (shape, value, problem)
                continue
            assert type(problem) is RuntimeError, (shape, value, problem)
            text = "\n".join([str(problem), *getattr(problem, "__notes__", ())])
            assert "test_errors.py" in text, (shape, value, text)
            try:
                larger = np.broadcast_shapes(value, shape)
            except ValueError:
                words = "must match the size of tensor b", f"cannot take {shape} torch.float32 and {value}"
                assert any(word in text for word in words), (shape, value, text)
            else:
                assert f"output with shape {list(shape)} doesn't match the broadcast shape {list(larger)}" in text
            assert tuple(x.shape) == shape and (x == 1).all() and x._version == version


@pytest.mark.parametrize("how", ["plain", "recorded", "recorded value", "no_grad"])
@pytest.mark.parametrize("way", EXPANDING)
def test_a_write_that_fails_for_its_shapes_is_explained_and_changes_nothing(way, how):
    refused = 0
    for shape in TARGETS:
        for value in VALUES:
            x, version, problem = written(EXPANDING[way], shape, value, how)
            if problem is not None:
                refused += 1
                assert type(problem) in (RuntimeError, IndexError), (shape, value, problem)
                assert "test_errors.py" in "\n".join([str(problem), *getattr(problem, "__notes__", ())])
                assert tuple(x.shape) == shape and (x == 1).all() and x._version == version
    assert refused


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("way", EXPANDING)
def test_which_shapes_may_be_written_is_as_in_pytorch(way, monkeypatch):
    oracle = pytest.importorskip("torch")
    cases = [(shape, value) for shape in TARGETS for value in VALUES if 0 not in shape + value]
    ours = [written(EXPANDING[way], *case, "plain")[2] is None for case in cases]
    monkeypatch.setitem(globals(), "torch", oracle)
    theirs = [written(EXPANDING[way], *case, "plain")[2] is None for case in cases]
    assert [case for case, a, b in zip(cases, ours, theirs, strict=True) if a != b] == []


def test_what_is_read_and_written_at_once_is_refused():
    for target, source in ((lambda x: x, lambda x: x[0]), (lambda x: x[0], lambda x: x.view(4)[1:3])):
        x = torch.tensor([[2.0, 3.0], [4.0, 5.0]])
        assert "some elements of the input tensor and the written-to tensor" in message(
            lambda x=x, t=target, s=source: t(x).mul_(s(x))
        )
        assert x.tolist() == [[2, 3], [4, 5]]
    x = torch.tensor([2.0, 3.0])
    assert x[:].mul_(x).tolist() == [4, 9]  # the very same elements
    y = torch.ones(2, 2)
    assert y.mul_(x).tolist() == [[4, 9], [4, 9]] and y.mul_(torch.tensor([2.0])).tolist() == [[8, 18], [8, 18]]


def test_rows_that_the_table_cannot_read_are_refused():
    assert repr(TABLE["exp"]) == "<primitive exp>"
    assert "already a primitive called exp" in message(lambda: register(TABLE["exp"]), ValueError)
    assert "one by one" in message(lambda: edges_of((lambda g, *kept: g,)), TypeError)


def test_a_loss_must_be_real_and_inputs_some():
    z = torch.tensor(1 + 2j, requires_grad=True)
    assert "only for real scalar outputs" in message((z * z).backward)
    x = torch.ones(2, requires_grad=True)
    assert "cannot be empty" in message(lambda: x.sum().backward(inputs=[]))
    torch.autograd.backward([])  # of nothing: nothing
    (x * x).sum().backward(inputs=x)  # one tensor need not be in a list
    assert x.grad.tolist() == [2, 2]
    y = x.double() * 3
    y.backward(torch.ones(2))  # a gradient of another dtype
    assert x.grad.tolist() == [5, 5] and x.grad.dtype == torch.float32


def test_grad_data_and_detach_refuse_what_cannot_be():
    x = torch.ones(2)
    assert "as its own grad" in message(lambda: setattr(x, "grad", x)) and x.grad is None
    assert "data must be set to a Tensor" in message(lambda: setattr(x, "data", [1.0]), TypeError)
    y = torch.ones(2, requires_grad=True) * 2
    assert "Can't detach views in-place" in message(y[:1].detach_) and y.requires_grad
    x.grad = torch.ones(2)
    del x.grad
    assert x.grad is None
    z = torch.tensor([1.0, 2.0], requires_grad=True)
    (z * (1 + 2j)).real.sum().backward()
    assert z.grad.dtype == torch.float32 and z.grad.tolist() == [1, 1]  # of a real tensor it is real
    memo = {}
    assert x.__deepcopy__(memo) is x.__deepcopy__(memo) is not x
    leaf = torch.ones(2, requires_grad=True)
    leaf.retain_grad()  # a leaf has its gradient anyway
    assert leaf.retains_grad is False


def test_a_rule_that_returns_another_shape_is_named():
    node = (torch.ones(2, requires_grad=True) * 2).grad_fn  # made here
    for shape in ((3,), (2, 2, 3), ()):
        text = message(lambda shape=shape: fold(np.ones(shape), (2, 2), node))
        assert f"MulBackward0 returned a gradient of shape {shape} for an input of shape (2, 2)" in text
        assert "# made here" in text


def test_an_operation_that_a_dtype_lacks():
    z = torch.tensor([1 + 2j])
    assert "\"atan2_cpu\" not implemented for 'ComplexFloat'" in message(lambda: torch.atan2(z, z), NotImplementedError)
    assert "expected a Tensor, got str" in message(lambda: torch.lerp(torch.ones(2), torch.ones(2), "a"), TypeError)


def test_expanded_tensors_refuse_in_place():
    assert "single memory location" in message(lambda: torch.zeros(1).expand(3).add_(1))


def test_outputs_are_checked_before_anything_is_written():
    x, good, shared = torch.tensor([3.0, 1.0]), torch.zeros(2), torch.zeros(1)
    assert "single memory location" in message(lambda: torch.exp(x, out=shared.expand(2)))
    assert "single memory location" in message(lambda: torch.frexp(x, out=(good, shared.int().expand(2))))
    assert "can't be cast" in message(lambda: torch.exp(x, out=torch.zeros(2, dtype=torch.int64)))
    assert "must be 1 Tensor(s), not (list)" in message(lambda: torch.exp(x, out=([0.0, 0.0],)), TypeError)
    assert shared.tolist() == [0] and good.tolist() == [0, 0]


def test_integers_do_not_require_grad():
    assert "floating point and complex" in message(lambda: torch.ones(2, dtype=torch.int64).requires_grad_())


def test_requires_grad_of_a_computed_tensor_cannot_be_switched_off():
    y = torch.ones(2, requires_grad=True) * 2  # computed here
    text = message(lambda: y.requires_grad_(False))
    assert "leaf variables" in text and "# computed here" in text


def test_numpy_of_a_tensor_that_requires_grad():
    x = torch.ones(2, requires_grad=True)
    assert "detach().numpy()" in message(x.numpy)


def test_bool_of_several_elements():
    assert "ambiguous" in message(lambda: bool(torch.ones(2)))


def test_index_errors():
    x = torch.ones(2, 3)
    assert "out of bounds" in message(lambda: x[5], IndexError) or "out of range" in message(lambda: x[5], IndexError)
    assert "dimension" in message(lambda: x.sum(5), IndexError).lower()
    assert "too many indices" in message(lambda: x[0, 0, 0], IndexError)


def test_device_errors_say_what_to_change():
    assert "cpu" in message(lambda: torch.ones(2, device="cuda"), AssertionError).lower()
    assert torch.ones(2).to("cpu").device == torch.device("cpu")


def test_grad_must_fit():
    x = torch.ones(2, requires_grad=True)

    def assign(value):
        x.grad = value

    assert "a gradient of size" in message(lambda: assign(torch.ones(3)))
    assert "a gradient with dtype" in message(lambda: assign(torch.ones(2, dtype=torch.float64)))
    assert "expected to be a Tensor" in message(lambda: assign(1.0), TypeError)


def test_non_leaf_grad_warns_with_the_line():
    y = torch.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert y.grad is None


def test_wrong_shape_of_a_given_gradient():
    y = torch.ones(2, requires_grad=True) * 2
    assert "Mismatch in shape" in message(lambda: y.backward(torch.ones(3)))
    assert "gradients can be either Tensors or None" in message(lambda: y.backward(1.0), TypeError)


def test_provenance_is_the_users_line_also_through_our_own_functions():
    x = torch.ones(2, 2, requires_grad=True)
    y = x.var()  # a composite or fused operation of ours
    assert y.grad_fn.place.filename == __file__
    assert "a composite or fused" in y.grad_fn.place.source
    assert here().filename == __file__


def test_a_computed_tensor_is_pickled_without_its_history_and_not_copied_deeply():
    import copy
    import pickle

    y = torch.ones(2, requires_grad=True) * 2
    assert "graph leaves" in message(lambda: copy.deepcopy(y))
    assert "where: " + __file__ in message(lambda: copy.deepcopy([y]))  # not a line of copy.py
    saved = pickle.loads(pickle.dumps(y))
    assert saved.requires_grad and saved.is_leaf and saved.tolist() == [2, 2]
    x = torch.ones(2, requires_grad=True)
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert twin.requires_grad and twin.tolist() == [1, 1] and twin.array is not x.array


def test_no_message_moves_the_terminals_cursor():
    """T51: a file or a module may be called anything."""
    program = "x = torch.ones(2)\nx.reshape(5)"
    with pytest.raises(RuntimeError) as caught:
        exec(compile(program, "\x1b[31mred\x07.py", "exec"), {"torch": torch})
    assert "\x1b" not in str(caught.value) and "[31mred.py" in str(caught.value)


def test_no_explanation_moves_the_terminals_cursor():
    program = "x = torch.ones(2, requires_grad=True)\ny = (x * 2).sum()\nz = x.detach() * x"
    names = {"torch": torch}
    exec(compile(program, "\x1b[31mred\x07.py", "exec"), names)

    class Layer(torch.nn.Linear):
        pass

    Layer.__name__ = "\x1b[2J"
    texts = [
        str(torch.explain(names["y"], names["x"])),
        str(torch.why(names["x"])),
        str(torch.summary(Layer(2, 2), torch.ones(1, 2))),
    ]
    assert not [text for text in texts if "\x1b" in text or "\x07" in text]


def test_a_strangers_operator_is_asked():
    class Stranger:
        def __radd__(self, other):
            return "added"

        def __rmatmul__(self, other):
            return "multiplied"

    assert torch.ones(2) + Stranger() == "added" and torch.ones(2) @ Stranger() == "multiplied"
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*: 'Tensor' and 'Stranger'"):
        torch.ones(2) * Stranger()
    for function in (torch.add, torch.mul, torch.matmul):  # functions ask nobody
        with pytest.raises(TypeError, match="not Stranger"):
            function(torch.ones(2), Stranger())


# --- mistakes that are made every day: the message shows the way out

F = torch.nn.functional
SCORES = torch.ones(4, 3)


class Unready(torch.nn.Module):
    def __init__(self):
        self.layer = torch.nn.Linear(2, 3)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [torch.nn.Linear(2, 2)]


MISTAKES = {
    "a target of floats": (lambda: F.cross_entropy(SCORES, torch.ones(4)), RuntimeError, "target.long()"),
    "classes from 1": (lambda: F.cross_entropy(SCORES, torch.tensor([1, 2, 3, 1])), IndexError, "from 0"),
    "a column of targets": (lambda: F.cross_entropy(SCORES, torch.zeros(4, 1).long()), RuntimeError, "squeeze(1)"),
    "one-hot targets": (lambda: F.cross_entropy(SCORES, torch.zeros(4, 3).long()), RuntimeError, "argmax(1)"),
    "logits for chances": (
        lambda: F.binary_cross_entropy(torch.tensor([1.5]), torch.ones(1)),
        RuntimeError,
        "_with_logits",
    ),
    "a column of chances": (
        lambda: F.binary_cross_entropy(torch.ones(4, 1), torch.ones(4)),
        ValueError,
        "target.view_as(input)",
    ),
    "a loss called at once": (
        lambda: torch.nn.CrossEntropyLoss(SCORES, torch.tensor([0, 1, 2, 1])),
        RuntimeError,
        "CrossEntropyLoss()(input",
    ),
    "numbers of NumPy": (
        lambda: torch.nn.Linear(3, 2)(torch.ones(2, 3, dtype=torch.float64)),
        RuntimeError,
        "x.float()",
    ),
    "no super().__init__()": (Unready, AttributeError, "Unready.__init__ has not called super().__init__() yet"),
    "no forward": (lambda: torch.nn.Module()(1), NotImplementedError, "def forward(self, x)"),
    "layers in a list": (lambda: torch.optim.SGD(Layers().parameters(), 0.1), ValueError, "nn.ModuleList"),
    "another size in the file": (
        lambda: torch.nn.Linear(2, 3).load_state_dict(torch.nn.Linear(4, 3).state_dict()),
        RuntimeError,
        "build the model with the sizes in the file",
    ),
    "ragged batches": (lambda: torch.stack([torch.ones(2), torch.ones(3)]), RuntimeError, "pad_sequence"),
    "no room": (lambda: torch.ones(2, 3).view(4, 2), RuntimeError, "has room for 8 elements, not for 6"),
    "no such class": (
        lambda: F.one_hot(torch.tensor([3]), 3),
        RuntimeError,
        "the largest is 3, num_classes is 3",
    ),
    "no data": (
        lambda: torch.utils.data.DataLoader([], shuffle=True),
        ValueError,
        "the dataset is empty: its length is 0",
    ),
    "heads": (lambda: torch.nn.MultiheadAttention(10, 3), AssertionError, "10 is not by 3"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_everyday_mistakes_are_told_the_way_out(mistake):
    run, kind, told = MISTAKES[mistake]
    assert told in message(run, kind)


def test_a_text_is_not_taken_for_a_pickle(tmp_path):
    (tmp_path / "notes.pt").write_text("hello world")
    text = message(lambda: torch.load(tmp_path / "notes.pt"), torch.serialization.UnpicklingError)
    assert "it is neither a zip archive nor PyTorch's older format" in text and "weights_only=False" not in text


class Pictures:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        raise KeyError(f"picture {i}")


def test_the_error_of_a_worker_is_shown_in_lines():
    text = message(lambda: list(torch.utils.data.DataLoader(Pictures(), num_workers=1)), KeyError)
    assert "\nKeyError: 'picture 0'" in text and "\\n" not in text


F = torch.nn.functional
WORDS = {
    "item in vmap": (
        lambda: torch.vmap(lambda x: x.item())(torch.ones(2)),
        "vmap: It looks like you're calling .item() on a",
    ),
    "if in vmap": (lambda: torch.vmap(lambda x: x if x > 0 else -x)(torch.ones(2)), "data-dependent control flow"),
    "tangent": (
        lambda: torch.func.jvp(torch.sin, (torch.ones(2),), (torch.ones(3),)),
        "Trying to set a forward gradient that has a different size than that of the original Tensor",
    ),
    "names": (
        lambda: torch.func.functional_call(torch.nn.Linear(2, 1), {"wrong": torch.ones(1)}, torch.ones(2), strict=True),
        "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'wrong'.\n\tMissing key(s): 'bias', 'weight'.",
    ),
    "copy": (
        lambda: torch.zeros(4).copy_(torch.ones(3)),
        "The size of tensor a (4) must match the size of tensor b (3) at non-singleton dimension 0",
    ),
    "overflow": (
        lambda: torch.zeros(2, dtype=torch.float16).fill_(-1e9),
        "value cannot be converted to type c10::Half without overflow",
    ),
    "overflow of NumPy's number": (
        lambda: torch.full((2,), np.float64(1e9), dtype=torch.float16),
        "use torch.finfo(torch.float16).max",
    ),
    "overflow below": (lambda: torch.full((2,), -1e9, dtype=torch.float16), "use torch.finfo(torch.float16).min"),
    "float8": (lambda: torch.ones(2).to(torch.float8_e5m2).sum(), "\"sum\" not implemented for 'Float8_e5m2'"),
    "one of several views": (
        lambda: (torch.ones(4, requires_grad=True) * 1).split(2)[0].mul_(3),
        "This view is the output of a function that returns multiple views",
    ),
    "sources": (
        lambda: torch.zeros(3, 5).scatter(0, torch.tensor([[0, 1]]), torch.ones(2, 5, 2)),
        "Index tensor must have the same number of dimensions as src tensor",
    ),
    "pools": (
        lambda: F.max_pool2d(torch.ones(1, 1, 2, 2), 3),
        "Given input size: (1x2x2). Calculated output size: (1x0x0)",
    ),
    "pads": (
        lambda: F.max_pool2d(torch.ones(1, 1, 4, 4), 2, padding=2),
        "pad should be at most half of effective kernel size",
    ),
    "dilations": (
        lambda: F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), dilation=0),
        "dilation should be greater than zero",
    ),
}


@pytest.mark.parametrize(("run", "words"), WORDS.values(), ids=WORDS)
def test_what_pytorch_says_is_said(run, words):
    assert words in message(run)


def test_a_stranger_is_called_by_the_place_it_stands_in():
    assert "add(): argument 'other' (position 2) must be Tensor, not str" in message(
        lambda: torch.add(torch.ones(2), "a"), TypeError
    )
    assert "sum(): argument 'input' (position 1) must be Tensor, not list" in message(lambda: torch.sum([1]), TypeError)
