"""torch._dynamo.utils: what libraries ask before they compile."""


def is_compile_supported(device_type: str) -> bool:
    """False: torch.compile runs functions as they are.

    >>> is_compile_supported("cpu")
    False
    """
    return False
