"""The public names: what `import pellucid as torch` promises is there, and nothing internal leaks out."""

import importlib
import subprocess
import sys
import threading
import time
from operator import attrgetter
from types import ModuleType

import pytest

import pellucid
from pellucid.ops.operation import OPERATIONS

SETTLED = ["autograd", "compiler", "func", "memory", "random", "testing", "utils"]
NAMES = """
tensor zeros ones empty full arange linspace eye rand randn randint randperm manual_seed from_numpy as_tensor
no_grad enable_grad set_grad_enabled inference_mode is_grad_enabled capture vmap is_tensor is_floating_point numel
float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool complex64 complex128 float double half long int
device dtype Size Tensor finfo iinfo set_default_dtype get_default_dtype set_printoptions promote_types can_cast
add mul matmul einsum sum mean max softmax cat stack where gather sort topk exp log sqrt clamp reshape transpose
"""


@pytest.mark.parametrize("name", SETTLED)
def test_modules_are_there(name):
    assert isinstance(getattr(pellucid, name), ModuleType)


def test_functions_are_there():
    assert [name for name in NAMES.split() if not hasattr(pellucid, name)] == []


def test_every_operation_is_exported_and_documented():
    pellucid.ops.load_families()
    for name, operation in OPERATIONS.items():
        assert attrgetter(name)(pellucid) is operation.function
        assert operation.doc, f"{name} has no documentation"


def test_every_method_that_comes_late_is_announced():
    script = (
        "import pellucid\n"
        "from pellucid.core.tensor import Operators\n"
        "announced = set(vars(Operators))\n"
        "pellucid.ops.load_families()\n"
        "late = {name for name, each in vars(Operators).items() if isinstance(each, pellucid.ops.LateMethod)}\n"
        "print(sorted(set(vars(Operators)) - announced), sorted(late))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] []", "FAMILIES in ops/__init__.py names the methods that each family brings"


def test_a_late_method_is_there_when_asked_for():
    script = (
        "import pellucid as torch\n"
        "print(torch.Tensor.det(torch.eye(2)).item(), torch.eye(2).logdet().item(), hasattr(torch.eye(2), 'nothing'))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1.0", "0.0", "False"]


def test_dir_lists_what_is_loaded_when_first_asked_for():
    script = "import pellucid\nprint({'nn', 'optim', 'svd', 'conv2d', 'save', 'vmap', 'zeros'} - set(dir(pellucid)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_a_future_may_be_set_by_another_thread():
    future = pellucid.futures.Future()
    later = future.then(lambda done: done.wait() + 1)
    thread = threading.Thread(target=lambda: (time.sleep(0.01), future.set_result(3)))
    thread.start()
    assert (future.wait(), later.wait()) == (3, 4)
    thread.join()
    with pytest.raises(RuntimeError, match="nothing runs elsewhere"):
        pellucid.futures.Future().wait()


def test_dictionaries_by_identity_keep_no_key_alive():
    notes = importlib.import_module("pellucid.utils.weak").WeakTensorKeyDictionary()
    one, other = pellucid.ones(2), pellucid.ones(2)
    notes[one], notes[other] = 1, 2
    assert (notes[one], notes[other], one in notes, pellucid.ones(2) in notes, len(notes)) == (1, 2, True, False, 2)
    assert (len(notes | {other: 3}), (notes | {other: 3})[other], notes[other]) == (2, 3, 2)
    del one
    assert list(notes.values()) == [2] and notes.copy().pop(other) == 2


def test_a_gradient_that_nobody_wants_has_no_dtype_of_its_own():
    x = pellucid.ones(2)
    x.grad_dtype = pellucid.float32
    with pytest.raises(NotImplementedError, match="does not require grad"):
        x.grad_dtype = pellucid.float16


def test_a_missing_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_this'"):
        pellucid.nothing_like_this


def test_version_on_the_command_line():
    run = subprocess.run([sys.executable, "-m", "pellucid", "--version"], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"pellucid {pellucid.__version__}"


def test_the_old_assert_allclose_has_the_old_tolerances():
    torch = pytest.importorskip("torch")
    for lib in (torch, pellucid):
        close = lib.testing.assert_allclose
        with pytest.warns(FutureWarning, match="assert_allclose"):
            close(lib.tensor([1.0, lib.nan]), [1.00005, lib.nan])
        with pytest.warns(FutureWarning), pytest.raises(AssertionError):
            close(lib.tensor([1.0]), lib.tensor([1.001]))
        with pytest.warns(FutureWarning):
            close(lib.ones(2, dtype=lib.float64), lib.ones(2) + 0.01, rtol=0.1, atol=0)


def test_an_accelerator_is_asked_for_in_vain_as_in_pytorch():
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("the oracle has an accelerator")
    for lib in (torch, pellucid):
        accelerator = lib.accelerator
        with accelerator.device_index(None):
            pass
        for call in (lambda a=accelerator: a.set_device_index(0), accelerator.current_device_index,
                     lambda a=accelerator: a.device_index(0).__enter__()):  # fmt: skip
            with pytest.raises(RuntimeError, match=r"Cannot access accelerator device when none is available\."):
                call()


def test_settings_of_compilers_and_builds_that_scripts_touch():
    config = pellucid._inductor.config
    assert config.triton.unique_kernel_names and config.epilogue_fusion and config.cpp.threads == -1
    assert not (pellucid.has_mps or pellucid.has_cuda) and pellucid.has_lapack


def test_assert_close_says_where():
    one, other = pellucid.tensor([1.0, 2.0]), pellucid.tensor([1.0, 2.1])
    pellucid.testing.assert_close(one, one + 1e-7)
    pellucid.testing.assert_close([one, 3], (one.clone(), 3))
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 2[\s\S]*index \(1,\)"):
        pellucid.testing.assert_close(one, other)
    with pytest.raises(AssertionError, match="shape"):
        pellucid.testing.assert_close(one, one[:1])
    with pytest.raises(AssertionError, match="dtype"):
        pellucid.testing.assert_close(one, one.double())
