"""Schedules of the learning rate, as torch.optim.lr_scheduler has them."""

from pellucid.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from pellucid.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from pellucid.optim.lr_scheduler.decays import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from pellucid.optim.lr_scheduler.plateau import ReduceLROnPlateau
from pellucid.optim.lr_scheduler.scheduler import EPOCH_DEPRECATION_WARNING, LRScheduler, _LRScheduler
from pellucid.optim.optimizer import Optimizer

__all__ = [
    "EPOCH_DEPRECATION_WARNING", "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "Optimizer", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "_LRScheduler",
]  # fmt: skip
