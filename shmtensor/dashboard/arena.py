"""The blocks of a session as a map: cells in order of block number, in bands of like capacity.

A cell is one block in use, or several neighbours when there are many blocks, or a run of blocks
between them that are not in use. What a cell shows is the work of NumPy on arrays of all blocks:
a million of them take a second or so, and the answer stays small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shmtensor.inspect import Session
from shmtensor.inspect.sessions import set_bits

__all__ = ["MAX_CELLS", "Blocks", "map_of"]

#: Most cells with blocks in use; there may be as many more for the runs between them.
MAX_CELLS = 1200
# Most holders that a cell names, and most blocks whose holders are read one by one.
_MAX_HOLDERS = 32

# Who keeps a block, as a number: a client that holds it alone, or one of these.
_NAME = 0  # the client number that stands for a published name
_SHARED, _QUEUED, _LEASED, _QUEUE, _UNHELD = -1, -2, -3, -4, -5
_KINDS = {
    _NAME: "name",
    _SHARED: "shared",
    _QUEUED: "queued",
    _LEASED: "leased",
    _QUEUE: "queue",
    _UNHELD: "unheld",
}

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Blocks:
    """All blocks in use, an element of each array for each, by ascending number.

    Attributes:
        held_by: The client number of the only holder, 0 for a published name, or a negative number
            for what else keeps the block.
        holders: Client numbers of the holders of some blocks that have several.
    """

    number: _Array
    slab: _Array
    owner: _Array
    nbytes: _Array
    capacity: _Array
    n_leases: _Array
    n_messages: _Array
    held_by: _Array
    holders: dict[int, list[int]]

    @classmethod
    def of(cls, session: Session) -> Blocks:
        """Read the blocks of an arena."""
        columns: dict[str, list[_Array]] = defaultdict(list)
        holders: dict[int, list[int]] = {}
        for batch in session.block_batches():
            for name in ("block", "slab", "owner", "nbytes", "capacity_bytes", "n_leases"):
                columns[name].append(batch[name].astype(np.int64))
            columns["n_messages"].append(columns["n_leases"][-1] + batch["n_queued"])
            columns["held_by"].append(_classify(batch))
            several = np.flatnonzero(np.isin(columns["held_by"][-1], (_SHARED, _QUEUE)))
            for i in several[: MAX_CELLS - len(holders)]:
                holders[int(batch["block"][i])] = set_bits(batch["holds"][i])
        whole = {name: np.concatenate(parts) for name, parts in columns.items()}
        return cls(
            number=whole["block"],
            slab=whole["slab"],
            owner=whole["owner"],
            nbytes=whole["nbytes"],
            capacity=whole["capacity_bytes"],
            n_leases=whole["n_leases"],
            n_messages=whole["n_messages"],
            held_by=whole["held_by"],
            holders=holders,
        )

    def leases_by_owner(self) -> dict[int, int]:
        """Count the unopened messages with blocks that each client made."""
        # A hostile member may have written any number as an owner.
        owners, place = np.unique(self.owner[self.n_leases > 0], return_inverse=True)
        sums = np.bincount(place, self.n_leases[self.n_leases > 0])
        return {int(owner): int(n) for owner, n in zip(owners, sums, strict=True)}


def _classify(batch: _Array) -> _Array:
    """Return who keeps each block of a batch, see `Blocks.held_by`."""
    holds = batch["holds"]
    used = holds != 0
    n_words = used.sum(axis=1)
    word = used.argmax(axis=1)
    bits = holds[np.arange(len(batch)), word]
    is_alone = (n_words == 1) & (bits & (bits - np.uint64(1)) == 0)
    # Exact: the logarithm of a power of two.
    alone = 64 * word + np.log2(np.where(is_alone, bits, 1).astype(np.float64)).astype(np.int64)
    conditions = [batch["is_queue"] != 0, is_alone, n_words > 0]
    conditions += [batch["n_queued"] > 0, batch["n_leases"] > 0]
    found: _Array = np.select(conditions, [_QUEUE, alone, _SHARED, _QUEUED, _LEASED], _UNHELD)
    return found


def _kind(held_by: int) -> dict[str, Any]:
    return {"kind": "alone", "client": held_by} if held_by > 0 else {"kind": _KINDS[held_by]}


def map_of(blocks: Blocks, max_cells: int = MAX_CELLS) -> dict[str, Any]:
    """Return the map of a session as values that JSON can hold.

    Returns:
        ``blocks_per_cell``; ``kinds``: bytes and number of the blocks of each kind and holder;
        ``bands``, each with the most bytes of a block in it and its ``cells``. A cell has its
        first and last block, how many are in use, their bytes, the unopened messages with them,
        and the kind of most of its bytes. Of kind ``free``: no block is in use, ``n_used`` is 0.
    """
    if not len(blocks.number):
        return {"blocks_per_cell": 1, "kinds": [], "bands": []}
    # Band b has capacities above 2**(b - 1) and up to 2**b.
    band = np.ceil(np.log2(np.maximum(blocks.capacity, 1))).astype(np.int64)
    order = np.argsort(band, kind="stable")
    band, slab, number = band[order], blocks.slab[order], blocks.number[order]
    is_new_slab = np.diff(slab, prepend=-1) != 0
    is_new_slab |= np.diff(band, prepend=-1) != 0
    is_new, per_cell = _cell_bounds(number, band, is_new_slab, max_cells)
    starts = np.flatnonzero(is_new)
    cells = list(_cells(blocks, order, starts, per_cell))
    bands: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for i, (start, cell) in enumerate(zip(starts, cells, strict=True)):
        row = bands[int(band[start])]
        if row and not is_new_slab[start]:
            gap = cell["first"] - cells[i - 1]["last"] - 1
            if gap > 0:
                first = cells[i - 1]["last"] + 1
                row.append({"first": first, "last": cell["first"] - 1, "n_used": 0, "kind": "free"})
        row.append(cell)
    return {
        "blocks_per_cell": int(per_cell),
        "kinds": _totals(blocks),
        "bands": [{"capacity_bytes": 1 << b, "cells": row} for b, row in bands.items()],
    }


def _cell_bounds(
    number: _Array, band: _Array, is_new_slab: _Array, max_cells: int
) -> tuple[_Array, int]:
    """Return where cells begin, and how many block numbers each reaches over."""
    per_cell = -(-len(number) // max_cells)
    if is_new_slab.sum() > max_cells // 2:  # cells reach over the bounds of slabs
        in_band = np.arange(len(number)) - np.searchsorted(band, band)
        is_new = np.diff(in_band // per_cell, prepend=-1) != 0
        return is_new | (np.diff(band, prepend=-1) != 0), per_cell
    while True:
        is_new = is_new_slab | (np.diff(number // per_cell, prepend=-1) != 0)
        if is_new.sum() <= max_cells:
            return is_new, per_cell
        per_cell *= 2


def _cells(
    blocks: Blocks, order: _Array, starts: _Array, per_cell: int
) -> Iterator[dict[str, Any]]:
    """Iterate over the cells that begin at *starts* of the ordered blocks."""
    ends = np.append(starts[1:], len(order)) - 1
    number = blocks.number[order]
    nbytes = np.add.reduceat(blocks.nbytes[order], starts)
    n_messages = np.add.reduceat(blocks.n_messages[order], starts)
    cell_of = np.repeat(np.arange(len(starts)), ends - starts + 1)
    most = _most_bytes(cell_of, blocks.held_by[order], blocks.nbytes[order])
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        cell = {
            "first": int(number[start]),
            "last": int(number[end]),
            "n_used": int(end - start + 1),
            "nbytes": int(nbytes[i]),
            "n_messages": int(n_messages[i]),
            **_kind(int(most[i])),
        }
        if start == end:
            cell["owner"] = int(blocks.owner[order[start]])
            holders = blocks.holders.get(cell["first"], [])
            if holders:
                cell["holders"] = holders[:_MAX_HOLDERS]
                cell["n_holders"] = len(holders)
        yield cell


def _most_bytes(cell_of: _Array, held_by: _Array, nbytes: _Array) -> _Array:
    """Return, for each cell, what holds most bytes in it. Empty storages count as a byte."""
    order = np.lexsort((held_by, cell_of))
    cell_of, held_by = cell_of[order], held_by[order]
    is_new = (np.diff(cell_of, prepend=-1) != 0) | (np.diff(held_by, prepend=held_by[0]) != 0)
    starts = np.flatnonzero(is_new)
    sums = np.add.reduceat(np.maximum(nbytes[order], 1), starts)
    cell_of, held_by = cell_of[starts], held_by[starts]
    by_sum = np.lexsort((-sums, cell_of))
    firsts = np.flatnonzero(np.diff(cell_of[by_sum], prepend=-1) != 0)
    return held_by[by_sum][firsts]


def _totals(blocks: Blocks) -> list[dict[str, Any]]:
    """Return bytes and number of the blocks of each holder or kind, most bytes first."""
    values, place = np.unique(blocks.held_by, return_inverse=True)
    counts = np.bincount(place)
    sums = np.zeros(len(values), np.int64)
    np.add.at(sums, place, blocks.nbytes)
    rows = [
        {**_kind(int(held_by)), "n_used": int(n), "nbytes": int(nbytes)}
        for held_by, n, nbytes in zip(values, counts, sums, strict=True)
    ]
    return sorted(rows, key=lambda row: -int(row["nbytes"]))
