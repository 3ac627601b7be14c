"""A read-only page about live sessions, for a browser on this machine.

`Server` answers HTTP on the loopback address; `shmtensor dashboard` starts one. Nothing else does.

    state    what the page shows, as plain values, with rates
    arena    the blocks of a session as a map of few cells
    curves   the table of a training run
    server   HTTP: who may ask, and what is answered
"""

from __future__ import annotations

from shmtensor.dashboard.server import Server
from shmtensor.dashboard.state import Observer

__all__ = ["Observer", "Server"]
