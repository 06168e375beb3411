"""Pictures of graphs, which pydot draws for PyTorch, and which are not here."""

from pellucid.absent import absent

WHY = "graphs are printed, not drawn"
__getattr__ = absent("torch.fx.passes.graph_drawer", "FxGraphDrawer", WHY, "print(program.graph), or program.code")
