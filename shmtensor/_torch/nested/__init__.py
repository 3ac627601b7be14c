"""Tensors of rows of unlike sizes, which are not here.

Source:
    torch.nested.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

__getattr__, __dir__ = unavailable_names(
    __name__,
    __all__,
    "there are no nested tensors here; nn.utils.rnn.pad_sequence makes one tensor of unlike rows",
)
