"""torch.__future__: switches of behaviour that is to come; they are remembered and change nothing."""

_SWITCHES = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Remembered."""
    _SWITCHES["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set."""
    return _SWITCHES["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Remembered."""
    _SWITCHES["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """What was set."""
    return _SWITCHES["swap"]
