"""The standard `multiprocessing.managers`: this name means the same module object."""

import sys
from multiprocessing import managers as _standard
from multiprocessing.managers import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
