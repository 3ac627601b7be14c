"""Topics, values and calls between the services of two machines, over Zenoh.

A `Bridge` runs on each machine, and the two find each other by address. ``docs/bridge.md`` shows
two machines. It needs the package ``eclipse-zenoh`` (``pip install 'shmtensor[bridge]'``), which
is loaded when a bridge is started.
"""

from __future__ import annotations

from shmtensor.bridge._bridge import Bridge
from shmtensor.bridge._counters import BridgeStatus, NameStatus

__all__ = ["Bridge", "BridgeStatus", "NameStatus"]
