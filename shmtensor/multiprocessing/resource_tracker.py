"""The standard `multiprocessing.resource_tracker`: this name means the same module object."""

import sys
from multiprocessing import resource_tracker as _standard
from multiprocessing.resource_tracker import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
