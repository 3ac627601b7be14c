"""Which keys a query may look at, as a function of their positions and as a table of blocks.

Source:
    torch.nn.attention.flex_attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks"]

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
Index = int | slice | Tensor

_DEFAULT_SPARSE_BLOCK_SIZE = 128


# --- functions of positions ----------------------------------------------------------------------


def positions(shape: tuple[int, int, int, int]) -> list[Tensor]:
    """Return the indices along each dimension, so that they broadcast to *shape*."""
    dims = range(len(shape))
    return [
        shmtensor.arange(size).reshape([size if i == dim else 1 for i in dims])
        for dim, size in enumerate(shape)
    ]


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Let every query look at every key."""
    return batch.new_ones((), dtype=shmtensor.bool)


def _combined(mask_mods: tuple[MaskMod, ...], is_and: bool) -> MaskMod:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), is_and, dtype=shmtensor.bool)
        for mod in mask_mods:
            allowed = mod(b, h, q_idx, kv_idx)
            result = result & allowed if is_and else result | allowed
        return result

    return mask_mod


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a function that allows what all the given ones allow.

    Raises:
        RuntimeError: One of them is not a function.
    """
    return _combined(mask_mods, True)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return a function that allows what one of the given ones allows.

    Raises:
        RuntimeError: One of them is not a function.
    """
    return _combined(mask_mods, False)


def _takes_scores(mod: Callable[..., Any]) -> bool:
    """Whether *mod* has five parameters without a default: a score and four positions.

    Raises:
        AssertionError: It has neither these nor the four positions alone.
    """
    parameters = inspect.signature(mod).parameters.values()
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    if len(required) not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {len(required)}")
    return len(required) == 5


