"""Attention. Source: torch.nn.functional."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import shmtensor
from shmtensor import _C
from shmtensor._core._attention_choice import check_any_is_allowed
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn._causal_bias import CausalBias
from shmtensor.nn._padding import pad
from shmtensor.nn.functional.conv import linear

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


@overridable(as_given=True)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query key^T * scale + mask) value.

    Args:
        query: ``(*, H, L, E)``.
        key: ``(*, H, S, E)``, of the same dtype.
        value: ``(*, H, S, V)``, of the same dtype.
        attn_mask: Broadcasts to ``(*, H, L, S)``: bool, true where it may look, or added.
        dropout_p: Probability with which a weight becomes zero.
        is_causal: Look at no key behind the query's own position. Besides *attn_mask* only for four
            dimensions without dropout, where the mask needs no gradient; both hold then.
        scale: 1 / sqrt(E) if absent.
        enable_gqa: Key and value may have fewer heads, a divisor of the query's.

    Returns:
        ``(*, H, L, V)``.

    Raises:
        RuntimeError: Shapes or dtypes that do not fit together, a mask besides *is_causal* in
            other cases, or `nn.attention.sdpa_kernel` allows no way of computing it.
        ValueError: A `nn.attention.bias.CausalBias` besides *is_causal*.

    Source:
        Vaswani et al., "Attention is all you need", 2017, eq. 1.
    """
    check_any_is_allowed()
    if is_causal and isinstance(attn_mask, CausalBias):
        raise ValueError("CausalBias should not be used with causal=True")
    return _C._nn.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _canonical_mask(
    mask: Tensor | None,
    name: str,
    other: Tensor | None,
    dtype: shmtensor.dtype,
    other_name: str = "attn_mask",
) -> Tensor | None:
    """A mask as what is added to scores: true means that nobody may look there."""
    if mask is None:
        return None
    if mask.dtype is not shmtensor.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype is not mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return shmtensor.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether the inputs are batched."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    word, other, mask_dims = ("batched", "3-D", 2) if batched else ("unbatched", "2-D", 1)
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise AssertionError(
            f"For {word} ({query.dim()}-D) `query`, expected `key` and `value` to be {other} but "
            f"found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != mask_dims:
        raise AssertionError(
            f"For {word} ({query.dim()}-D) `query`, expected `key_padding_mask` to be `None` or "
            f"{mask_dims}-D but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(
                f"For {word} ({query.dim()}-D) `query`, expected `attn_mask` to be `None`, 2-D or "
                f"3-D but found {attn_mask.dim()}-D tensor instead"
            )
        want = (num_heads, query.shape[0], key.shape[0])
        if not batched and attn_mask.dim() == 3 and tuple(attn_mask.shape) != want:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {want} but got {attn_mask.shape}"
            )
    return batched


def _project(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The three inputs through their thirds of the packed projection."""
    if key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if key is value and query is key:
        q, k, v = linear(query, weight, bias).chunk(3, -1)
        return q.contiguous(), k.contiguous(), v.contiguous()
    return _project_each((query, key, value), weight.chunk(3), bias)


def _project_separately(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: tuple[Tensor | None, ...],
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The three inputs through projections of their own."""
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    given = []
    for name, weight in zip("qkv", weights, strict=True):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        given.append(weight)
    return _project_each((query, key, value), given, bias)


def _project_each(
    inputs: tuple[Tensor, ...], weights: Sequence[Tensor], bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    biases = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip(inputs, weights, biases, strict=True))
    return q, k, v


def _heads(x: Tensor, rows: int, head_dim: int) -> Tensor:
    """``(L, N, E)`` to ``(N * H, L, E / H)``."""
    return x.view(x.shape[0], rows, head_dim).transpose(0, 1)


def _given_heads(x: Tensor, name: str, rows: int, head_dim: int) -> Tensor:
    if x.size(0) != rows:
        raise AssertionError(f"expecting {name}.size(0) of {rows}, but got {x.size(0)}")
    if x.size(2) != head_dim:
        raise AssertionError(f"expecting {name}.size(2) of {head_dim}, but got {x.size(2)}")
    return x


def _with_seen_key(mask: Tensor | None) -> Tensor | None:
    """A mask for one more key, which everybody may look at."""
    return None if mask is None else pad(mask, (0, 1))


def _of_every_head(hidden: Tensor, batch: int, num_heads: int, keys: int) -> Tensor:
    """``key_padding_mask`` as ``(N * H, 1, S)``."""
    for dim, size in enumerate((batch, keys)):
        if hidden.shape[dim] != size:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {size}, but got {hidden.shape[dim]}"
            )
    each = hidden.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1)
    return each.reshape(batch * num_heads, 1, keys)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    num_heads: int,
    is_causal: bool,
) -> Tensor:
    """``(L, N, H, E / H)``, without keeping the weights of the keys."""
    batch, head_dim = q.size(0) // num_heads, q.size(2)
    if mask is not None:
        plain = mask.size(0) == 1
        mask = mask.unsqueeze(0) if plain else mask.view(batch, num_heads, mask.size(1), k.size(1))
    q, k, v = (t.view(batch, num_heads, t.size(1), head_dim) for t in (q, k, v))
    return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal).permute(2, 0, 1, 3)


