"""The engine: how a call is recorded and how a gradient walks back.

Reading order: primitive (a row of the table), tensor (Tensor, Node, Leaf), modes (the switches),
provenance and aliasing (who made this, who overwrote it), record (the eager hot path),
inplace (views and mutation), backward (the walk), function (custom operations).
"""
