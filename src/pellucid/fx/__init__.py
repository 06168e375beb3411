"""torch.fx: programs as graphs, to look at, to change and to write as Python again.

>>> import pellucid as torch
>>> program = symbolic_trace(lambda x: torch.relu(x) * 2)
>>> print(program.graph)
graph():
    %x : [num_users=1] = placeholder[target=x]
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%relu, 2), kwargs = {})
    return mul
>>> program(torch.tensor([-1.0, 3.0]))
tensor([0., 6.])

Read node.py and graph.py for what a graph is, proxy.py and border.py for how programs are recorded,
_symbolic_trace.py for the trace, codegen.py for the program that is written from a graph.
"""

from pellucid.fx import experimental, graph, node, passes, proxy
from pellucid.fx._symbolic_trace import PH, Tracer, symbolic_trace, wrap
from pellucid.fx.graph import CodeGen, Graph
from pellucid.fx.graph_module import GraphModule
from pellucid.fx.interpreter import Interpreter, Transformer
from pellucid.fx.node import Node, has_side_effect, map_arg
from pellucid.fx.proxy import Proxy
from pellucid.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "experimental",
    "graph", "has_side_effect", "map_arg", "node", "passes", "proxy", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
