"""The standard `multiprocessing.process`: this name means the same module object."""

import sys
from multiprocessing import process as _standard
from multiprocessing.process import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
