"""Devices: any of PyTorch's can be named; tensors live on the CPU, or have no memory at all on `meta`."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from pellucid.dtypes.constants import Immutable

__all__ = ["CHOSEN", "CPU", "META", "check_device", "chosen_device", "device", "on_meta"]

_DEVICE_TYPES: Final = (
    *("cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia"),
    *("xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)


class device(Immutable):
    """The name of a place for tensors. Any of torch's can be named; only the CPU can hold tensors.

    As a context it is where new tensors go; `meta` gives them a shape and no memory.

    >>> device("cpu"), device("cuda:1").index, str(device("cpu", 0))
    (device(type='cpu'), 1, 'cpu:0')
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: "str | device | int", index: int | None = None) -> None:
        name, number = _parse_device(type, index)
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", number)

    def __repr__(self) -> str:
        shown_index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{shown_index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Callable[..., "device"], tuple[str] | tuple[str, int]]:
        return (_made, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> "device":
        CHOSEN.set((*CHOSEN.get(), check_device(self)))
        return self

    def __exit__(self, *exception: object) -> None:
        CHOSEN.set(CHOSEN.get()[:-1])


def _made(kind: str, index: int | None = None) -> device:
    """A pickled device: a function is found whatever module the class says it is from."""
    return device(kind, index)


def _parse_device(named: object, index: object) -> tuple[str, int | None]:
    """Read the arguments of `device`: a string with or without an index, or another device."""
    if isinstance(named, device) and index is None:
        return named.type, named.index
    if isinstance(named, int) and not isinstance(named, bool) and index is None:
        _check_index(named)
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(named, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {type(named).__name__}")
    name, number = _parse_device_string(named)
    if index is None:
        return name, number
    if not isinstance(index, int):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {type(index).__name__}")
    if number is not None:
        raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {named}")
    _check_index(index)
    return name, index


def _check_index(index: int) -> None:
    """Raise torch's error for a negative index."""
    if index < 0:
        raise RuntimeError("Device index must not be negative")


def _parse_device_string(text: str) -> tuple[str, int | None]:
    """Split "cuda:1" into its type and index, with torch's errors for what is malformed."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    name, colon, digits = text.partition(":")
    is_number = digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")
    if colon and not is_number:
        raise RuntimeError(f"Invalid device string: '{text}'")
    if name not in _DEVICE_TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_DEVICE_TYPES)} device type at start of device string: {name}")
    return name, int(digits) if colon else None


CPU: Final = device("cpu")
META: Final = device("meta")

# The devices chosen by `with torch.device(...)` and `set_default_device`, the innermost last.
CHOSEN: ContextVar[tuple[device, ...]] = ContextVar("pellucid_devices", default=())


def chosen_device() -> device:
    """Where new tensors go if nothing else is said.

    >>> with device("meta"):
    ...     chosen_device()
    device(type='meta')
    """
    stack = CHOSEN.get()
    return stack[-1] if stack else CPU


def on_meta(requested: device | str | int | None) -> bool:
    """Whether a new tensor has no memory; None asks the device that was chosen.

    >>> on_meta("meta"), on_meta("cpu"), on_meta(None)
    (True, False, False)
    """
    if requested is None:
        return bool(CHOSEN.get()) and chosen_device() is META
    return check_device(requested) is META


def check_device(requested: device | str | int | None) -> device:
    """Return the device a new tensor gets, the CPU or `meta`, or say why it cannot be the one requested.

    >>> check_device("cpu:0"), check_device(None)
    (device(type='cpu'), device(type='cpu'))
    """
    if requested is None or requested is CPU:
        return CPU
    if isinstance(requested, (str, int)):
        requested = device(requested)
    if not isinstance(requested, device):
        raise TypeError(f"argument 'device' must be torch.device, not {type(requested).__name__}")
    if requested.type == "meta":
        return META
    if requested.type != "cpu":
        refusal, first = (AssertionError, "Torch not compiled with CUDA enabled. ") if requested.type == "cuda" else (
            RuntimeError, "")  # fmt: skip
        raise refusal(
            f"{first}Pellucid runs on the CPU only, so a tensor cannot live on device '{requested}'. "
            "Write device='cpu', or leave the argument out; code that asks cuda.is_available() first "
            "chooses the CPU by itself."
        )
    # An index on "cpu" names the same memory; torch's tensors drop it as well.
    return CPU
