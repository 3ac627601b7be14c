"""Settings that children of every start method inherit: session, sharing strategy, `share_numpy`.

They also get the lifeline by which they can end with the process that started them.

Every process object carries the configuration of the process that made it. The entry made here is
pickled as a call that adopts the settings. So a child has them before its arguments are unpickled.
That holds for spawned children, for those of a fork server that was running before, and for their
children.
"""

from __future__ import annotations

from typing import Any

from shmtensor._boundary import sharing as _sharing
from shmtensor.multiprocessing import _lifeline
from shmtensor.multiprocessing import reductions as _reductions
from shmtensor.multiprocessing._stdlib import configuration

__all__ = ["prepare_children"]

_KEY = "shmtensor"


class _Settings:
    """The settings that the process has at the time of pickling."""

    def __reduce__(self) -> Any:
        settings = (_sharing.session_name(), _sharing.get_strategy(), _reductions.shares_numpy())
        return _take_over, (*settings, _lifeline.lifeline_for_child())


def _take_over(session: str, strategy: str, shares_numpy: bool, lifeline: Any) -> _Settings:
    """Adopt the parent's settings. A child calls this when it unpickles its configuration."""
    _lifeline.adopt_lifeline(lifeline)
    _sharing.adopt_session(session)
    _sharing.set_strategy(strategy)
    if shares_numpy != _reductions.shares_numpy():
        _reductions.share_numpy(shares_numpy)
    return _Settings()


def prepare_children() -> None:
    """Add the settings to the configuration of process objects that are made from now on."""
    configuration()[_KEY] = _Settings()
