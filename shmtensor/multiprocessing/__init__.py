"""The standard `multiprocessing`; its messages carry tensors without copying them.

Change only your import: ``import shmtensor.multiprocessing as multiprocessing``. Every name and
submodule of the standard package is here. Queues, pools and contexts are this package's; the rest
are the same objects. When you send a tensor, it moves into shared memory once and stays there, and
receivers see the same bytes. Standard queues, pipes, executors and managers do the same, because
the import teaches their common pickler about tensors.

An unopened handle keeps its memory, whatever happens to the sender. When a receiver ends, even if
it is killed, its memory is released.
"""

from __future__ import annotations

# ruff: noqa: I001 - one statement for each module, though names are exported by "as".

import importlib
import multiprocessing
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

if _TYPE_CHECKING:  # before the standard names, which they hide; set from the context below
    from shmtensor.multiprocessing._types import (
        JoinableQueue as JoinableQueue,
        Queue as Queue,
        SimpleQueue as SimpleQueue,
        get_context as get_context,
    )
from multiprocessing import *  # type: ignore[assignment,no-redef] # noqa: F403

from shmtensor._boundary import process as _process, sharing as _sharing
from shmtensor.multiprocessing import context as context
from shmtensor.multiprocessing import _children as _children  # for its call in forked children
from shmtensor.multiprocessing._inherit import prepare_children as _prepare_children
from shmtensor.multiprocessing._label import label_children as _label_children
from shmtensor.multiprocessing._lifeline import end_with_parent as end_with_parent
from shmtensor.multiprocessing._stdlib import install as _install
from shmtensor.multiprocessing.modes import cow as cow, lend as lend
from shmtensor.multiprocessing.reductions import (
    init_reductions as init_reductions,
    share_numpy as share_numpy,
)

if _TYPE_CHECKING:
    from shmtensor.multiprocessing.spawn import (
        ProcessContext as ProcessContext,
        ProcessException as ProcessException,
        ProcessExitedException as ProcessExitedException,
        ProcessRaisedException as ProcessRaisedException,
        SpawnContext as SpawnContext,
        spawn as spawn,  # the module can be called
        start_processes as start_processes,
    )

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    *multiprocessing.__all__,
]

# Names of the module `spawn`, which is imported late, since most programs that use queues do not
# need it.
_OF_SPAWN = {
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "start_processes",
}

# Methods of the default context, as in the standard package.
globals().update(
    {name: getattr(context._default_context, name) for name in multiprocessing.__all__}
)

# Their names in torch.
_get_thread_name = _process.get_thread_name
_set_thread_name = _process.set_thread_name
_prctl_pr_set_pdeathsig = _process.set_parent_death_signal


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose where new storages are shared. Existing ones do not change.

    Args:
        new_strategy: ``"file_system"``: in reused blocks of one large memory file; the number of
            descriptors does not grow with the number of tensors. ``"file_descriptor"``: in a sealed
            memory file for each storage. Children of every start method inherit the choice.

    Raises:
        AssertionError: There is no such strategy.

    Source:
        torch.multiprocessing.set_sharing_strategy.
    """
    if new_strategy not in _sharing.STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, "
            f"expected one of {get_all_sharing_strategies()}"
        )
    _sharing.set_strategy(new_strategy)


def get_sharing_strategy() -> str:
    """Return the strategy in use.

    Source:
        torch.multiprocessing.get_sharing_strategy; the default here is ``"file_system"``, which
        works with any number of tensors.
    """
    return _sharing.get_strategy()


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the strategies.

    Source:
        torch.multiprocessing.get_all_sharing_strategies.
    """
    return set(_sharing.STRATEGIES)


def __getattr__(name: str) -> Any:
    # Submodules that were not imported yet, and names of the standard package outside its __all__.
    if name in _OF_SPAWN:
        return getattr(importlib.import_module(f"{__name__}.spawn"), name)
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError:
            if hasattr(multiprocessing, name):
                return getattr(multiprocessing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_install()
init_reductions()
_prepare_children()
_label_children()
