"""Quantisation of models, which is not here: the marks of what would be quantised do nothing.

Source:
    torch.ao.quantization.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor._core._tensor import Tensor
from shmtensor.nn import Module

_WHAT = "models are not quantised here"
_REFUSED = """
    add_quant_dequant convert fuse_modules fuse_modules_qat get_default_qat_qconfig
    get_default_qat_qconfig_mapping get_default_qconfig get_default_qconfig_mapping prepare
    prepare_qat propagate_qconfig_ quantize quantize_dynamic quantize_qat swap_module
""".split()
_CLASSES = """
    FakeQuantize FakeQuantizeBase HistogramObserver MinMaxObserver MovingAverageMinMaxObserver
    NoopObserver ObserverBase PerChannelMinMaxObserver PlaceholderObserver QConfig QConfigMapping
""".split()

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper", *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})


class QuantStub(Module):
    """A mark of where tensors would be quantised; it returns its input.

    Args:
        qconfig: Kept as an attribute if given.

    Source:
        torch.ao.quantization.QuantStub.
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return *x* as it is."""
        return x


class DeQuantStub(QuantStub):
    """A mark of where tensors would become floating-point again; it returns its input.

    Args:
        qconfig: Kept as an attribute if given.

    Source:
        torch.ao.quantization.DeQuantStub.
    """


class QuantWrapper(Module):
    """A module between the two marks.

    Args:
        module: What would be quantised.

    Source:
        torch.ao.quantization.QuantWrapper.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant = QuantStub()
        self.dequant = DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Any) -> Any:
        """Return what the module makes of *X*."""
        return self.dequant(self.module(self.quant(X)))
