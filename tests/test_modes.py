"""Grad modes: as context, as decorator, of generators, per thread, restored after failures (mission 1.7)."""

import asyncio
import threading

import pytest

import pellucid
import pellucid as torch
from pellucid.core import departures, modes


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_no_grad_records_nothing():
    x = leaf()
    with torch.no_grad():
        y = x * 2
        assert not torch.is_grad_enabled()
    assert y.grad_fn is None and not y.requires_grad
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("decorator", [torch.no_grad(), torch.no_grad])
def test_no_grad_as_decorator(decorator):
    @decorator
    def double(x):
        """Doubles."""
        return x * 2

    assert not double(leaf()).requires_grad
    assert double.__name__ == "double" and double.__doc__ == "Doubles."


def test_recursion_through_a_decorated_function_restores_the_mode():
    @torch.no_grad()
    def down(n):
        return n if n == 0 else down(n - 1)

    down(5)
    assert torch.is_grad_enabled()


def test_generator_is_in_the_mode_only_while_it_runs():
    @torch.no_grad()
    def numbers():
        for _ in range(3):
            yield torch.is_grad_enabled()

    seen = []
    for inside in numbers():
        seen.append((inside, torch.is_grad_enabled()))
    assert seen == [(False, True)] * 3


def test_generator_send_throw_and_return_pass_through():
    @torch.no_grad()
    def echo():
        got = yield "ready"
        try:
            yield got
        except ValueError:
            yield "caught"
        return "end"

    generator = echo()
    assert next(generator) == "ready"
    assert generator.send(5) == 5
    assert generator.throw(ValueError()) == "caught"
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"


def test_a_generator_that_is_closed_cleans_up_in_its_mode():
    seen = []

    @torch.no_grad()
    def numbers():
        try:
            yield 1
        finally:
            seen.append(torch.is_grad_enabled())

    running = numbers()
    assert next(running) == 1
    running.close()
    assert seen == [False] and torch.is_grad_enabled()


def test_anomaly_switches_as_decorators():
    @torch.autograd.detect_anomaly(check_nan=False)
    def watched():
        mode = modes.current()
        return mode.anomaly, mode.check_nan

    @torch.autograd.set_detect_anomaly(True)
    def switched():
        return torch.is_anomaly_enabled()

    torch.autograd.set_detect_anomaly(False)
    assert watched() == (True, False) and switched() and not torch.is_anomaly_enabled()


def test_inference_mode_is_told():
    assert not torch.is_inference_mode_enabled()
    with torch.no_grad():
        assert not torch.is_inference_mode_enabled()
        with torch.inference_mode():
            assert torch.is_inference_mode_enabled()


def test_coroutines_are_decorated_too():
    @torch.no_grad()
    async def work():
        await asyncio.sleep(0)
        return torch.is_grad_enabled()

    assert asyncio.run(work()) is False


def test_only_the_first_operations_of_a_block_are_noted():
    x = leaf()
    with torch.no_grad():
        for _ in range(3 * departures.WATCHED):
            x * 2
    assert len(departures.REGIONS[-1].crossings) == departures.WATCHED


def test_enable_grad_inside_no_grad():
    x = leaf()
    with torch.no_grad(), torch.enable_grad():
        assert (x * 2).requires_grad


def test_set_grad_enabled_acts_at_once_and_as_context():
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_set_grad_enabled_as_decorator_does_not_leak():
    @torch.set_grad_enabled(False)
    def inside():
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled()
    assert inside() is False
    assert torch.is_grad_enabled()


def test_an_exception_restores_the_mode():
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert torch.is_grad_enabled() and modes.MODE.get() is None


def test_inference_tensors_cannot_enter_autograd():
    x = leaf()
    with torch.inference_mode():
        y = torch.ones(2) * 2
    assert y.is_inference()
    with pytest.raises(RuntimeError, match="inference tensors cannot be saved for backward"):
        x * y
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="inplace update to an inference tensor"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="inference tensors cannot be saved for backward"):
        torch.cat([x, y])
    assert (x * y.clone()).requires_grad


def test_comparisons_and_halves_made_under_inference_mode_stay_there():
    with torch.inference_mode():
        mask = leaf() > 1
        mean = torch.std_mean(torch.ones(3, dtype=torch.float16))[1]
    assert mask.is_inference() and mean.is_inference() and mean.dtype == torch.float16


def test_inference_mode_as_decorator_and_switched_off():
    @torch.inference_mode
    def run(x):
        return x * 2

    assert run(leaf()).is_inference()
    with torch.inference_mode(False):
        assert (leaf() * 2).requires_grad


def test_modes_are_local_to_their_thread():
    seen = {}

    def look():
        seen["enabled"] = torch.is_grad_enabled()

    with torch.no_grad():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == {"enabled": True}


