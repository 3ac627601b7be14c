"""The version of this package, and of the interface it follows.

Source:
    torch.version.
"""

from __future__ import annotations

from shmtensor import __version__ as __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "torch_version", "xpu"]

#: The release of torch whose interface this is.
torch_version = "2.13.0"

debug = False
git_version = "Unknown"
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
