"""What the tracer knows of devices.

Source:
    torch._dynamo.utils.
"""

from __future__ import annotations

from typing import Any

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: Any) -> bool:
    """Return whether functions are compiled for a device: False."""
    return False
