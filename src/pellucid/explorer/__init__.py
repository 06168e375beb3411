"""See a graph move: `explore(y)` shows values, gradients and every step of backward on one self-contained page.

>>> import pellucid as torch
>>> from pellucid.explorer import explore
>>> x = torch.tensor(3.0, requires_grad=True)
>>> explore(x * x + x)
<Exploration of 3 nodes and 2 backward steps: .show(), .save_html(path)>
"""

from pellucid.explorer.examples import examples
from pellucid.explorer.exploration import Exploration, explore
from pellucid.explorer.page import page
from pellucid.explorer.snapshot import snapshot
from pellucid.explorer.source import run_source, snapshot_source
from pellucid.explorer.training import Training
from pellucid.explorer.watch import Watch, watching

__all__ = [
    "Exploration", "Training", "Watch", "examples", "explore", "page", "run_source", "snapshot", "snapshot_source",
    "watching",
]  # fmt: skip
