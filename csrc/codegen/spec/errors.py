"""The one exception of the generator: every message starts with ``file:line:``."""

from __future__ import annotations


class SpecError(Exception):
    """Something in the specification is wrong.

    Args:
        where: ``file:line`` of the offending entry, the file relative to the project.
        message: What is wrong, with the values.
    """

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message
