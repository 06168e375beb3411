"""Functions of functions: tree (nested containers), levels, forward (Dual, jvp), batch (Batched, vmap), functional."""
