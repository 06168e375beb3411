"""Models in evaluation become smaller: batch norms go into the layers before them, dropout goes away."""

import copy
from collections.abc import Iterable
from typing import Any

from pellucid.fx._symbolic_trace import symbolic_trace
from pellucid.fx.graph_module import GraphModule
from pellucid.fx.interpreter import Transformer
from pellucid.fx.node import Node
from pellucid.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from pellucid.nn.modules.conv import Conv1d, Conv2d, Conv3d
from pellucid.nn.modules.dropout import Dropout
from pellucid.nn.modules.module import Module
from pellucid.nn.utils.fusion import fuse_conv_bn_eval

__all__ = ["fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]

PAIRS = [(Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d)]


def matches_module_pattern(pattern: Iterable[type], node: Node, parts: dict[str, Any]) -> bool:
    """Whether a node calls a module of the second class on the result of one of the first."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    return all(
        each.op == "call_module" and type(parts.get(str(each.target))) is kind
        for kind, each in zip(pattern, (node.args[0], node), strict=False)
    )


def replace_node_module(node: Node, parts: dict[str, Any], new_module: Module) -> None:
    """Put another module in the place of the one that a node calls."""
    above, _, name = str(node.target).rpartition(".")
    parts[str(node.target)] = new_module
    setattr(parts[above], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """Put batch norms in evaluation into the convolutions before them.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2), torch.nn.ReLU()).eval()
    >>> fused, x = fuse(model), torch.ones(1, 1, 2, 2)
    >>> [node.name for node in fused.graph.nodes], torch.allclose(fused(x), model(x), atol=1e-6)
    (['input_1', '_0', '_2', 'output'], True)
    """
    if not inplace:
        model = copy.deepcopy(model)
    program: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    parts = dict(program.named_modules())
    for pattern in PAIRS:
        for node in program.graph.nodes:
            if not matches_module_pattern(pattern, node, parts) or len(node.args[0].users) > 1:
                continue
            norm = parts[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], parts, fuse_conv_bn_eval(parts[node.args[0].target], norm))
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)
    return GraphModule(program, program.graph)


def remove_dropout(model: Module) -> Module:
    """The model without dropout.

    >>> import pellucid as torch
    >>> remove_dropout(torch.nn.Sequential(torch.nn.Dropout(), torch.nn.ReLU())).graph.nodes.__len__()
    3
    """

    class WithoutDropout(Transformer):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            if isinstance(self.submodules[target], Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return WithoutDropout(symbolic_trace(model)).transform()
