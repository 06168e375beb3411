"""Functions of functions: tree (nested containers), levels, forward (Dual, jvp), batch (Batched, vmap),
scope (a differentiated call), reverse (grad, vjp), jacobians, stateless (modules as functions), custom (functions with
rules of their own), differences and check (gradcheck)."""
