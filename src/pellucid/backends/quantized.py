"""Kernels of quantised tensors, which are not here: the engine can be chosen and changes nothing."""

engine = "none"
supported_engines = ["none"]
