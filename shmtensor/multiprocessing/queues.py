"""The standard `multiprocessing.queues`: this name means the same module object."""

import sys
from multiprocessing import queues as _standard
from multiprocessing.queues import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
