"""How long statements take: repeated runs, what they say together, and tables of them.

Source:
    torch.utils.benchmark.
"""

from __future__ import annotations

from shmtensor.utils.benchmark._common import (
    Measurement as Measurement,
)
from shmtensor.utils.benchmark._common import (
    TaskSpec as TaskSpec,
)
from shmtensor.utils.benchmark._common import (
    ordered_unique as ordered_unique,
)
from shmtensor.utils.benchmark._common import (
    select_unit as select_unit,
)
from shmtensor.utils.benchmark._common import (
    set_torch_threads as set_torch_threads,
)
from shmtensor.utils.benchmark._common import (
    trim_sigfig as trim_sigfig,
)
from shmtensor.utils.benchmark._common import (
    unit_to_english as unit_to_english,
)
from shmtensor.utils.benchmark._compare import Colorize as Colorize
from shmtensor.utils.benchmark._compare import Compare as Compare
from shmtensor.utils.benchmark._timer import (
    Language as Language,
)
from shmtensor.utils.benchmark._timer import (
    Timer as Timer,
)
from shmtensor.utils.benchmark._timer import (
    timer as timer,
)

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
