"""Types of TorchScript in annotations of Python.

Source:
    torch.jit.annotations.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 - names of the module

from shmtensor._core._not_offered import unavailable_names
from shmtensor._torch._jit_internal import (
    BroadcastingList1 as BroadcastingList1,
)
from shmtensor._torch._jit_internal import (
    BroadcastingList2 as BroadcastingList2,
)
from shmtensor._torch._jit_internal import (
    BroadcastingList3 as BroadcastingList3,
)
from shmtensor._torch._jit_internal import (
    is_dict as is_dict,
)
from shmtensor._torch._jit_internal import (
    is_list as is_list,
)
from shmtensor._torch._jit_internal import (
    is_optional as is_optional,
)
from shmtensor._torch._jit_internal import (
    is_tuple as is_tuple,
)
from shmtensor._torch._jit_internal import (
    is_union as is_union,
)

__all__ = [
    "Any",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "List",
    "Module",
    "Optional",
    "Tuple",
    "Union",
    "is_dict",
    "is_list",
    "is_optional",
    "is_tuple",
    "is_union",
]

__getattr__, __dir__ = unavailable_names(
    __name__,
    (
        "ann_to_type",
        "check_fn",
        "get_param_names",
        "get_signature",
        "try_ann_to_type",
        "try_real_annotations",
    ),
    "there is no TorchScript here",
)


class Module:
    """A name with members, as annotations in texts see a module."""

    def __init__(self, name: str, members: dict[str, Any]) -> None:
        self.name = name
        self.members = members

    def __getattr__(self, name: str) -> Any:
        try:
            return self.members[name]
        except KeyError:
            raise RuntimeError(f"Module {self.name} has no member called {name}") from None
