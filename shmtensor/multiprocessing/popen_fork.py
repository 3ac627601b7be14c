"""The standard `multiprocessing.popen_fork`: this name means the same module object."""

import sys
from multiprocessing import popen_fork as _standard
from multiprocessing.popen_fork import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
