"""ShapeProp: runs a graph once, and every node learns the shape and dtype of its value."""

from typing import Any, NamedTuple

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.fx.interpreter import Interpreter
from pellucid.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    layouts = (dtypes.contiguous_format, dtypes.channels_last)
    fitting = (each for each in layouts if include_contiguity and result.is_contiguous(memory_format=each))
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), next(fitting, None), False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph; `node.meta["tensor_meta"]` tells of each value what is known without its numbers.

    >>> import pellucid as torch
    >>> program = torch.fx.symbolic_trace(torch.nn.Linear(3, 4))
    >>> _ = ShapeProp(program).propagate(torch.ones(2, 3))
    >>> [node.meta["tensor_meta"].shape for node in program.graph.nodes if node.name == "linear"]
    [torch.Size([2, 4])]
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """The value of one node, of which it keeps what is known without the numbers."""
        result = super().run_node(n)
        tensors: list[Tensor] = []

        def known(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, known)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph with these inputs."""
        return super().run(*args)
