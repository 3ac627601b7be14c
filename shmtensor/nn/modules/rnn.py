"""Recurrent layers and cells. Source: torch.nn."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._autocast import in_lower_precision
from shmtensor._core._autocast import is_on as autocast_is_on
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn._recurrence import STEPS, State, run_direction
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter
from shmtensor.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from typing_extensions import Self

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}

#: What torch keeps in a recurrent layer besides the parameters; here it follows from them.
_DERIVED = ("_all_weights", "_flat_weights_names", "_flat_weights")


#: Of a layer and direction, in the order of ``run_direction``.
_WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")

_EXPECTED = "Expected hidden size {}, got {}"


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _check_size(name: str, value: Any) -> None:
    _check_kind(name, value, int)
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero")


def _two_states(operator: str, hx: Any) -> State:
    if isinstance(hx, Tensor):  # which has rows, as a tuple has items
        raise TypeError(f"{operator}(): argument 'hx' must be tuple of Tensors, not Tensor")
    states = tuple(hx)
    if len(states) != 2:
        raise RuntimeError(f"{operator} expects two hidden states")
    return states


class RNNBase(Module):
    """What the recurrent layers share: weights, checks and the walk over layers.

    Args:
        mode: ``'LSTM'``, ``'GRU'``, ``'RNN_TANH'`` or ``'RNN_RELU'``.
        input_size: I.
        hidden_size: H.
        num_layers: Layers, each fed with the outputs of the one below.
        bias: Whether there are offsets.
        batch_first: ``(N, L, I)`` instead of ``(L, N, I)``.
        dropout: Probability of dropout between layers.
        bidirectional: Also walk from the end to the beginning.
        proj_size: Size that the outputs of an LSTM are projected to; 0 for none.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight_ih_l0: ``(G H, I)``, and so on for each layer, with ``_reverse`` for the other
            direction; ``weight_hh_l0`` ``(G H, H)``, ``bias_ih_l0``, ``bias_hh_l0`` ``(G H,)``.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if (
            isinstance(dropout, bool)
            or not isinstance(dropout, numbers.Number)
            or not (0 <= dropout <= 1)  # type: ignore[operator]
        ):
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                "element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={num_layers}",
                stacklevel=3,
            )
        _check_kind("bias", bias, bool)
        _check_kind("batch_first", batch_first, bool)
        _check_size("input_size", input_size)
        _check_size("hidden_size", hidden_size)
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        outputs = proj_size or hidden_size
        rows = _GATES[mode] * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else outputs * self._directions
            shapes = {"weight_ih": (rows, width), "weight_hh": (rows, outputs)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}  # type: ignore[dict-item]
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in self._suffixes(layer):
                for name, shape in shapes.items():
                    value = Parameter(shmtensor.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(name + suffix, value)
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def _weight(self, name: str) -> Any:
        """A tensor that calls use: what was put in its place, a parameter, or what became of one.

        Pruning, parametrizations and the hooks of `weight_norm` make attributes of parameters.
        """
        own = self.__dict__.get("_own_weights")
        if own is not None:
            return own[name]
        parameter = self._parameters.get(name)
        return getattr(self, name) if parameter is None else parameter

    def _weights(self, suffix: str) -> list[Tensor | None]:
        """In the order of ``run_direction``."""
        there = (True, True, self.bias, self.bias, self.proj_size > 0)
        return [
            self._weight(name + suffix) if is_there else None
            for name, is_there in zip(_WEIGHTS, there, strict=True)
        ]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _all_weights(self) -> list[list[str]]:
        """The names of `all_weights`."""
        kinds: tuple[str, ...] = _WEIGHTS[:4] if self.bias else _WEIGHTS[:2]
        if self.proj_size > 0:
            kinds += _WEIGHTS[4:]
        return [
            [kind + suffix for kind in kinds]
            for layer in range(self.num_layers)
            for suffix in self._suffixes(layer)
        ]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        """The tensors that calls use: the parameters, or what was put here for them."""
        return [self._weight(name) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights: Sequence[Any]) -> None:
        names = self._flat_weights_names
        if len(weights) != len(names):
            raise ValueError(f"expected {len(names)} weights, got {len(weights)}")
        own = dict(zip(names, weights, strict=True))
        if all(own[name] is self._parameters.get(name) for name in names):
            self.__dict__.pop("_own_weights", None)
        else:
            self.__dict__["_own_weights"] = own

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__.get("_own_weights")
        if own is not None and name in own:
            own[name] = value
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self.__dict__.pop("_own_weights", None)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_own_weights", None)
        return state | {name: getattr(self, name) for name in _DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({k: v for k, v in state.items() if k not in _DERIVED})

    def flatten_parameters(self) -> None:
        """Do nothing: every parameter keeps its own memory."""

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ±1/sqrt(H)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _state_widths(self) -> tuple[int, ...]:
        width = self.proj_size or self.hidden_size
        return (width, self.hidden_size) if self.mode == "LSTM" else (width,)

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise if an input does not fit; subclasses may have other rules.

        Args:
            input: Of three dimensions; of two, with *batch_sizes*.
            batch_sizes: Of a packed sequence.

        Raises:
            ValueError: It has another dtype than the weights.
            RuntimeError: It has other dimensions, or its last has another size.
        """
        dtype = self._weight("weight_ih_l0").dtype
        if input.dtype != dtype and not autocast_is_on():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        want = 3 if batch_sizes is None else 2
        if input.dim() != want:
            raise RuntimeError(f"input must have {want} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the size of the first state that goes with an input."""
        rows = self.num_layers * self._directions
        return (rows, self._batch(input, batch_sizes), self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = _EXPECTED
    ) -> None:
        """Raise RuntimeError with *msg* if a state has another size."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if an input or a first state does not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return a state with its sequences in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _first_state(self, input: Tensor, batch: int, hx: Any, batched: bool | None) -> State:
        """What *hx* holds or zeros, with N; *batched* is None where only sizes are looked at."""
        if hx is None:
            rows = self.num_layers * self._directions
            return tuple(input.new_zeros((rows, batch, width)) for width in self._state_widths())
        given = _two_states("lstm", hx) if self.mode == "LSTM" else (hx,)
        if batched is None:
            return given
        want = 3 if batched else 2
        if any(tensor.dim() != want for tensor in given):
            word = "batched 3-D" if batched else "unbatched 2-D"
            dims = ", ".join(f"{tensor.dim()}-D" for tensor in given)
            what, got = (
                ("hx and cx", f"({dims}) tensors")
                if self.mode == "LSTM"
                else ("hx", f"{dims} tensor")
            )
            raise RuntimeError(f"For {word} input, {what} should also be {want}-D but got {got}")
        return given if batched else tuple(t.unsqueeze(1) for t in given)

    def _run(self, rows: Tensor, sizes: Sequence[int], state: State) -> tuple[Tensor, State]:
        """All layers over inputs that lie one step after the other."""
        lasts: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                k = layer * self._directions + direction
                first = tuple(s[k] for s in state)
                output, last = run_direction(
                    self.mode, rows, sizes, first, self._weights(suffix), direction == 1
                )
                outputs.append(output)
                lasts.append(last)
            rows = outputs[0] if len(outputs) == 1 else shmtensor.cat(outputs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                rows = F.dropout(rows, self.dropout)
        ends = tuple(shmtensor.stack([s[k] for s in lasts]) for k in range(len(state)))
        return rows, ends

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Walk along sequences.

        Args:
            input: ``(L, N, I)``, ``(N, L, I)`` with *batch_first*, ``(L, I)``, or a
                ``PackedSequence``.
            hx: The first state, ``(layers * directions, N, H)``; zeros if absent. Two of them,
                ``(h, c)``, for an LSTM.

        Returns:
            The outputs of the last layer, ``(L, N, directions * H)`` (or as the input is), and
            the last state, shaped like *hx*.

        Raises:
            RuntimeError: Shapes do not fit together.
            ValueError: *input* has other dimensions, or another dtype than the weights.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            kind = self.mode.partition("_")[0]
            what = "D tensor instead" if kind == "RNN" else "D instead"
            raise ValueError(f"{kind}: Expected input to be 2D or 3D, got {input.dim()}{what}")
        batched = input.dim() == 3
        given = input if batched else input.unsqueeze(0 if self.batch_first else 1)
        steps = given.transpose(0, 1) if self.batch_first else given
        length, batch, width = steps.shape
        state = self._first_state(input, batch, hx, batched)
        self.check_forward_args(given, self._as_hx(state), None)
        if length == 0:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        rows = steps.reshape(length * batch, width)
        if self.mode == "LSTM" and self.proj_size == 0:  # which is one operator in torch
            rows, state = in_lower_precision((rows, state))
        rows, ends = self._run(rows, [batch] * length, state)
        output = rows.view(length, batch, rows.size(-1))
        if not batched:
            output, ends = output.squeeze(1), tuple(e.squeeze(1) for e in ends)
        elif self.batch_first:
            output = output.transpose(0, 1)
        return output, ends if self.mode == "LSTM" else ends[0]

    def _as_hx(self, state: State) -> Any:
        return state if self.mode == "LSTM" else state[0]

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        sizes = [int(n) for n in input.batch_sizes.tolist()]
        state = self._first_state(input.data, sizes[0], hx, None)
        if hx is not None:
            hx = self.permute_hidden(self._as_hx(state), input.sorted_indices)
            state = tuple(hx) if self.mode == "LSTM" else (hx,)
        self.check_forward_args(input.data, self._as_hx(state), input.batch_sizes)
        rows, ends = self._run(input.data, sizes, state)
        if input.unsorted_indices is not None:
            ends = tuple(e.index_select(1, input.unsorted_indices) for e in ends)
        output = PackedSequence(
            rows, input.batch_sizes, input.sorted_indices, input.unsorted_indices
        )
        return output, ends if self.mode == "LSTM" else ends[0]

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            text += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            text += f", num_layers={self.num_layers}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.batch_first is not False:
            text += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            text += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            text += f", bidirectional={self.bidirectional}"
        return text


class RNN(RNNBase):
    """h' = tanh(W x + b + U h + c), layer upon layer; options as ``RNNBase``.

    Args:
        *args: ``input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout,
            bidirectional, device, dtype``.
        **kwargs: The same by name; *nonlinearity* is ``'tanh'`` or ``'relu'``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self.nonlinearity not in modes:
            raise ValueError(
                f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(modes[self.nonlinearity], *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: ``(L, N, I)`` to ``(L, N, H)`` and the last states ``(h, c)``.

    A call takes the input, which may be a packed sequence or lack N, and the first states or None.

    Args:
        input_size: I, size of an input step.
        hidden_size: H, size of the state.
        num_layers: Layers, each fed with the outputs of the one below.
        bias: Whether there are offsets.
        batch_first: ``(N, L, I)`` instead of ``(L, N, I)``.
        dropout: Probability of dropout between layers.
        bidirectional: Also walk from the end to the beginning.
        proj_size: Size that outputs are projected to; 0 for none.
        device: Where the parameters are.
        dtype: Their type.

    Source:
        Hochreiter and Schmidhuber, "Long short-term memory", 1997; Sak et al., 2014, for the
        projection.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the size of the first cell state that goes with an input."""
        rows = self.num_layers * self._directions
        return (rows, self._batch(input, batch_sizes), self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if an input or a first state ``(h, c)`` does not fit."""
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for k, (tensor, size) in enumerate(zip(hidden, sizes, strict=True)):
            self.check_hidden_size(tensor, size, f"Expected hidden[{k}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return a state ``(h, c)`` with its sequences in another order."""
        if permutation is None:
            return hx
        return tuple(each.index_select(1, permutation) for each in hx)


class GRU(RNNBase):
    """Gated recurrent units: ``(L, N, I)`` to ``(L, N, H)`` and the last state.

    A call takes the input, which may be a packed sequence or lack N, and the first state or None.

    Args:
        input_size: I, size of an input step.
        hidden_size: H, size of the state.
        num_layers: Layers, each fed with the outputs of the one below.
        bias: Whether there are offsets.
        batch_first: ``(N, L, I)`` instead of ``(L, N, I)``.
        dropout: Probability of dropout between layers.
        bidirectional: Also walk from the end to the beginning.
        device: Where the parameters are.
        dtype: Their type.

    Source:
        Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """What the cells share: two weights and two biases."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        options = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(shmtensor.empty((rows, input_size), **options))
        self.weight_hh = Parameter(shmtensor.empty((rows, hidden_size), **options))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(shmtensor.empty((rows,), **options)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ±1/sqrt(H)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, mode: str, input: Tensor, given: tuple[Tensor, ...] | None) -> State:
        name = {"LSTM": "LSTMCell", "GRU": "GRUCell"}.get(mode, "RNNCell")
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for k, tensor in enumerate(given or ()):
            if tensor.dim() not in (1, 2):
                what = f"hx[{k}]" if mode == "LSTM" else "hidden"
                raise ValueError(
                    f"{name}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead"
                )
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        if rows.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {rows.size(1)} expected {self.input_size}"
            )
        if given is None:
            n = 2 if mode == "LSTM" else 1
            state = tuple(rows.new_zeros((rows.size(0), self.hidden_size)) for _ in range(n))
        else:
            state = given if batched else tuple(t.unsqueeze(0) for t in given)
        for k, tensor in enumerate(state):
            if tensor.size(0) != rows.size(0):
                raise RuntimeError(
                    f"Input batch size {rows.size(0)} doesn't match hidden{k} batch size "
                    f"{tensor.size(0)}"
                )
            if tensor.size(1) != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {tensor.size(1)}, expected "
                    f"{self.hidden_size}"
                )
        gates = F.linear(rows, self.weight_ih, self.bias_ih)
        result = STEPS[mode](gates, state, [self.weight_hh, self.bias_hh])
        return result if batched else tuple(t.squeeze(0) for t in result)

    def extra_repr(self) -> str:
        """Sizes, and the options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an ``RNN``: an input ``(N, I)`` and the state ``(N, H)``, to the next.

    Args:
        input_size: I.
        hidden_size: H.
        bias: Whether there are offsets.
        nonlinearity: ``'tanh'`` or ``'relu'``.
        device: Where the parameters are.
        dtype: Their type.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """``(N, I)`` and ``(N, H)`` to ``(N, H)``; or without N."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        mode = "RNN_" + self.nonlinearity.upper()
        return self._step(mode, input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an ``LSTM``: ``(N, I)`` and the states ``(h, c)``, each ``(N, H)``, to the next.

    Args:
        input_size: I.
        hidden_size: H.
        bias: Whether there are offsets.
        device: Where the parameters are.
        dtype: Their type.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """``(N, I)`` and two states ``(N, H)`` to two states; or without N."""
        h, c = self._step("LSTM", input, None if hx is None else _two_states("lstm_cell", hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a ``GRU``: an input ``(N, I)`` and the state ``(N, H)``, to the next.

    Args:
        input_size: I.
        hidden_size: H.
        bias: Whether there are offsets.
        device: Where the parameters are.
        dtype: Their type.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """``(N, I)`` and ``(N, H)`` to ``(N, H)``; or without N."""
        return self._step("GRU", input, None if hx is None else (hx,))[0]
