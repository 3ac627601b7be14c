"""Every header of csrc compiles alone, and twice."""

from __future__ import annotations

import strict_c
from tree import main

if __name__ == "__main__":
    main("check_headers", strict_c.headers)
