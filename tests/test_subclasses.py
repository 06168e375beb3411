"""Subclasses of Tensor and `__torch_function__`: programs that give what they give in PyTorch, and what they cost.

They run in a process of their own, as the first subclass makes all public functions look at their arguments.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
COMPARE = """
import pathlib, torch, pellucid
from test_api_cases import outcome, programs, same
for program in programs(pathlib.Path("subclass_cases.txt")):
    try:
        same(outcome(program, pellucid), outcome(program, torch))
    except AssertionError as problem:
        print(program, problem, sep="\\n    ")
"""
ALONE = """
import pellucid as torch
from pellucid.interop import subclasses

before = [torch.exp]
assert not subclasses.ASKED, "nothing is exchanged without need"

class Named(torch.Tensor):
    pass

assert torch.exp is not before[0] and torch.exp.primitive is before[0].primitive
x = torch.ones(2).as_subclass(Named)
w = torch.ones(2, requires_grad=True)
y = (torch.exp(x) * w).sum()
y.backward()
assert type(y) is Named and type(torch.ones(2) + x) is Named and repr(x) == "Named([1., 1.])"
assert type(w.grad) is torch.Tensor and type(torch.exp(w)) is torch.Tensor
assert type(torch.nn.Linear(2, 2)(x)) is Named and type(torch.nn.Parameter(w) * 2) is torch.Tensor
with torch._C.DisableTorchFunctionSubclass():
    assert type(x + 1) is torch.Tensor
methods = dict(vars(torch.Tensor))
class Count(torch.overrides.TorchFunctionMode):
    calls = 0
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))
try:
    with Count() as outer, Count() as inner:
        torch.exp(w) + 1
        raise KeyError
except KeyError:
    pass
assert (outer.calls, inner.calls) == (2, 2)
assert dict(vars(torch.Tensor)) == methods, "a mode leaves no trace"
"""


def run(program):
    """What a program prints; an error in it is one here."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join((*sys.path, str(HERE)))}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=HERE, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_equals_pytorch(torch):
    assert run(COMPARE) == ""


def test_classes_are_asked_without_pytorch():
    run(ALONE)