def create_mask(
    mod_fn: MaskMod | ScoreMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """Return where queries may look as a bool tensor of shape ``(B, H, Q_LEN, KV_LEN)``.

    Args:
        mod_fn: A function of a batch, a head, a query and a key that returns whether; or one that
            takes a score before those, and returns minus infinity where they may not.
        B: Batches, 1 if None.
        H: Heads, 1 if None.
        Q_LEN: Queries.
        KV_LEN: Keys.
        device: Accepted.

    Raises:
        AssertionError: The function has neither four parameters nor five.
    """
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    found: Tensor
    if _takes_scores(mod_fn):
        changed = mod_fn(shmtensor.zeros(shape), *positions(shape))  # type: ignore[call-arg]
        found = ~shmtensor.isneginf(changed)
    else:
        found = mod_fn(*positions(shape))  # type: ignore[call-arg,assignment]
    return found.expand(shape).contiguous()


# --- blocks --------------------------------------------------------------------------------------


def _listed(dense: Tensor) -> tuple[Tensor, Tensor]:
    """The number of blocks that are set in each row, and their columns, the others behind them."""
    counts = dense.sum(-1).to(shmtensor.int32)
    columns = dense.argsort(dim=-1, descending=True, stable=True).to(shmtensor.int32)
    return counts, columns.contiguous()


def _as_dense(counts: Tensor, columns: Tensor) -> Tensor:
    """The table of 0 and 1 that `_listed` makes a list of."""
    width = columns.shape[-1]
    is_set = shmtensor.arange(width) < counts.unsqueeze(-1)
    return shmtensor.zeros_like(columns).scatter_(-1, columns.long(), is_set.to(columns.dtype))


def _transposed(counts: Tensor | None, columns: Tensor | None) -> tuple[Any, Any]:
    """The same list by columns."""
    if counts is None or columns is None:
        return None, None
    return _listed(_as_dense(counts, columns).transpose(-2, -1))


class BlockMask:
    """Which blocks of keys the queries of each block may look at.

    A partial block is one where `mask_mod` decides, a full one is allowed as a whole. The tables
    of queries have the same by columns.

    Args:
        seq_lengths: Queries and keys.
        kv_num_blocks: How many partial blocks each block of queries has; int32, ``(*, rows)``.
        kv_indices: Which ones, the others behind them; int32, ``(*, rows, columns)``.
        full_kv_num_blocks: Likewise of the full blocks.
        full_kv_indices: Likewise of the full blocks.
        q_num_blocks: How many partial blocks each block of keys has.
        q_indices: Which ones.
        full_q_num_blocks: Likewise of the full blocks.
        full_q_indices: Likewise of the full blocks.
        BLOCK_SIZE: Queries and keys of a block.
        mask_mod: A function of a batch, a head, a query and a key.
        dq_write_order: In which order torch's kernels on other devices add to the gradient of the
            query; kept for those who ask, as the next three.
        dq_write_order_full: Likewise of the full blocks.
        dq_kv_order: The order of the blocks of keys for that.
        dq_kv_order_spt: Whether that order is the one by decreasing work.

    Raises:
        RuntimeError: *kv_indices* has less than two dimensions.
        AssertionError: Only one of two tensors that belong together is given.

    Source:
        torch.nn.attention.flex_attention.BlockMask.
    """

    _TABLES = (
        "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices "
        "full_q_num_blocks full_q_indices"
    ).split()

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        for name, counts, indices in (
            ("full_kv", full_kv_num_blocks, full_kv_indices),
            ("q", q_num_blocks, q_indices),
            ("full_q", full_q_num_blocks, full_q_indices),
        ):
            if (counts is None) != (indices is None):
                raise AssertionError(
                    f"{name}_num_blocks and {name}_indices must be both provided or omitted"
                )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> BlockMask:
        """Make a mask of the tables of keys; those of queries follow from them.

        Args:
            kv_num_blocks: As for the class.
            kv_indices: As for the class.
            full_kv_num_blocks: As for the class.
            full_kv_indices: As for the class.
            BLOCK_SIZE: As for the class; one number for both.
            mask_mod: As for the class.
            seq_lengths: As for the class; that of all blocks by default.
            compute_q_blocks: Make the tables of queries.
            dq_write_order: As for the class.
            dq_write_order_full: As for the class.
            dq_kv_order: As for the class; a bool is *dq_kv_order_spt*.

        Raises:
            RuntimeError: *kv_indices* has less than two dimensions.
            AssertionError: Only one of two tensors that belong together is given.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        partial = full = (None, None)
        if compute_q_blocks:
            partial = _transposed(kv_num_blocks, kv_indices)
            full = _transposed(full_kv_num_blocks, full_kv_indices)
        rows, columns = kv_indices.shape[-2:]
        return cls(
            seq_lengths or (rows * size[0], columns * size[1]),
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *partial,
            *full,
            BLOCK_SIZE=size,
            mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order if isinstance(dq_kv_order, Tensor) else None,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return the lengths, the tables, the orders, the size of blocks and the function.

        Args:
            flatten: Give lengths and sizes as two numbers each.
        """
        lengths: tuple[Any, ...] = self.seq_lengths if flatten else (self.seq_lengths,)
        size: tuple[Any, ...] = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        tables = [getattr(self, name) for name in self._TABLES]
        orders = [
            self.dq_write_order,
            self.dq_write_order_full,
            self.dq_kv_order,
            self.dq_kv_order_spt,
        ]
        return (*lengths, *tables, *orders, *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of pairs of a query and a key."""
        result = 1
        for size in self.shape:
            result *= size
        return result

    def _counts(self) -> Tensor:
        counts = self.kv_num_blocks.sum()
        return counts if self.full_kv_num_blocks is None else counts + self.full_kv_num_blocks.sum()

    def sparsity(self) -> float:
        """Return the percentage of pairs that are in no block."""
        computed = int(self._counts().item()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to_dense(self) -> Tensor:
        """Return the table of blocks: 1 for partial and full ones, else 0; int32."""
        dense = _as_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | _as_dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense

    def __getitem__(self, index: Index | tuple[Index, ...]) -> BlockMask:
        """Return the mask of some batches, heads and blocks of queries; dimensions stay."""
        several = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in several)
        tables: list[Any] = [getattr(self, name) for name in self._TABLES[:4]]
        cut: list[Any] = [table if table is None else table[kept] for table in tables]
        n_kv, kv, n_full, full = cut
        return BlockMask.from_kv_blocks(
            n_kv,
            kv,
            n_full,
            full,
            BLOCK_SIZE=self.BLOCK_SIZE,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Return the upper left corner, for other numbers of queries and keys."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])

        def cut(counts: Tensor | None, indices: Tensor | None) -> tuple[Any, Any]:
            if counts is None or indices is None:
                return None, None
            return _listed(_as_dense(counts, indices)[..., :rows, :columns])

        return BlockMask.from_kv_blocks(
            *cut(self.kv_num_blocks, self.kv_indices),
            *cut(self.full_kv_num_blocks, self.full_kv_indices),
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )

    def to(self, device: Any) -> BlockMask:
        """Return a mask with its tables on a device."""
        tables: list[Any] = [getattr(self, name) for name in self._TABLES]
        moved: list[Any] = [table if table is None else table.to(device) for table in tables]
        options: Any = {
            "BLOCK_SIZE": self.BLOCK_SIZE,
            "mask_mod": self.mask_mod,
            "dq_write_order": self.dq_write_order,
            "dq_write_order_full": self.dq_write_order_full,
            "dq_kv_order": self.dq_kv_order,
            "dq_kv_order_spt": self.dq_kv_order_spt,
        }
        return BlockMask(self.seq_lengths, *moved, **options)

    # --- as a text -------------------------------------------------------------------------------

    def _pictures(self, grid_size: int | tuple[int, int]) -> Iterator[tuple[str, str]]:
        """A title and a picture of each batch and head."""
        dense = self.to_dense().float()
        rows, columns = dense.shape[-2:]
        grid = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [
            1 if most == -1 else -(-size // max(1, most))
            for size, most in zip((rows, columns), grid, strict=True)
        ]
        for place in product(*map(range, dense.shape[:-2])):
            lines = [
                "".join(
                    _cell(float(dense[place][i : i + steps[0], j : j + steps[1]].mean()))
                    for j in range(0, columns, steps[1])
                )
                for i in range(0, rows, steps[0])
            ]
            yield str(place), "\n".join(lines)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return pictures of the table of blocks.

        Args:
            grid_size: Rows and columns at most; -1 for one of each block.
            limit: Batches and heads at most.
        """
        parts = []
        for number, (title, picture) in enumerate(self._pictures(grid_size)):
            if number == limit:
                parts.append(
                    "...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                    "(BlockMask[batch, head]) to choose a specific batch or head"
                )
                break
            parts.append(f"{title}\n{picture}\n")
        return "\n".join(parts)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n"
            f"{self.to_string().rstrip()}\n)"
        )

    def __repr__(self) -> str:
        tables = {name: getattr(self, name) for name in self._TABLES}
        lines = [f"{n}={t if t is None else t.shape}" for n, t in tables.items()]
        lines += [
            f"BLOCK_SIZE={self.BLOCK_SIZE}",
            f"shape={self.shape}",
            f"sparsity={self.sparsity():.2f}%",
            f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}",
        ]
        return "BlockMask(\n" + "".join(f"    {line},\n" for line in lines)[:-2] + "\n)"


