"""torch's names for features that are missing here, and its second names for others.

Programs that were written for torch import these modules, ask them whether something is available
and call what has no effect here: that works. What would have to do something says that it is not
offered. They are found by their names, and `dir(shmtensor)` leaves them out. Where they are found:
Note [Names of inner folders].
"""

from __future__ import annotations

from shmtensor._core import inner_module

__getattr__ = inner_module
