"""The teaching engine: backpropagation on single numbers (Value), dual numbers (Dual), small networks (nn).

Plain Python without NumPy, made to be read: start with value.py.

>>> from pellucid.scalar import Value
>>> x = Value(3.0)
>>> y = x * x + x
>>> y.backward()
>>> x.grad
7.0
"""

from pellucid.scalar.drawing import to_dot, to_json, to_svg, to_text
from pellucid.scalar.dual import Dual, DualNumber, derivative, gradient
from pellucid.scalar.value import Value

__all__ = ["Dual", "DualNumber", "Value", "derivative", "gradient", "to_dot", "to_json", "to_svg", "to_text"]
