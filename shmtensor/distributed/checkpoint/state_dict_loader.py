"""How ranks would read a checkpoint together, which they do not here.

Source:
    torch.distributed.checkpoint.state_dict_loader.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

_WHAT = "every rank has whole tensors here; load reads the file of one"

_REFUSED = ["_load_state_dict", "load", "load_state_dict"]

__all__ = [*_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)
