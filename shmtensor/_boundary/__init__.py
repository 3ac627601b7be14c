"""The only package that names cffi's ``ffi`` and ``lib``.

`core` has the two objects, `core.check` and text helpers; `storage`, `sharing` and the others wrap
one part of the C interface each and pass only Python values and handles on.
"""

from __future__ import annotations
