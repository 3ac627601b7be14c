"""The operators that torchvision compiles against torch's C++ library.

torchvision asks `ops.load_library` for its ``_C.so``, which cannot be loaded here. It gets these
operators instead, written with shmtensor's own: non-maximum suppression, the poolings of regions,
and deformable convolution. Derivatives and autocast are registered by torchvision itself, which
calls the operators named ``_…_backward``. Those for quantized tensors are only declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor.as_torch.torchvision_operators import boxes, deformable, regions
from shmtensor.library import Library

__all__ = ["LIBRARY"]

_REGION = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)

#: Schema -> what computes it.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": boxes.nms,
    f"roi_align(Tensor input, Tensor rois, {_REGION}, int sampling_ratio, bool aligned) "
    "-> Tensor": regions.roi_align,
    f"_roi_align_backward(Tensor grad, Tensor rois, {_REGION}, {_SIZES}, int sampling_ratio, "
    "bool aligned) -> Tensor": regions.roi_align_backward,
    f"ps_roi_align(Tensor input, Tensor rois, {_REGION}, int sampling_ratio) "
    "-> (Tensor, Tensor)": regions.ps_roi_align,
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_REGION}, "
    f"int sampling_ratio, {_SIZES}) -> Tensor": regions.ps_roi_align_backward,
    f"roi_pool(Tensor input, Tensor rois, {_REGION}) -> (Tensor, Tensor)": regions.roi_pool,
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_REGION}, {_SIZES}) -> Tensor": (
        regions.roi_pool_backward
    ),
    f"ps_roi_pool(Tensor input, Tensor rois, {_REGION}) -> (Tensor, Tensor)": regions.ps_roi_pool,
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_REGION}, "
    f"{_SIZES}) -> Tensor": regions.ps_roi_pool_backward,
    f"deform_conv2d({_CONVOLUTION}) -> Tensor": deformable.deform_conv2d,
    f"_deform_conv2d_backward(Tensor grad, {_CONVOLUTION}) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)": deformable.deform_conv2d_backward,
}

#: Those of quantized tensors, which do not exist here: calling one says that it has no kernel.
_DECLARED = (
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    f"float rois_scale, int rois_zero_point, {_REGION}, int sampling_ratio, bool aligned) "
    "-> Tensor",
)

#: Keeps the operators; they stay as long as the process.
LIBRARY = Library("torchvision", "FRAGMENT")


def _define() -> None:
    for schema, function in _OPERATORS.items():
        LIBRARY.define(schema)
        LIBRARY.impl(schema.partition("(")[0], function, "CPU")
    for schema in _DECLARED:
        LIBRARY.define(schema)
    LIBRARY.define("_cuda_version() -> int")
    LIBRARY.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")


if not _C._operator_overloads("torchvision::nms"):
    _define()
