"""Layers and losses as torch's own namespace has them: flat arguments, reductions as codes.

The reductions are 0 ``none``, 1 ``mean``, 2 ``sum``. What is said here is only what differs from
the functions of the same name in `shmtensor.nn.functional`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._arguments import checked
from shmtensor._core._functions import require_tensors
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn._recurrence import STEPS, State, run_direction
from shmtensor.nn.functional.activation import sloped_at_random
from shmtensor.nn.functional.dropouts import drop_to_saturation
from shmtensor.nn.functional.embeddings import bags_of

__all__ = [
    "affine_grid_generator",
    "alpha_dropout",
    "alpha_dropout_",
    "cosine_embedding_loss",
    "ctc_loss",
    "embedding_bag",
    "embedding_renorm_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "gru",
    "gru_cell",
    "hinge_embedding_loss",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d_with_indices",
    "norm_except_dim",
    "poisson_nll_loss",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "rrelu",
    "triplet_margin_loss",
]

_REDUCTIONS = ("none", "mean", "sum")


def _name_of(reduction: int) -> str:
    if not 0 <= reduction < len(_REDUCTIONS):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _REDUCTIONS[reduction]


# --- losses ------------------------------------------------------------------------------------


@overridable(as_given=True)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.cosine_embedding_loss` with the reduction as a code."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_name_of(reduction))


@overridable(as_given=True)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """`nn.functional.ctc_loss` with the reduction as a code."""
    lengths = input_lengths, target_lengths
    return F.ctc_loss(log_probs, targets, *lengths, blank, _name_of(reduction), zero_infinity)


@overridable(as_given=True)
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.hinge_embedding_loss` with the reduction as a code."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_name_of(reduction))


@overridable(as_given=True)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """`nn.functional.margin_ranking_loss` with the reduction as a code."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_name_of(reduction))


@overridable(as_given=True)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`nn.functional.poisson_nll_loss` with the reduction as a code."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_name_of(reduction)
    )


@overridable(as_given=True)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """`nn.functional.triplet_margin_loss` with the reduction as a code."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_name_of(reduction)
    )


# --- recurrent layers ----------------------------------------------------------------------------


def _parts(
    params: Sequence[Tensor], has_biases: bool, runs: int, projected: bool
) -> list[list[Tensor | None]]:
    """The weights of each layer and direction, in the order of ``run_direction``."""
    for k, value in enumerate(params):
        if not isinstance(value, Tensor):
            raise TypeError(
                "argument 'params' must be tuple of Tensors, but found element of type "
                f"{type(value).__name__} at pos {k}"
            )
    each = (4 if has_biases else 2) + projected
    if len(params) != runs * each:
        raise RuntimeError(f"Expected {runs * each} weights of {runs} runs, got {len(params)}")
    cut = [list(params[k * each : (k + 1) * each]) for k in range(runs)]
    if has_biases:
        return [list(part) for part in cut]
    return [[*part[:2], None, None, *part[2:]] for part in cut]


def _layers(
    mode: str,
    rows: Tensor,
    sizes: Sequence[int],
    state: State,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, State]:
    directions = 2 if bidirectional else 1
    projected = mode == "LSTM" and state[0].size(-1) != state[1].size(-1)
    weights = _parts(params, has_biases, num_layers * directions, projected)
    lasts: list[State] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            first = tuple(s[k] for s in state)
            output, last = run_direction(mode, rows, sizes, first, weights[k], direction == 1)
            outputs.append(output)
            lasts.append(last)
        rows = outputs[0] if len(outputs) == 1 else shmtensor.cat(outputs, -1)
        if dropout and train and layer < num_layers - 1:
            rows = F.dropout(rows, dropout)
    return rows, tuple(shmtensor.stack([s[k] for s in lasts]) for k in range(len(state)))


def _recurrent(
    mode: str,
    input: Tensor,
    hx: Any,
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool = False,
) -> tuple[Tensor, ...]:
    """``(input, hx, params, ..., batch_first)``."""
    require_tensors(mode.lower(), input=input)
    if input.dim() != 3:
        raise RuntimeError(f"rnn: expected an input of 3 dimensions, got {input.dim()}")
    state = tuple(hx) if mode == "LSTM" else (hx,)
    sequence = input.transpose(0, 1) if batch_first else input
    steps, batch = sequence.size(0), sequence.size(1)
    rows, last = _layers(
        mode,
        sequence.reshape(steps * batch, sequence.size(2)),
        [batch] * steps,
        state,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
    )
    output = rows.reshape(steps, batch, rows.size(-1))
    return (output.transpose(0, 1) if batch_first else output, *last)


def _packed(
    mode: str, data: Tensor, batch_sizes: Tensor, hx: Any, params: Any, *options: Any
) -> tuple[Tensor, ...]:
    """``(data, batch_sizes, hx, params, ...)``."""
    state = tuple(hx) if mode == "LSTM" else (hx,)
    sizes = [int(n) for n in batch_sizes.tolist()]
    rows, last = _layers(mode, data, sizes, state, params, *options)
    return (rows, *last)


@overridable(as_given=True)
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Run an LSTM of several layers: outputs and the last hidden and cell states.

    ``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)``
    with *input* ``(L, N, I)``, or ``(N, L, I)``; *hx* ``(h, c)``, each
    ``(layers * directions, N, H)``; *params* the input and hidden weights, then biases, of each
    layer and direction. Or
    ``lstm(data, batch_sizes, hx, params, ...)`` without *batch_first* for packed sequences.

    Raises:
        RuntimeError: Shapes or the number of weights do not fit.
    """
    is_packed = (len(args) > 1 and isinstance(args[1], Tensor)) or "batch_sizes" in kwargs
    return (_packed if is_packed else _recurrent)("LSTM", *args, **kwargs)  # type: ignore[return-value]