def test_anomaly_names_forward_line_for_nan_and_inf():
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match=r"log returned NaN at index \(1,\)[\s\S]*test_modes.py"):
            x.log()
        with pytest.raises(RuntimeError, match="exp returned Inf"):
            (x * 1000).exp()


def test_anomaly_shows_a_value_only_where_there_is_one():
    x = torch.tensor([1.0, 0.0])
    with torch.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match=r"Inf at index \(1,\)[\s\S]*the input there was 1, 0\n"):
            torch.ones(2) / x
        with pytest.raises(RuntimeError, match=r"Inf at index \(\)[\s\S]*the input there was …"):
            (x + 3e38).sum()


def test_anomaly_finds_inf_in_backward_with_the_forward_line():
    x = torch.tensor([0.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = x.sqrt()  # the line to be named
        with pytest.raises(
            RuntimeError, match=r"backward of sqrt \(SqrtBackward0\) returned Inf[\s\S]*line to be named"
        ):
            y.backward()


def test_anomaly_lets_intended_infinities_pass():
    scores = torch.tensor([[1.0, 2.0]], requires_grad=True)
    mask = torch.tensor([[False, True]])
    with torch.autograd.detect_anomaly():
        out = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        out[0, 0].backward()
    assert torch.isfinite(scores.grad).all()


def test_set_detect_anomaly_switches():
    with torch.autograd.set_detect_anomaly(True):
        assert modes.is_anomaly_enabled()
    assert not modes.is_anomaly_enabled()


def test_a_class_is_decorated_with_a_warning():
    with pytest.warns(FutureWarning, match="Decorating classes"):

        @torch.no_grad()
        class Made:
            def __init__(self):
                self.recording = torch.is_grad_enabled()

    assert not Made().recording
    with torch.autograd.set_multithreading_enabled(False):
        assert torch.is_grad_enabled()


def test_zeros_made_for_unused_inputs_can_be_differentiated():
    x, a = (torch.tensor(v, requires_grad=True) for v in (0.5, 1.0))
    (slope,) = torch.autograd.grad(x * a, x, create_graph=True)
    (second,) = torch.autograd.grad(slope, x, create_graph=True, materialize_grads=True)
    (third,) = torch.autograd.grad(second, x, materialize_grads=True)
    assert second.item() == third.item() == 0.0


def test_a_view_of_an_ordinary_tensor_under_inference_mode_is_ordinary():
    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        part, scaled, of_weight = x[:2], x * 2, weight[:2]
        part_of_scaled = scaled[:2]
    assert not part.is_inference() and part._is_view() and scaled.is_inference() and part_of_scaled.is_inference()
    assert not of_weight.is_inference()
    (weight[:2] * part).sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0, 0.0]
    part.add_(1)
    assert x.tolist() == [2.0, 2.0, 1.0]
    with pytest.raises(RuntimeError, match="inference"):
        weight[:2] * part_of_scaled


@pytest.mark.parametrize(("factor", "dtype"), [(2.0, torch.complex64), (1j, torch.float32), (1j, torch.complex128)])
def test_a_gradient_is_complex_where_the_output_is(factor, dtype):
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        (x * torch.tensor(factor)).backward(torch.ones(2, dtype=dtype))
    assert x.grad is None


def _view_under_no_grad(lib):
    x = lib.ones(4, requires_grad=True)
    with lib.no_grad():
        return x, x.view(2, 2)


def test_a_view_made_under_no_grad_becomes_a_leaf_when_it_is_asked_to(torch):
    for lib in (torch, pellucid):
        x, view = _view_under_no_grad(lib)
        view.requires_grad_(False)
        assert view.requires_grad  # as its base
        (view * 2).sum().backward()
        assert view.grad is None and x.grad is None
        view.requires_grad_()
        (view * 3).sum().backward()
        assert view.grad.tolist() == [[3, 3], [3, 3]] and x.grad is None


def test_a_view_made_under_no_grad_has_no_gradient_to_ask_for(torch):
    for lib in (torch, pellucid):
        x, view = _view_under_no_grad(lib)
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            lib.autograd.grad((view * 2).sum(), view)
        assert lib.autograd.grad((view * 2).sum() + x.sum(), [view, x], allow_unused=True)[0] is None
        (view * 2).sum().backward(inputs=[view])
        assert view.grad is None
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
            view.backward(lib.ones(2, 2))


def test_a_write_to_a_view_made_under_no_grad_says_where_it_was_made(torch):
    for lib in (torch, pellucid):
        for base in (lib.ones(4, requires_grad=True), lib.ones(4, requires_grad=True) * 1):
            with lib.no_grad():
                views = base[:2], base.chunk(2)[0]
            for view in views:
                with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
                    view.mul_(2)
        with pytest.raises(RuntimeError, match="the output of a function that returns multiple views"):
            lib.ones(4, requires_grad=True).chunk(2)[0].mul_(2)
