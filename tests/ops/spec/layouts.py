"""The same values in other strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor as st


def transposed(x: Any) -> Any:
    """Dimensions in reverse order in memory."""
    order = list(range(x.dim()))[::-1]
    return x.permute(order).contiguous().permute(order)


def stepped(x: Any) -> Any:
    """Every second element of the last dimension."""
    if x.dim() == 0:
        return x
    wide = st.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def shifted(x: Any) -> Any:
    """An odd offset into a storage that is larger."""
    flat = st.zeros(x.numel() + 5, dtype=x.dtype)
    view = flat[3 : 3 + x.numel()].view(x.shape)
    return view.copy_(x)


def grouped(x: Any) -> Any:
    """The first dimension is the last in memory, as images with channels last are."""
    if x.dim() < 2:
        return shifted(x)
    order = [*range(1, x.dim()), 0]
    back = [x.dim() - 1, *range(x.dim() - 1)]
    return x.permute(order).contiguous().permute(back)


def expanded(x: Any) -> Any:
    """The first row for all rows: stride 0."""
    return x[:1].expand(x.shape) if x.dim() and x.shape[0] else x


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": transposed,
    "stepped": stepped,
    "shifted": shifted,
    "grouped": grouped,
}
