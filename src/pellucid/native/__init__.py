"""Loops in machine code, for kernels that NumPy would do in many passes over memory.

A kernel is a Python function of numbers and flat arrays (language.py, words.py) that llvmlite compiles when it is
first used (llvm.py) and that several cores share (pool.py). llvmlite comes with the extra `compile`; without it, or
with PELLUCID_NATIVE=0 in the environment, operations compute with NumPy alone. Which of the two computes depends on
nothing but that and the size of the arrays, so a run repeats itself bit for bit.
"""

from pellucid.native.kernel import APART, HANDS_AT_MOST, MANY, Kernel, choose_hands, hands, native

__all__ = ["APART", "HANDS_AT_MOST", "MANY", "Kernel", "choose_hands", "hands", "native"]
