"""The standard `multiprocessing.connection`: this name means the same module object."""

import sys
from multiprocessing import connection as _standard
from multiprocessing.connection import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
