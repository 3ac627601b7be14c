"""How long one wait of the system may be."""

from __future__ import annotations

__all__ = ["LONGEST_S"]

#: 23 days. Sockets and poll() take milliseconds of 31 bits; a wait that is longer is this long.
LONGEST_S = 2e6
