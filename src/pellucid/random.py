"""torch.random: the state of the default generator.

>>> import pellucid as torch
>>> torch.random.manual_seed(3).initial_seed()
3
"""

from pellucid.ops.random import (
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


def thread_safe_generator() -> None:
    """The generator of a loader's thread: None, for loaders here work in processes.

    >>> import pellucid as torch
    >>> torch.rand(2, generator=torch.thread_safe_generator()).shape
    torch.Size([2])
    """
