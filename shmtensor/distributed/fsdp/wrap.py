"""Which parts of a module would be sharded by themselves; nothing is sharded here.

Source:
    torch.distributed.fsdp.wrap.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor.distributed.fsdp._what import WHAT

_REFUSED = """
    always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy
    transformer_auto_wrap_policy wrap
""".split()
_CLASSES = ["CustomPolicy", "ModuleWrapPolicy"]

__all__ = [*_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)

globals().update({name: unavailable_class(name, __name__, WHAT) for name in _CLASSES})
