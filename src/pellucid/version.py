"""The version, as torch.version tells it."""

from pellucid._version import __version__

cuda = hip = git_version = None
debug = False

__all__ = ["__version__", "cuda", "debug", "git_version", "hip"]
