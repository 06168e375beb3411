"""See through it: explain a gradient, ask why one is missing, watch a training run and find what is wrong with it.

Everything here watches: through observers, hooks and finished graphs. Nothing in the layers below knows of it.
"""
