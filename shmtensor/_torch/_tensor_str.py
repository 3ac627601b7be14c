"""Parts of the texts of tensors, for libraries that print tensor classes of their own.

Source:
    torch._tensor_str.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from shmtensor._core import _printing
from shmtensor._core._printing import get_printoptions, set_printoptions
from shmtensor._core._tensor import Tensor

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    """The options in force, as attributes; setting one is `set_printoptions`."""

    def __getattr__(self, name: str) -> Any:
        options = _printing._options._asdict()
        if name not in options:
            raise AttributeError(f"there is no print option '{name}'")
        return options[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self.__getattr__(name)
        _printing._options = _printing._options._replace(**{name: value})


PRINT_OPTS = _Options()


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """A context in which tensors are printed with other options.

    Args:
        **kwargs: Those of `set_printoptions`.
    """
    before = _printing._options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _printing._options = before


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the values of a tensor as they stand in its text; lines but the first are indented."""
    plain = self.detach()
    return "[]" if plain.numel() == 0 else _printing._Layout(plain, indent).text(plain, indent)


def _add_suffixes(
    tensor_str: str, suffixes: list[str], indent: int, force_newline: bool = False
) -> str:
    """Return a text that is closed after *suffixes*, which begin a line where they do not fit."""
    if force_newline and suffixes:
        head, *rest = suffixes
        text = f"{tensor_str},\n{' ' * indent}{head}"
        return _printing._with_suffixes(text, rest, indent)
    return _printing._with_suffixes(tensor_str, suffixes, indent)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor, with *tensor_contents* in place of its values."""
    text = _printing.tensor_text(inp)
    if tensor_contents is None:
        return text
    head = text.index("(") + 1
    own = _tensor_str(inp, head)
    return text.replace(own, tensor_contents, 1)
