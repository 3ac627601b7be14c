"""The standard `multiprocessing.shared_memory`: this name means the same module object."""

import sys
from multiprocessing import shared_memory as _standard
from multiprocessing.shared_memory import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
