"""What workers tell the launcher that started them.

Source:
    torch.distributed.elastic.multiprocessing.
"""

from __future__ import annotations

from shmtensor.distributed.elastic.multiprocessing import errors as errors

__all__: list[str] = []
