"""The standard `multiprocessing.sharedctypes`: this name means the same module object."""

import sys
from multiprocessing import sharedctypes as _standard
from multiprocessing.sharedctypes import *  # noqa: F403 - for type checkers

sys.modules[__name__] = _standard
