"""The standard `multiprocessing.popen_spawn_win32`: this name means the same module object."""

import sys
from multiprocessing import popen_spawn_win32 as _standard
from multiprocessing.popen_spawn_win32 import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
