"""The standard `multiprocessing.forkserver`: this name means the same module object."""

import sys
from multiprocessing import forkserver as _standard
from multiprocessing.forkserver import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
