"""Which functions written in Python a call runs: what is done in C runs none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["python_functions_in"]


def python_functions_in(call: Callable[[], object]) -> list[str]:
    """The names of the functions written in Python that run in a call, besides its own."""
    seen: list[str] = []

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is not call.__code__:
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen
