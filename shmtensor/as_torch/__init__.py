"""After ``import shmtensor.as_torch``, ``import torch`` gives this package, in workers too.

Modules have the same names: ``torch.nn.functional`` is `shmtensor.nn.functional`, the same object.
A module or name that is missing here is missing there: ``ModuleNotFoundError`` or
``AttributeError``, which say what the program asked for. In this process ``shmtensor.__version__``
is ``2.13.0+shmtensor.<version>`` from then on, so that programs which compare versions of torch
find one.

Processes that are started by `multiprocessing` find ``torch`` as well. Other programs that this
one starts do when it was itself started by ``shmtensor run --as-torch``, which needs no change of
the program. How it works: the folder ``site`` is put before the others in ``sys.path``. It has a
package ``torch`` that consists of an import of this module, and the facts that `importlib.metadata`
reads.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import shmtensor
from shmtensor._core import version
from shmtensor._torch.torch_version import TorchVersion
from shmtensor.as_torch._aten import define_aten_operators
from shmtensor.as_torch._finder import TorchFinder
from shmtensor.as_torch._messages import name_own_in_messages
from shmtensor.as_torch._names import OURS, THEIRS, name_modules
from shmtensor.as_torch._report import report_at_exit

__all__ = ["REPORT_VARIABLE", "SITE", "install"]

#: The folder with the package ``torch``.
SITE = str(Path(__file__).parent / "site")
#: A process whose number is in this environment variable says at its end what it used of torch.
REPORT_VARIABLE = "SHMTENSOR_AS_TORCH_REPORT"


def install() -> None:
    """Make ``import torch`` give this package; importing this module has done it.

    Raises:
        ImportError: torch itself has been imported already.
    """
    loaded = sys.modules.get("torch")
    if loaded is shmtensor:
        return
    if loaded is not None and not (getattr(loaded, "__file__", None) or "").startswith(SITE):
        raise ImportError(
            "shmtensor.as_torch: torch itself has been imported already, from "
            f"{getattr(loaded, '__file__', 'somewhere')}; import shmtensor.as_torch first"
        )
    shmtensor.__version__ = TorchVersion(f"{version.torch_version}+shmtensor.{version.__version__}")
    if SITE not in sys.path:
        sys.path.insert(0, SITE)  # multiprocessing gives it to the processes it starts
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    sys.modules["torch"] = shmtensor
    define_aten_operators()
    name_modules()
    name_own_in_messages()
    shmtensor.torch = shmtensor  # type: ignore[attr-defined]  # programs write torch.torch.Tensor
    # The extension is not a package: the import system asks no finder for what seems to lie in it.
    inside = f"{shmtensor._C.__name__}."
    for name in [name for name in sys.modules if name.startswith(inside)]:
        sys.modules[THEIRS + name.removeprefix(OURS)] = sys.modules[name]
    if os.environ.get(REPORT_VARIABLE) == str(os.getpid()):
        report_at_exit(finder)


install()
