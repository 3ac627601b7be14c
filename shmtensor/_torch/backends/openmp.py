"""OpenMP: not here; operators split their work over threads of our own."""

from __future__ import annotations

from shmtensor._core._absent_devices import no as _no

is_available = _no(__name__, "is_available", "it is here")
