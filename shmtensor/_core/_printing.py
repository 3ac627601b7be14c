"""Turn tensors into text, laid out as torch prints them.

One pass looks at the (summarised) values and fixes a format for all of them; a second one lays
them out in rows of at most ``linewidth`` characters. Only the values that are shown are read.

Source: torch.set_printoptions and the text torch prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor import _C

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["PrintOptions", "get_printoptions", "set_printoptions", "tensor_text"]


class PrintOptions(NamedTuple):
    """How tensors are printed; see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed from now on.

    Args:
        precision: Digits after the point.
        threshold: Tensors of more elements are summarised.
        edgeitems: Elements shown at each end of a summarised dimension.
        linewidth: Characters a line.
        profile: ``"default"``, ``"short"`` or ``"full"``: a starting point for the others.
        sci_mode: Always (True), never (False) or as the values need it (None).

    Raises:
        ValueError: *profile* is unknown.

    Source:
        torch.set_printoptions.
    """
    global _options
    base = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be one of {sorted(_PROFILES)}, got {profile!r}")
        base = _PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = base._replace(sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """Return the options in force, by name."""
    return dict(vars(_options))


class _NumberFormat:
    """One format for all shown values of a real tensor."""

    def __init__(self, values: list[Any], floating: bool) -> None:
        self.floating = floating
        self.integral = True
        self.scientific = False
        self.width = 1
        if not floating:
            self.width = max((len(str(value)) for value in values), default=1)
            return
        finite = [value for value in values if value != 0 and math.isfinite(value)]
        if finite:
            self._choose(finite)
            if _options.sci_mode is not None:
                self.scientific = _options.sci_mode
            self.width = max(len(self._plain(value)) for value in finite)

    def _choose(self, finite: list[float]) -> None:
        self.integral = all(value == math.ceil(value) for value in finite)
        smallest = min(abs(value) for value in finite)
        largest = max(abs(value) for value in finite)
        wide = largest / smallest > 1000.0 or largest > 1.0e8
        self.scientific = wide or (not self.integral and smallest < 1.0e-4)

    def _plain(self, value: float) -> str:
        if self.scientific:
            return f"{value:.{_options.precision}e}"
        if self.integral:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{_options.precision}f}"

    def text(self, value: Any) -> str:
        return (self._plain(value) if self.floating else str(value)).rjust(self.width)


def _answers_operators(cls: type) -> bool:
    return cls.__torch_dispatch__ is not _C._disabled_torch_dispatch_impl  # type: ignore[attr-defined]


def _values_of(tensor: Tensor) -> Any:
    """The elements as nested lists; a class that answers operators is asked for each."""
    if not _answers_operators(type(tensor)):
        return tensor.tolist()
    return [_values_of(row) for row in tensor.unbind()] if tensor.dim() else tensor.item()


class _Layout:
    """Values and formats of one tensor, laid out as nested brackets."""

    def __init__(self, tensor: Tensor, indent: int) -> None:
        self.indent = indent
        self.summarize = tensor.numel() > _options.threshold
        shown = _summarised(tensor) if self.summarize else tensor
        values = list(_flat(_values_of(shown)))
        self.is_complex = tensor.is_complex()
        if self.is_complex:
            self.real = _NumberFormat([value.real for value in values], True)
            self.imag = _NumberFormat([value.imag for value in values], True)
        else:
            self.real = _NumberFormat(values, tensor.is_floating_point())

    def number(self, value: Any) -> str:
        if not self.is_complex:
            return self.real.text(value)
        imag = (self.imag.text(value.imag) + "j").lstrip()
        sign = "" if imag[0] in "+-" else "+"
        return self.real.text(value.real) + sign + imag

    def text(self, tensor: Tensor, indent: int) -> str:
        if tensor.dim() == 0:
            return self.number(tensor.item())
        if tensor.dim() == 1:
            return self.row(tensor, indent)
        edge = _options.edgeitems
        count = tensor.size(0)
        if self.summarize and count > 2 * edge:
            picked: list[int | None] = [*range(edge), None, *range(count - edge, count)]
        else:
            picked = list(range(count))
        parts = ["..." if i is None else self.text(tensor[i], indent + 1) for i in picked]
        gap = "," + "\n" * (tensor.dim() - 1) + " " * (indent + 1)
        return "[" + gap.join(parts) + "]"

    def row(self, tensor: Tensor, indent: int) -> str:
        width = self.real.width + 2
        if self.is_complex:
            width += self.imag.width + 1
        per_line = max(1, (_options.linewidth - indent) // width)
        edge = _options.edgeitems
        if self.summarize and tensor.size(0) > 2 * edge:
            head = [self.number(value) for value in _values_of(tensor[:edge])]
            tail = [self.number(value) for value in _values_of(tensor[-edge:])] if edge else []
            cells = [*head, " ...", *tail] if edge else ["..."]
        else:
            cells = [self.number(value) for value in _values_of(tensor)]
        lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _summarised(tensor: Tensor) -> Tensor:
    """Keep the edge elements of every long dimension."""
    from shmtensor import cat  # the package imports this module while it loads

    edge = _options.edgeitems
    for dim in range(tensor.dim()):
        count = tensor.size(dim)
        if count > 2 * edge:
            ends = [tensor.narrow(dim, 0, edge), tensor.narrow(dim, count - edge, edge)]
            tensor = cat(ends, dim)
    return tensor


def _has_default_dtype(tensor: Tensor, *, shows_values: bool) -> bool:
    """Return True when a reader infers the dtype: from the values, if there are any."""
    import shmtensor  # the package imports this module while it loads

    default = shmtensor.get_default_dtype()
    if not shows_values:
        return tensor.dtype is default
    complex_of = {
        shmtensor.float32: shmtensor.complex64,
        shmtensor.float64: shmtensor.complex128,
    }
    plain = (default, complex_of.get(default), shmtensor.int64, shmtensor.bool)
    return tensor.dtype in plain


def _history_suffix(tensor: Tensor) -> str | None:
    if tensor.grad_fn is not None:
        return f"grad_fn=<{tensor.grad_fn.name()}>"
    return "requires_grad=True" if tensor.requires_grad else None


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def _looks_plain(cls: type) -> bool:
    """The tensor class itself, and classes such as Parameter, whose results are plain tensors."""
    is_disabled = cls.__torch_function__ is _C._disabled_torch_function_impl  # type: ignore[attr-defined]
    return cls.__base__ is _C._TensorBase or (is_disabled and not _answers_operators(cls))


def _batched_text(value: Tensor, dim: int | None, level: int) -> str:
    """A tensor under vmap: all its examples, and where they are."""
    text = tensor_text(value).replace("\n", "\n    ")
    if dim is None:
        return f"GradTrackingTensor(lvl={level}, value=\n    {text}\n)"
    return f"BatchedTensor(lvl={level}, bdim={dim}, value=\n    {text}\n)"


def _parts_of(tensor: Tensor) -> list[tuple[str, Tensor]]:
    """The parts of a sparse tensor with the names that its text has for them."""
    if tensor.layout is _C.sparse_coo:
        return [("indices", tensor._indices()), ("values", tensor._values())]
    names = ["crow_indices", "col_indices"]
    if tensor.layout is _C.sparse_csc:
        names = ["ccol_indices", "row_indices"]
    return [(name, getattr(tensor, name)()) for name in [*names, "values"]]


def _part_text(name: str, part: Tensor, indent: int) -> str:
    prefix = f"{name}=tensor("
    inner = indent + len(prefix)
    if part.numel() == 0:
        size = f", size={tuple(part.shape)}" if name == "indices" or part.dim() else ""
        return f"{prefix}[]{size})"
    return prefix + _Layout(part, inner).text(part, inner) + ")"


def _sparse_text(tensor: Tensor, prefix: str) -> str:
    """The text of a sparse tensor: its parts, then what else there is to say."""
    indent = len(prefix)
    plain = tensor.detach()
    parts = _parts_of(plain)
    texts = [_part_text(name, part, indent) for name, part in parts]
    suffixes = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if not _has_default_dtype(tensor, shows_values=True):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes.append(f"layout={tensor.layout}")
    history = _history_suffix(tensor)
    if history is not None:
        suffixes.append(history)
    gap = ",\n" + " " * indent
    if tensor.layout is _C.sparse_coo:  # the size stands on a line of its own
        texts.append(suffixes.pop(0))
    return _with_suffixes(prefix + gap.join(texts), suffixes, indent)


def tensor_text(tensor: Tensor, contents: str | None = None) -> str:
    """Return what ``repr(tensor)`` shows.

    Args:
        tensor: Any shape and dtype; a Meta tensor shows its size only.
        contents: Stands in place of the elements.

    Source:
        torch's text, e.g. ``tensor([1.0000, 2.5000], grad_fn=<MulBackward0>)``.
    """
    if _C._level_count() > 0:  # under vmap, what is shown are values, not examples
        text: str = _C._call_outside_levels(lambda: tensor_text(tensor, contents))
        return text
    if (parts := _C._batched_parts(tensor)) is not None:
        return _batched_text(*parts)
    prefix = "tensor(" if _looks_plain(type(tensor)) else f"{type(tensor).__name__}("
    indent = len(prefix)
    suffixes: list[str] = []
    if tensor.layout is not _C.strided:
        return _sparse_text(tensor, prefix)
    if contents is not None:
        body = contents
    elif tensor.is_meta:
        suffixes += ["device='meta'", f"size={tuple(tensor.shape)}"]
        body = "..."
    elif tensor.numel() == 0:
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        body = "[]"
    else:
        values = tensor if _answers_operators(type(tensor)) else tensor.detach()
        body = _Layout(values, indent).text(values, indent)
    if not _has_default_dtype(tensor, shows_values=tensor.numel() > 0 and not tensor.is_meta):
        suffixes.append(f"dtype={tensor.dtype}")
    history = _history_suffix(tensor)
    if history is not None:
        suffixes.append(history)
    if tensor.has_names():
        suffixes.append(f"names={tensor.names}")
    tangent = _C._tangent_of(tensor)
    if tangent is not None:
        suffixes.append(f"tangent={tangent!r}")
    text = _with_suffixes(prefix + body, suffixes, indent)
    # Note [Marked tensors] in nn/parameter.py
    return f"Parameter({text})" if hasattr(tensor, "_is_param") else text
