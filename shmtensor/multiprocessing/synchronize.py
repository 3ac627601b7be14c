"""The standard `multiprocessing.synchronize`: this name means the same module object."""

import sys
from multiprocessing import synchronize as _standard
from multiprocessing.synchronize import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
