"""torch.hub: weights from an address, models from a folder with a hubconf.py. Repositories are not downloaded."""

import hashlib
import importlib.util
import os
import sys
from typing import Any, BinaryIO
from urllib.parse import urlparse
from urllib.request import urlopen

from pellucid.serialization import load as load_weights
from pellucid.serialization.atomic import write_whole

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir",
]  # fmt: skip

_FOLDER: dict[str, str] = {}


def get_dir() -> str:
    """The folder that downloads go to.

    >>> set_dir("/tmp/hub")
    >>> get_dir()
    '/tmp/hub'
    """
    return _FOLDER.get("hub") or os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    """The folder of PyTorch's cache, which libraries put theirs into."""
    home = os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(home)


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder that downloads go to."""
    _FOLDER["hub"] = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file; one whose SHA-256 does not begin as it should is thrown away."""
    digest = hashlib.sha256()

    def write(out: BinaryIO) -> None:
        while block := source.read(1 << 20):
            digest.update(block)
            out.write(block)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')

    with urlopen(url) as source:
        write_whole(dst, write)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = True,
) -> Any:  # fmt: skip
    """Fetch a file of weights once, and load it."""
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        stem = os.path.splitext(name)[0]
        download_url_to_file(url, path, stem.rpartition("-")[2] if check_hash and "-" in stem else None, progress)
    return load_weights(path, map_location=map_location, weights_only=weights_only)


def _configuration(repo_or_dir: Any, source: str) -> Any:
    """The hubconf.py of a folder, imported."""
    if source != "local":
        raise NotImplementedError(
            f"Pellucid does not download repositories: clone {repo_or_dir} and call with its folder and source='local'"
        )
    folder = os.path.abspath(repo_or_dir)
    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"there is no hubconf.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Call an entry of a folder's hubconf.py (source='local'); options of the download are taken out first."""
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return getattr(_configuration(repo_or_dir, source), model)(*args, **kwargs)


def list(github: Any, force_reload: bool = False, *, source: str = "github", **options: Any) -> Any:
    """The entries of a folder's hubconf.py."""
    found = vars(_configuration(github, source))
    return [name for name, value in found.items() if callable(value) and not name.startswith("_")]


def help(github: Any, model: str, force_reload: bool = False, *, source: str = "github", **options: Any) -> Any:
    """The documentation of an entry."""
    return getattr(_configuration(github, source), model).__doc__
