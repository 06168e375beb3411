"""Loading without the garbage collector: nothing that is made meanwhile is garbage, and looking for it takes 7 % of
the import. What has been loaded is then put where no collection looks at it again: 10 % of a short program's time.
"""

import gc

import ml_dtypes as ml_dtypes  # what may be missing is missed before anything is changed
import numpy as numpy

RUNNING = gc.isenabled()
gc.disable()


def loaded() -> None:
    """Everything is there: functions, tables and classes that stay."""
    gc.freeze()
    if RUNNING:
        gc.enable()
