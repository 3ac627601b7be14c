"""The standard `multiprocessing.util`: this name means the same module object."""

import sys
from multiprocessing import util as _standard
from multiprocessing.util import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
