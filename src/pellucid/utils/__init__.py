"""Helpers beside the engine, under PyTorch's names: `utils.checkpoint`, `utils.data`."""
