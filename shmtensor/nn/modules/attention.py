"""Attention of several heads. Source: torch.nn.MultiheadAttention."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.linear import NonDynamicallyQuantizableLinear
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter


class MultiheadAttention(Module):
    """Attention of several heads between learned projections.

    Args:
        embed_dim: E, the width of the query and of the output.
        num_heads: H, a divisor of E.
        dropout: Probability with which a weight becomes zero in training.
        bias: Whether the projections have offsets.
        add_bias_kv: Add a learned key and value to every sequence.
        add_zero_attn: Add a key and a value of zeros.
        kdim: Width of the key; E if absent.
        vdim: Width of the value; E if absent.
        batch_first: ``(N, L, E)`` instead of ``(L, N, E)``.
        device: Where the parameters are.
        dtype: Their type.

    Source:
        Vaswani et al., "Attention is all you need", 2017.
    """

    __module__ = "shmtensor.nn.modules.activation"  # where torch has it

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def make(there: bool, *shape: int) -> Parameter | None:
            if not there:
                return None
            return Parameter(shmtensor.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", make(same, 3 * embed_dim, embed_dim))
        self.register_parameter("q_proj_weight", make(not same, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", make(not same, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", make(not same, embed_dim, self.vdim))
        self.register_parameter("in_proj_bias", make(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.register_parameter("bias_k", make(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", make(add_bias_kv, 1, 1, embed_dim))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight)
        for weight in (*weights, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
        if self.out_proj.bias is not None:
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Let every query look at the keys.

        Args:
            query: ``(L, N, E)``, ``(N, L, E)`` with *batch_first*, or ``(L, E)``.
            key: ``(S, N, kdim)``, likewise.
            value: ``(S, N, vdim)``, likewise.
            key_padding_mask: ``(N, S)`` or ``(S,)``; true (or minus infinity) hides a key.
            need_weights: Also give the attention's weights.
            attn_mask: ``(L, S)`` or ``(N * H, L, S)``; true (or minus infinity) hides.
            average_attn_weights: Give the mean of the heads' weights.
            is_causal: A hint that *attn_mask*, which must be given, is causal: the mask is not read
                unless *key_padding_mask* is given or weights are needed.

        Returns:
            The query's shape, and ``(N, L, S)``, ``(N, H, L, S)`` or None.
        """
        is_transposed = self.batch_first and query.dim() == 3
        if is_transposed:
            if key is value:
                first = query.transpose(0, 1)
                second = first if query is key else key.transpose(0, 1)
                query, key, value = first, second, second
            else:
                query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if is_transposed else result), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Add both masks up, for attention of a sequence to itself.

        Args:
            attn_mask: ``(L, L)`` or ``(N * H, L, L)``, of numbers.
            key_padding_mask: ``(N, L)``, of numbers.
            query: ``(N, L, E)``.

        Returns:
            The mask, ``(N, H, L, L)``, and 2; *key_padding_mask* alone and 1; or None and None.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            every = attn_mask.view(1, 1, length, length)
            merged = every.expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            hidden = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + hidden.expand(-1, self.num_heads, -1, -1)
        return merged, 2
