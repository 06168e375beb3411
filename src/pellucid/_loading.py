"""Loading without the garbage collector, which saves some 10 of 160 ms: nothing that is made meanwhile is garbage."""

import gc

import ml_dtypes as ml_dtypes  # what may be missing is missed before anything is changed
import numpy as numpy

RUNNING = gc.isenabled()
gc.disable()


def loaded() -> None:
    """Everything is there."""
    if RUNNING:
        gc.enable()