def _one_state(mode: str, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    is_packed = (len(args) > 2 and isinstance(args[2], Tensor)) or "batch_sizes" in kwargs
    return (_packed if is_packed else _recurrent)(mode, *args, **kwargs)  # type: ignore[return-value]


@overridable(as_given=True)
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run a GRU as `lstm` runs an LSTM; *hx* is one tensor."""
    return _one_state("GRU", *args, **kwargs)


@overridable(as_given=True)
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run an Elman network as `lstm` runs an LSTM; *hx* is one tensor."""
    return _one_state("RNN_TANH", *args, **kwargs)


@overridable(as_given=True)
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Run an Elman network with relu as `lstm` runs an LSTM; *hx* is one tensor."""
    return _one_state("RNN_RELU", *args, **kwargs)


def _cell(
    mode: str,
    input: Tensor,
    state: State,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> State:
    name = f"{mode.lower()}_cell"
    require_tensors(name, input=input, hx=state[0], w_ih=w_ih, w_hh=w_hh)
    return STEPS[mode](F.linear(input, w_ih, b_ih), state, [w_hh, b_hh])


@overridable(as_given=True)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: *input* ``(N, I)``, *hx* ``(h, c)``; the next h and c."""
    if not isinstance(hx, (tuple, list)):
        kind = type(hx).__name__
        raise TypeError(
            f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {kind}"
        )
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    h, c = _cell("LSTM", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return h, c


@overridable(as_given=True)
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a GRU: *input* ``(N, I)``, *hx* ``(N, H)``; the next state."""
    return _cell("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@overridable(as_given=True)
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an Elman network: the next state."""
    return _cell("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@overridable(as_given=True)
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of an Elman network with relu: the next state."""
    return _cell("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


# --- others --------------------------------------------------------------------------------------


@overridable(as_given=True)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`."""
    return F.affine_grid(theta, list(size), align_corners)


@overridable(as_given=True)
@checked
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return drop_to_saturation(input, p, train, inplace=False, per_channel=False)


@overridable(as_given=True)
@checked
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout`."""
    return drop_to_saturation(input, p, train, inplace=False, per_channel=True)


@overridable(as_given=True)
@checked
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` in place."""
    return drop_to_saturation(input, p, train, inplace=True, per_channel=False)


@overridable(as_given=True)
@checked
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` in place."""
    return drop_to_saturation(input, p, train, inplace=True, per_channel=True)


@overridable(as_given=True)
@checked
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    """`nn.functional.rrelu`, with slopes from a generator."""
    return sloped_at_random(input, lower, upper, training, False, generator)


@overridable(as_given=True)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` with *mode* 0 ``sum``, 1 ``mean`` or 2 ``max``.

    Returns:
        The bags; the bag of each index; how many indices each bag has, without padding; and these
        again, or for maxima the row that each element is from.
    """
    if mode not in range(3):
        raise RuntimeError(f"embedding_bag(): expected a mode of 0, 1 or 2, got {mode}")
    made = F.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=("sum", "mean", "max")[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    bags = bags_of(indices, offsets, include_last_offset)
    is_counted = shmtensor.ones_like(indices, dtype=shmtensor.bool)
    if padding_idx is not None:
        is_counted = indices != padding_idx % weight.shape[0]
    sizes = shmtensor.bincount(bags[is_counted], minlength=made.shape[0])
    if mode != 2:
        return made, bags, sizes, sizes
    values = weight.detach()[indices]
    is_max = (values == made.detach()[bags]) & is_counted.unsqueeze(1)
    rows = indices.unsqueeze(1).expand_as(values).where(is_max, -1)
    index = bags.unsqueeze(1).expand_as(rows)
    best = rows.new_full(made.shape, -1).scatter_reduce_(0, index, rows, "amax").clamp_min(0)
    return made, bags, sizes, best


@overridable(as_given=True)
@checked
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten those rows of *input* that *indices* name and that are longer than *max_norm*."""
    rows = indices.reshape(-1).unique()
    with shmtensor.no_grad():
        chosen = input.index_select(0, rows)
        norms = chosen.norm(norm_type, dim=1, keepdim=True)
        factors = shmtensor.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        input.index_copy_(0, rows, (chosen * factors).to(input.dtype))
    return input


@overridable(as_given=True)
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """`nn.functional.max_pool1d` with ``return_indices=True``."""
    stride = stride if stride != () and stride != [] else None
    values, indices = F.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=True
    )
    return values, indices


@overridable(as_given=True)
@checked
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The *pow*-norm over all dimensions but *dim*, which keep size 1; over all if *dim* is -1."""
    if dim == -1:
        return v.norm(pow)
    shape = [1] * v.dim()
    shape[dim] = v.size(dim)
    return v.transpose(0, dim).reshape(v.size(dim), -1).norm(pow, 1).reshape(shape)
