"""The standard `multiprocessing.resource_sharer`: this name means the same module object."""

import sys
from multiprocessing import resource_sharer as _standard
from multiprocessing.resource_sharer import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
