"""The standard `multiprocessing.popen_spawn_posix`: this name means the same module object."""

import sys
from multiprocessing import popen_spawn_posix as _standard
from multiprocessing.popen_spawn_posix import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
