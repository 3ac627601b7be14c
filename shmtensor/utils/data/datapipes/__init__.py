"""Pipes of samples, which are missing: there are classes for `isinstance`, without instances.

Source:
    torch.utils.data.datapipes.
"""

from __future__ import annotations

from shmtensor.utils.data.datapipes import iter as iter
