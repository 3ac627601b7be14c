"""The standard `multiprocessing.dummy.connection`: this name means the same module object."""

import sys
from multiprocessing.dummy import connection as _standard
from multiprocessing.dummy.connection import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
