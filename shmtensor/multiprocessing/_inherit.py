"""What children get from their parent, whatever starts them.

Every process object carries the configuration of the process that made it. An entry there is
pickled as "take over these settings", so a child has them before its arguments are unpickled: a
spawned one, one of a fork server that had been running before, and their children.
"""

from __future__ import annotations

from multiprocessing import process
from typing import Any

from shmtensor._boundary import sharing as _sharing
from shmtensor.multiprocessing import reductions as _reductions

__all__ = ["prepare_children"]

_KEY = "shmtensor"


class _Settings:
    """Stands for the settings of the process at the time of pickling."""

    def __reduce__(self) -> Any:
        settings = (_sharing.session_name(), _sharing.get_strategy(), _reductions.shares_numpy())
        return _take_over, settings


def _take_over(session: str, strategy: str, shares_numpy: bool) -> _Settings:
    """Adopt the parent's settings; what a child unpickles."""
    _sharing.adopt_session(session)
    _sharing.set_strategy(strategy)
    if shares_numpy != _reductions.shares_numpy():
        _reductions.share_numpy(shares_numpy)
    return _Settings()


def prepare_children() -> None:
    """Let the process objects made from now on carry the settings."""
    current: Any = process.current_process()
    current._config[_KEY] = _Settings()
