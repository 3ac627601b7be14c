"""What child processes of tests/sparse/test_queues.py run; a module that they can import."""

from __future__ import annotations

from typing import Any


def double(given: Any, back: Any) -> None:
    """Double the values of a tensor that comes, and send it back."""
    t = given.get(timeout=60)
    values = t._values() if t.is_sparse else t.values()
    values.mul_(2)
    back.put((str(t.layout), tuple(t.shape), t._nnz(), t.requires_grad))
    back.put(t)
    assert given.get(timeout=60) == "done"


def write(t: Any) -> None:
    """Change a value."""
    t._values()[1] = 10.0


def break_index(t: Any) -> None:
    """Put an index out of range."""
    t._indices()[0, 0] = 2**40
