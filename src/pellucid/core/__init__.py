"""The engine: how a call is recorded and how a gradient walks back.

Reading order: primitive (a row of the table), provenance, modes and aliasing (where, under which switches, who
overwrote it), tensor (Tensor, Node, Leaf), keep, record (the eager hot path) with careful (the door out of it),
views and inplace, backward (the walk) with saved and hooks, attributes, function (custom operations).
"""
