"""Kinds of collections that a trace takes apart by a given description; nothing asks for it.

Source:
    torch.fx._pytree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["register_pytree_flatten_spec"]


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: Callable[..., Any],
    flatten_fn_exact_match_spec: Callable[..., bool] | None = None,
) -> None:
    """Accept how a trace would take objects of a class apart."""
