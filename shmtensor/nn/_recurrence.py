"""Recurrent cells and the walk of a layer along time.

A cell is a function of what the inputs contribute to the gates, ``(N, G)``, and the state, a tuple
of tensors ``(N, H)``. A layer multiplies all inputs by the input weights at once, then walks. At a
step the first ``sizes[t]`` sequences of the batch are still running: sequences are sorted by
length, longest first, so the state only shrinks forward in time and only grows backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.functional import linear, relu

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, Sequence[Tensor | None]], State]


def tanh_step(gates: Tensor, state: State, weights: Sequence[Tensor | None]) -> State:
    """tanh(W x + U h)."""
    hidden, bias = weights[:2]
    assert hidden is not None
    return ((gates + linear(state[0], hidden, bias)).tanh(),)


def relu_step(gates: Tensor, state: State, weights: Sequence[Tensor | None]) -> State:
    """max(0, W x + U h)."""
    hidden, bias = weights[:2]
    assert hidden is not None
    return (relu(gates + linear(state[0], hidden, bias)),)


def lstm_step(gates: Tensor, state: State, weights: Sequence[Tensor | None]) -> State:
    """Gates in the order input, forget, cell, output; a third weight projects h."""
    hidden, bias, *projection = weights
    assert hidden is not None
    h, c = state
    i, f, g, o = (gates + linear(h, hidden, bias)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    if projection and projection[0] is not None:
        h = linear(h, projection[0])
    return h, c


def gru_step(gates: Tensor, state: State, weights: Sequence[Tensor | None]) -> State:
    """Gates in the order reset, update, new."""
    hidden, bias = weights[:2]
    assert hidden is not None
    h = state[0]
    from_input = gates.chunk(3, -1)
    from_state = linear(h, hidden, bias).chunk(3, -1)
    r = (from_input[0] + from_state[0]).sigmoid()
    z = (from_input[1] + from_state[1]).sigmoid()
    n = (from_input[2] + r * from_state[2]).tanh()
    return (n + z * (h - n),)


STEPS: dict[str, Cell] = {
    "RNN_TANH": tanh_step,
    "RNN_RELU": relu_step,
    "LSTM": lstm_step,
    "GRU": gru_step,
}


def _walk_forward(
    cell: Cell, gates: Sequence[Tensor], state: State, weights: Sequence[Tensor | None]
) -> tuple[list[Tensor], State]:
    outputs: list[Tensor] = []
    finished: list[State] = []  # the shortest sequences first
    for gate in gates:
        running = gate.size(0)
        if running < state[0].size(0):
            finished.append(tuple(s[running:] for s in state))
            state = tuple(s[:running] for s in state)
        state = cell(gate, state, weights)
        outputs.append(state[0])
    if finished:
        parts = [state, *reversed(finished)]
        state = tuple(shmtensor.cat([p[k] for p in parts]) for k in range(len(state)))
    return outputs, state


def _walk_backward(
    cell: Cell, gates: Sequence[Tensor], first: State, weights: Sequence[Tensor | None]
) -> tuple[list[Tensor], State]:
    outputs: list[Tensor] = []
    state = tuple(s[: gates[-1].size(0)] for s in first)
    for gate in reversed(gates):
        running, known = gate.size(0), state[0].size(0)
        if running > known:
            state = tuple(
                shmtensor.cat([s, f[known:running]]) for s, f in zip(state, first, strict=True)
            )
        state = cell(gate, state, weights)
        outputs.append(state[0])
    outputs.reverse()
    return outputs, state


def run_direction(
    mode: str,
    input: Tensor,
    sizes: Sequence[int],
    state: State,
    weights: Sequence[Tensor | None],
    backward: bool,
) -> tuple[Tensor, State]:
    """One layer in one direction.

    Args:
        mode: A key of ``STEPS``.
        input: ``(sum(sizes), I)``: the inputs of all steps, one step after the other.
        sizes: How many sequences run at each step, never growing.
        state: The first state, of the whole batch.
        weights: Input weight and hidden weight, input bias and hidden bias (or None), and for
            a projection its weight.
        backward: Walk from the last step to the first.

    Returns:
        ``(sum(sizes), H)`` and the last state of every sequence.
    """
    w_input, w_hidden, b_input, b_hidden, *rest = weights
    assert w_input is not None
    gates = linear(input, w_input, b_input).split(list(sizes))
    walk = _walk_backward if backward else _walk_forward
    outputs, last = walk(STEPS[mode], gates, state, [w_hidden, b_hidden, *rest])
    return shmtensor.cat(outputs), last
