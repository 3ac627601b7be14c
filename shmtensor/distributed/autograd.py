"""Derivatives over calls between machines, which are not here.

Source:
    torch.distributed.autograd.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "there are no remote calls here that a backward pass could follow"
_REFUSED = ["backward", "get_gradients"]
_CLASSES = ["DistAutogradContext", "context"]

__all__ = ["is_available", *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})


def is_available() -> bool:
    """Return whether there are such derivatives: False."""
    return False
