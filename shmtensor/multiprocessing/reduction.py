"""The standard `multiprocessing.reduction`: this name means the same module object."""

import sys
from multiprocessing import reduction as _standard
from multiprocessing.reduction import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
