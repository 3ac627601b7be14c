"""The standard `multiprocessing.popen_forkserver`: this name means the same module object."""

import sys
from multiprocessing import popen_forkserver as _standard
from multiprocessing.popen_forkserver import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
