"""Notes that tracers give to nodes while a block runs.

Source:
    torch.fx.traceback.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = [
    "annotate",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "set_current_meta",
    "set_current_replay_node",
    "set_stack_trace",
]


class _Notes(threading.local):
    """What one thread notes."""

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.are_kept = False
        self.node: Any = None


_notes = _Notes()


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Let nodes that are made in a block have the notes of that time.

    Args:
        enable: Whether they do.
    """
    before = _notes.are_kept, dict(_notes.meta)
    _notes.are_kept = enable
    try:
        yield
    finally:
        _notes.are_kept, _notes.meta = before


def has_preserved_node_meta() -> bool:
    """Return whether new nodes get the current notes."""
    return _notes.are_kept


def get_current_meta() -> dict[str, Any]:
    """Return the current notes."""
    return _notes.meta


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Take the notes of a node as the current ones in a block.

    Args:
        node: It.
        pass_name: Accepted.
    """
    before = _notes.meta
    if _notes.are_kept and node.meta:
        _notes.meta = dict(node.meta)
    try:
        yield
    finally:
        _notes.meta = before


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Note something under ``"custom"`` for the nodes that are made in a block."""
    before = _notes.are_kept, _notes.meta
    custom = {**before[1].get("custom", {}), **annotation_dict}
    _notes.are_kept, _notes.meta = True, {**before[1], "custom": custom}
    try:
        yield
    finally:
        _notes.are_kept, _notes.meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Note where the program is, as lines of text."""
    if _notes.are_kept and stack:
        _notes.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Return where the program is: as noted, or of the calling frame."""
    if _notes.are_kept:
        return [_notes.meta.get("stack_trace", "")]
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])


@contextlib.contextmanager
def set_current_replay_node(node: Any) -> Iterator[None]:
    """Say which node is being computed again in a block."""
    before, _notes.node = _notes.node, node
    try:
        yield
    finally:
        _notes.node = before


def get_current_replay_node() -> Any:
    """Return the node that is being computed again, or None."""
    return _notes.node
