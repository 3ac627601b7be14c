"""Attention whose scores a function of the caller changes.

torch compiles the function into one kernel with the attention. Here the scores lie in memory as a
whole, and the function is called once, with tensors of positions that broadcast to them: it may
compute, compare, take `where` and index tensors with positions, as torch's functions do.

Source:
    torch.nn.attention.flex_attention; Dong et al., "Flex Attention: A Programming Model for
    Generating Optimized Attention Kernels", 2024.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, TypedDict

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.attention._block_mask import (
    _DEFAULT_SPARSE_BLOCK_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
)
from shmtensor.nn.attention._block_mask import (
    BlockMask as BlockMask,
)
from shmtensor.nn.attention._block_mask import (
    MaskMod,
    ScoreMod,
    positions,
)
from shmtensor.nn.attention._block_mask import (
    and_masks as and_masks,
)
from shmtensor.nn.attention._block_mask import (
    create_block_mask as create_block_mask,
)
from shmtensor.nn.attention._block_mask import (
    create_mask as create_mask,
)
from shmtensor.nn.attention._block_mask import (
    noop_mask as noop_mask,
)
from shmtensor.nn.attention._block_mask import (
    or_masks as or_masks,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_mask_mod_signature = MaskMod
_score_mod_signature = ScoreMod


class FlexKernelOptions(TypedDict, total=False):
    """Options of torch's kernels, which have no effect here."""

    BACKEND: str
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool


class AuxRequest(NamedTuple):
    """What is wanted besides the result.

    Attributes:
        lse: The logarithm of the sum of exponentials of each query's scores.
        max_scores: The largest score of each query; not offered.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was wanted besides the result, or None.

    Attributes:
        lse: The logarithm of the sum of exponentials of each query's scores.
        max_scores: None.
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    heads, kv_heads = query.shape[1], key.shape[1]
    if not enable_gqa and heads != kv_heads:
        raise ValueError(
            "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={kv_heads}. Try setting enable_gqa=True for GQA."
        )
    if heads % kv_heads:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={kv_heads}."
        )


def _check_batches(query: Tensor, key: Tensor, block_mask: BlockMask | None) -> None:
    batches, kv_batches = query.shape[0], key.shape[0]
    if batches != kv_batches and (block_mask is None or kv_batches != 1):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but "
            f"got block_mask={block_mask}, Bq={batches}, and Bkv={kv_batches}."
        )


def _check_lengths(block_mask: BlockMask, q_len: int, kv_len: int) -> None:
    """The mask has to be of at least as many keys and queries, in whole blocks."""
    made = block_mask.shape[-2:]
    if (q_len, kv_len) == made:
        return
    text = (
        f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q_len} "
        f"and kv_len={kv_len}. As the block mask was created for a "
    )
    if q_len > made[0] or kv_len > made[1]:
        raise ValueError(
            f"{text}smaller length than you're using it for, you likely need to create a new "
            "block mask."
        )
    raise ValueError(
        f"{text}larger length than you're using it for, you can either create a new block mask "
        "with the correct length, or cut this one by calling block_mask._adjust(q_len, kv_len), "
        "which keeps its upper left corner."
    )


def _allowed(block_mask: BlockMask, shape: tuple[int, int, int, int]) -> Tensor:
    """Where queries may look: in full blocks, and in partial ones where the function says so."""
    size = block_mask.BLOCK_SIZE

    def spread(counts: Tensor | None, indices: Tensor | None) -> Tensor | None:
        if counts is None or indices is None:
            return None
        blocks = BlockMask.from_kv_blocks(counts, indices, compute_q_blocks=False).to_dense() > 0
        rows = blocks.repeat_interleave(size[0], dim=-2)[..., : shape[-2], :]
        return rows.repeat_interleave(size[1], dim=-1)[..., : shape[-1]]

    by_function = block_mask.mask_mod(*positions(shape))
    partial = spread(block_mask.kv_num_blocks, block_mask.kv_indices)
    assert partial is not None
    allowed = by_function & partial
    full = spread(block_mask.full_kv_num_blocks, block_mask.full_kv_indices)
    return allowed if full is None else allowed | full


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query key^T * scale)) value, where *block_mask* allows it.

    Args:
        query: ``(B, Hq, L, E)``.
        key: ``(B, H, S, E)``.
        value: ``(B, H, S, V)``.
        score_mod: A function of the scores and the positions of batch, head, query and key that
            returns other scores.
        block_mask: Which keys a query may look at; all by default. A query without any gives 0.
        scale: 1 / sqrt(E) if absent.
        enable_gqa: Key and value may have fewer heads, a divisor of the query's.
        return_lse: Give the pair with the logarithm of the sum of exponentials; an older way.
        kernel_options: Accepted.
        return_aux: What is wanted besides.

    Returns:
        ``(B, Hq, L, V)`` in the dtype of *query*; with *return_aux* a pair with an `AuxOutput`.
        Scores are float32, or float64 for a *query* of that dtype.

    Raises:
        ValueError: Sizes that do not fit together, or both ways of asking for more.
        NotImplementedError: Tensors without four dimensions, or the largest scores are wanted.

    Source:
        torch.nn.attention.flex_attention.flex_attention.
    """
    _check_sizes(query, key, value, enable_gqa)
    _check_batches(query, key, block_mask)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if return_aux is not None and return_aux.max_scores:
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")
    if return_lse:
        warnings.warn(
            "return_lse is deprecated. Please use return_aux=AuxRequest(lse=True) instead.",
            FutureWarning,
            stacklevel=2,
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    precise = shmtensor.float64 if query.dtype is shmtensor.float64 else shmtensor.float32

    scores = shmtensor.matmul(query, key.transpose(-2, -1)).to(precise) * factor
    batch, head, q_len, kv_len = scores.shape
    shape = (batch, head, q_len, kv_len)
    if score_mod is not None:
        scores = score_mod(scores, *positions(shape)).to(precise).expand(shape)
    if block_mask is not None:
        _check_lengths(block_mask, q_len, kv_len)
        scores = scores.masked_fill(~_allowed(block_mask, shape), -math.inf)
    lse = scores.logsumexp(dim=-1, keepdim=True)
    is_masked_out = lse == -math.inf
    weights = (scores - lse.masked_fill(is_masked_out, 0.0)).exp()
    result = shmtensor.matmul(weights, value.to(precise)).to(query.dtype)
    if return_lse:
        return result, lse.squeeze(-1)
    if return_aux is not None:
        return result, AuxOutput(lse.squeeze(-1) if return_aux.lse else None)
    return result
