"""From a function to a program: capture now, compilation later.

Reading order: ir (what a program is), trace (arrays that write down what is done with them), capture (the function).
"""

from pellucid.compiler.capture import capture
from pellucid.compiler.ir import Instruction, Program

__all__ = ["Instruction", "Program", "capture"]
