"""Pipes that are streams; see `shmtensor.utils.data.datapipes`.

Source:
    torch.utils.data.datapipes.iter.
"""

from __future__ import annotations

from shmtensor.utils.data.datapipes.iter import combinatorics as combinatorics
