"""Places shared memory in huge pages and on NUMA nodes.

    with shm.arena(huge_pages=True, node=0) as placed:
        weights = shmtensor.empty(4096, 4096, shared=True)
    print(placed.report())

Within the block, the shared memory that this thread allocates (factories with ``shared=True``,
``share_memory_()``, tensors that a message moves) is in separate slabs with that placement. Tensors
keep it after the block, whichever process uses them. If the kernel does not support something, a
warning says what and why.
"""

from __future__ import annotations

import errno
import operator
import os
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal, NoReturn, SupportsIndex

from shmtensor._boundary import sharing as _sharing
from shmtensor.errors import ShmTensorWarning

__all__ = ["Arena", "arena"]

_SHMEM = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
_OFFERED = ("always", "within_size", "advise", "force")
_MODES = {"any": 0, "bind": 1, "preferred": 2, "interleave": 3}
_MAX_NODES = 64


def _huge_page_mode() -> str:
    try:
        return _SHMEM.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        return "missing"


def _reason(code: int) -> str:
    return f"{os.strerror(code)} ({errno.errorcode.get(code, code)})"


class _Before(threading.local):
    """The numbers of the placements that the calling thread left, the last one at the end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []


class Arena:
    """A placement of shared memory for ``with`` blocks, which may nest and repeat.

    `arena` makes it. Several threads may be in blocks of one placement at a time.

    Attributes:
        huge_pages: Whether huge pages were requested and the kernel supports them.
        nodes: The NUMA nodes that were requested and are used; empty: any node.
        missing: A sentence for each request that is not available.
    """

    def __init__(self, huge_pages: bool, mode: str, nodes: tuple[int, ...]) -> None:
        self.missing: list[str] = []
        mask = sum(1 << node for node in nodes)
        huge_errno, numa_errno = _sharing.try_placement(huge_pages, _MODES[mode], mask)
        offered = _huge_page_mode()
        if huge_pages and (huge_errno or offered not in _OFFERED):
            why = _reason(huge_errno) if huge_errno else f"{_SHMEM} says {offered!r}"
            self.missing.append(f"no huge pages for shared memory: {why}")
            huge_pages = False
        if numa_errno:
            named = ", ".join(map(str, nodes))
            self.missing.append(f"no placement on NUMA node {named}: {_reason(numa_errno)}")
            mode, nodes, mask = "any", (), 0
        self.huge_pages = huge_pages
        self.nodes = nodes
        self._mode = mode
        plain = not huge_pages and mode == "any"
        self._number = 0 if plain else _sharing.open_placement(huge_pages, _MODES[mode], mask)
        self._before = _Before()

    def __enter__(self) -> Arena:
        if _sharing.get_strategy() == "file_descriptor":
            warnings.warn(
                "shm.arena(): memory of the strategy 'file_descriptor' is not placed",
                ShmTensorWarning,
                stacklevel=2,
            )
        self._before.numbers.append(_sharing.use_placement(self._number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _sharing.use_placement(self._before.numbers.pop())

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Arena is of its process and those that it forks: make it where it is used"
        )

    def report(self) -> dict[str, object]:
        """Return what is used, what is missing, and what the kernel refused and why."""
        huge_errno, numa_errno = _sharing.placement_refused(self._number)
        missing = list(self.missing)
        if huge_errno:
            missing.append(f"huge pages were refused for some memory: {_reason(huge_errno)}")
        if numa_errno:
            missing.append(f"the node was refused for some memory: {_reason(numa_errno)}")
        return {
            "huge_pages": self.huge_pages,
            "mode": self._mode,
            "nodes": self.nodes,
            "missing": missing,
        }


def _nodes_of(node: SupportsIndex | Iterable[SupportsIndex] | None) -> tuple[int, ...]:
    if node is None:
        return ()
    nodes = tuple(node) if isinstance(node, Iterable) else (node,)
    for n in nodes:
        is_number = hasattr(n, "__index__") and not isinstance(n, bool)
        if not is_number or not 0 <= operator.index(n) < _MAX_NODES:
            raise ValueError(f"arena(): a NUMA node is a number below {_MAX_NODES}, got {n!r}")
    return tuple(dict.fromkeys(map(operator.index, nodes)))


def arena(
    *,
    huge_pages: bool = False,
    node: SupportsIndex | Iterable[SupportsIndex] | None = None,
    mode: Literal["bind", "preferred", "interleave"] = "bind",
    strict: bool = False,
) -> Arena:
    """Choose the placement of the shared memory that a ``with`` block allocates.

    Args:
        huge_pages: Request pages of 2 MiB wherever a block of memory covers whole ones.
        node: One or several NUMA nodes; None: the node of the thread that first touches a page.
        mode: ``"bind"``: only these nodes; ``"preferred"``: this node first; ``"interleave"``: the
            nodes in turn, page by page.
        strict: Raise instead of warning when something is not available.

    Returns:
        The placement; its `Arena.report` says what is used.

    Raises:
        RuntimeError: *strict*, and something is missing; or the process uses more than seven
            different placements.
        ValueError: *node* or *mode* is invalid.
    """
    nodes = _nodes_of(node)
    if mode not in ("bind", "preferred", "interleave"):
        raise ValueError(f"arena(): mode must be bind, preferred or interleave, got {mode!r}")
    if mode == "preferred" and len(nodes) > 1:
        raise ValueError(f"arena(): mode 'preferred' takes one node, got {len(nodes)}")
    made = Arena(huge_pages, mode if nodes else "any", nodes)
    if made.missing:
        text = "shm.arena(): " + "; ".join(made.missing)
        if strict:
            raise RuntimeError(text)
        warnings.warn(text + "; placed without", ShmTensorWarning, stacklevel=2)
    return made