def _cell(part: float) -> str:
    """Two characters for the part of the blocks in a cell of a picture that are there."""
    return "  " if part == 0 else "██" if part == 1 else "░░"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Return the table of blocks of a function of positions.

    Args:
        mask_mod: A function of a batch, a head, a query and a key that returns whether the query
            may look there. It gets tensors of positions that broadcast.
        B: Batches, 1 if None: the function does not ask for them.
        H: Heads, 1 if None.
        Q_LEN: Queries.
        KV_LEN: Keys.
        device: Accepted.
        BLOCK_SIZE: Queries and keys of a block; one number for both.
        _compile: Accepted.
        separate_full_blocks: List blocks that are allowed as a whole by themselves.
        compute_dq_write_order: Accepted: no kernel here has a use for such an order.
        dq_kv_order: Accepted.

    Raises:
        AssertionError: The function has not four parameters.
        TypeError: *mask_mod* is not a function.
    """
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    allowed = create_mask(mask_mod, B, H, Q_LEN, KV_LEN)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padding = (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN)
    blocks = shmtensor.nn.functional.pad(allowed.to(shmtensor.uint8), padding)
    blocks = blocks.reshape(*allowed.shape[:2], rows, size[0], columns, size[1])
    per_block = blocks.long().sum(dim=(-3, -1))
    is_full = per_block == size[0] * size[1]
    full: tuple[Any, Any] = (None, None)
    if separate_full_blocks:
        partial, full = _listed((per_block > 0) & ~is_full), _listed(is_full)
    else:
        partial = _listed(per_block > 0)
    return BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )
