"""``python -m shmtensor.testing``: try on this machine what the package promises."""

from __future__ import annotations

import sys

from shmtensor.testing._selftest import main

if __name__ == "__main__":
    sys.exit(main())
