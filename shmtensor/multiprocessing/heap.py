"""The standard `multiprocessing.heap`: this name means the same module object."""

import sys
from multiprocessing import heap as _standard
from multiprocessing.heap import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
