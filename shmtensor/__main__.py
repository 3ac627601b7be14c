"""``python -m shmtensor``: the ``shmtensor`` command."""

from __future__ import annotations

import sys

from shmtensor._cli import main

if __name__ == "__main__":
    sys.exit(main())