def _attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """``(L, N * H, E / H)``, and the weights of the keys, ``(N * H, L, S)``."""
    scores = q * math.sqrt(1.0 / q.size(2)) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1)
    if dropout_p > 0.0:
        weights = shmtensor.dropout(weights, dropout_p, True)
    return (weights @ v).transpose(0, 1), weights


@overridable
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads between projections; see ``nn.MultiheadAttention``.

    Args:
        query: ``(L, N, E)`` or ``(L, E)``.
        key: ``(S, N, Ek)`` or ``(S, Ek)``.
        value: ``(S, N, Ev)`` or ``(S, Ev)``.
        embed_dim_to_check: E.
        num_heads: H, a divisor of E.
        in_proj_weight: ``(3 E, E)``, the packed projections.
        in_proj_bias: ``(3 E,)``.
        bias_k: ``(1, 1, E)``, one more key for every sequence.
        bias_v: ``(1, 1, E)``, its value.
        add_zero_attn: Add a key and a value of zeros.
        dropout_p: Probability with which a weight becomes zero in training.
        out_proj_weight: ``(E, E)``.
        out_proj_bias: ``(E,)``.
        training: Whether dropout is applied.
        key_padding_mask: ``(N, S)`` or ``(S,)``; true (or minus infinity) hides a key.
        need_weights: Also give the attention's weights.
        attn_mask: ``(L, S)`` or ``(N * H, L, S)``; true (or minus infinity) hides.
        use_separate_proj_weight: Use the three weights below instead of the packed one.
        q_proj_weight: ``(E, E)``.
        k_proj_weight: ``(E, Ek)``.
        v_proj_weight: ``(E, Ev)``.
        static_k: ``(N * H, S, E / H)``, used instead of projected keys.
        static_v: ``(N * H, S, E / H)``, likewise.
        average_attn_weights: Give the mean of the heads' weights.
        is_causal: A hint that *attn_mask*, which must be given, is causal: the mask is not read
            unless *key_padding_mask* is given or weights are needed.

    Returns:
        ``(L, N, E)`` or ``(L, E)``, and ``(N, L, S)``, ``(N, H, L, S)`` or None.

    Raises:
        AssertionError: Shapes do not fit together.
        RuntimeError: *is_causal* without *attn_mask*.
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    if width != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}"
        )
    head_dim = width // num_heads
    if head_dim * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    hidden = _canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, query.dtype)
    mask = None if is_causal else _canonical_mask(attn_mask, "attn_mask", None, query.dtype)
    if use_separate_proj_weight:
        own = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _project_separately(query, key, value, own, in_proj_bias)
    else:
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    rows = batch * num_heads
    if mask is not None:
        mask = _fitting_mask(mask, (length, key.size(0)), rows)
    if bias_k is not None and bias_v is not None:
        for static, name in ((static_k, "key"), (static_v, "value")):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k = shmtensor.cat([k, bias_k.repeat(1, batch, 1)])
        v = shmtensor.cat([v, bias_v.repeat(1, batch, 1)])
        mask, hidden = _with_seen_key(mask), _with_seen_key(hidden)
    given_k = None if static_k is None else _given_heads(static_k, "static_k", rows, head_dim)
    given_v = None if static_v is None else _given_heads(static_v, "static_v", rows, head_dim)
    q = _heads(q, rows, head_dim)
    k = _heads(k, rows, head_dim) if given_k is None else given_k
    v = _heads(v, rows, head_dim) if given_v is None else given_v
    if add_zero_attn:
        k = shmtensor.cat([k, k.new_zeros((rows, 1, head_dim))], 1)
        v = shmtensor.cat([v, v.new_zeros((rows, 1, head_dim))], 1)
        mask, hidden = _with_seen_key(mask), _with_seen_key(hidden)
    if hidden is not None:
        each = _of_every_head(hidden, batch, num_heads, k.size(1))
        mask = each if mask is None else mask + each
    dropout_p = dropout_p if training else 0.0
    weights: Tensor | None = None
    if need_weights:
        result, weights = _attend_with_weights(q, k, v, mask, dropout_p)
        weights = weights.view(batch, num_heads, length, k.size(1))
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        result = _attend(q, k, v, mask, dropout_p, num_heads, is_causal)
    result = result.reshape(length * batch, width)
    result = linear(result, out_proj_weight, out_proj_bias).view(length, batch, width)
    if batched:
        return result, weights
    return result.squeeze(1), None if weights is None else weights.squeeze(0)


def _fitting_mask(mask: Tensor, plane: tuple[int, int], rows: int) -> Tensor:
    """``attn_mask`` as three dimensions, with its shape checked."""
    want = plane if mask.dim() == 2 else (rows, *plane)
    if tuple(mask.shape) != want:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {want}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask
