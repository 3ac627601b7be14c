"""Transformer layers and stacks of them. Source: torch.nn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.functional.attention import _canonical_mask
from shmtensor.nn.modules.activation import GELU, MultiheadAttention, ReLU
from shmtensor.nn.modules.container import ModuleList
from shmtensor.nn.modules.dropout import Dropout
from shmtensor.nn.modules.linear import Linear
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.normalization import LayerNorm

Activation = Callable[[Tensor], Tensor]


def _get_activation_fn(given: str | Activation) -> Activation:
    if not isinstance(given, str):
        return given
    if given == "relu":
        return F.relu
    if given == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {given}")


class _Layer(Module):
    """What encoder and decoder layers are made of: attentions, two linear maps, norms, dropouts.

    There is a norm and a dropout for each attention and for the feed-forward part. Modules are made
    in torch's order, in which they draw their first values.
    """

    _attentions: ClassVar[tuple[str, ...]]
    activation: Activation

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias=bias, batch_first=batch_first, **options
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        n_parts = len(self._attentions) + 1
        for i in range(1, n_parts + 1):
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for i in range(1, n_parts + 1):
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)
        #: Which of the two it is: 1, 2, or 0 for neither.
        self.activation_relu_or_gelu = 0
        if self.activation is F.relu or isinstance(self.activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif self.activation is F.gelu or isinstance(self.activation, GELU):
            self.activation_relu_or_gelu = 2

    def _expand(self, x: Tensor) -> Tensor:
        hidden = self.dropout(self.activation(self.linear1(x)))
        result: Tensor = self.linear2(hidden)
        return result


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a network of two layers, each with a residual and a norm.

    Args:
        d_model: Width E.
        nhead: Number of heads.
        dim_feedforward: Width between the two layers.
        dropout: Probability of dropout everywhere.
        activation: ``'relu'``, ``'gelu'`` or a function, between the two layers.
        layer_norm_eps: Of the norms.
        batch_first: ``(N, S, E)`` instead of ``(S, N, E)``.
        norm_first: Normalise before, not after, each part.
        bias: Whether linear maps and norms have offsets.
        device: Where the parameters are.
        dtype: Their type.

    Source:
        Vaswani et al., "Attention is all you need", 2017.
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """``(S, N, E)`` to the same shape; masks as ``MultiheadAttention``."""
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src_mask, src.dtype, "src_mask"
        )
        src_mask = _canonical_mask(src_mask, "src_mask", None, src.dtype)

        def look(x: Tensor) -> Tensor:
            seen = self.self_attn(
                x,
                x,
                x,
                attn_mask=src_mask,
                key_padding_mask=src_key_padding_mask,
                need_weights=False,
                is_causal=is_causal,
            )[0]
            result: Tensor = self.dropout1(seen)
            return result

        x = src
        if self.norm_first:
            x = x + look(self.norm1(x))
            last: Tensor = self.dropout2(self._expand(self.norm2(x)))
            return x + last
        x = self.norm1(x + look(x))
        result: Tensor = self.norm2(x + self.dropout2(self._expand(x)))
        return result


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a network of two layers.

    Arguments as ``TransformerEncoderLayer``.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``(T, N, E)`` and the encoder's ``(S, N, E)`` to ``(T, N, E)``."""

        def look(x: Tensor) -> Tensor:
            seen = self.self_attn(
                x,
                x,
                x,
                attn_mask=tgt_mask,
                key_padding_mask=tgt_key_padding_mask,
                is_causal=tgt_is_causal,
                need_weights=False,
            )[0]
            result: Tensor = self.dropout1(seen)
            return result

        def recall(x: Tensor) -> Tensor:
            seen = self.multihead_attn(
                x,
                memory,
                memory,
                attn_mask=memory_mask,
                key_padding_mask=memory_key_padding_mask,
                is_causal=memory_is_causal,
                need_weights=False,
            )[0]
            result: Tensor = self.dropout2(seen)
            return result

        x = tgt
        if self.norm_first:
            x = x + look(self.norm1(x))
            x = x + recall(self.norm2(x))
            last: Tensor = self.dropout3(self._expand(self.norm3(x)))
            return x + last
        x = self.norm1(x + look(x))
        x = self.norm2(x + recall(x))
        result: Tensor = self.norm3(x + self.dropout3(self._expand(x)))
        return result


def _copies(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _is_causal(mask: Tensor | None, given: bool | None) -> bool:
    """Whether *mask* hides exactly the future, unless *given* says it."""
    if given is not None or mask is None:
        return bool(given)
    if mask.dim() != 2 or mask.size(0) != mask.size(1):
        return False
    causal = Transformer.generate_square_subsequent_mask(mask.size(0), dtype=mask.dtype)
    return shmtensor.equal(mask, causal)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: The layer; copies of it are used.
        num_layers: Their number.
        norm: A last norm.
        enable_nested_tensor: Has no effect.
        mask_check: Has no effect.
    """

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """``(S, N, E)`` to the same shape through all layers, which get masks of numbers."""
        src_key_padding_mask = _canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", mask, src.dtype, "mask"
        )
        mask = _canonical_mask(mask, "mask", None, src.dtype)
        causal = _is_causal(mask, is_causal)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of decoder layers; arguments as ``TransformerEncoder``."""

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``(T, N, E)`` and the encoder's ``(S, N, E)`` to ``(T, N, E)`` through all layers."""
        causal = _is_causal(tgt_mask, tgt_is_causal)
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: Width E.
        nhead: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Width between the two linear maps of a layer.
        dropout: Probability of dropout everywhere.
        activation: ``'relu'``, ``'gelu'`` or a function.
        custom_encoder: An encoder to use instead.
        custom_decoder: A decoder to use instead.
        layer_norm_eps: Of the norms.
        batch_first: ``(N, S, E)`` instead of ``(S, N, E)``.
        norm_first: Normalise before, not after, each part.
        bias: Whether linear maps and norms have offsets.
        device: Where the parameters are.
        dtype: Their type.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        flags = (batch_first, norm_first, bias)
        self.encoder: Module
        self.decoder: Module
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*sizes, *flags, **options),
                num_encoder_layers,
                LayerNorm(d_model, layer_norm_eps, bias=bias, **options),
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*sizes, *flags, **options),
                num_decoder_layers,
                LayerNorm(d_model, layer_norm_eps, bias=bias, **options),
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """``(sz, sz)``: minus infinity above the diagonal, 0 elsewhere."""
        dtype = shmtensor.get_default_dtype() if dtype is None else dtype
        if dtype is shmtensor.bool:
            return shmtensor.ones((sz, sz), dtype=dtype, device=device).triu(1)
        full = shmtensor.full((sz, sz), float("-inf"), dtype=dtype, device=device)
        return full.triu(1)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``(S, N, E)`` and ``(T, N, E)`` to ``(T, N, E)``; masks as ``MultiheadAttention``.

        Raises:
            RuntimeError: Batch sizes differ, or a width is not *d_model*.
        """
        batch = 0 if self.batch_first and src.dim() == 3 else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        result: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return result
