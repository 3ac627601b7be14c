"""What TensorBoard's logs hold for a scalar, a histogram, an image, a text, hyperparameters."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

import shmtensor
from shmtensor._core._tensor import Tensor

#: Floating-point dtypes that arrays have; numbers of others become float32.
_OF_NUMPY = (shmtensor.float16, shmtensor.float32, shmtensor.float64)

__all__ = ["array_of", "histogram", "hparams", "image", "raw_histogram", "scalar", "text"]

#: Numbers of dtypes in TensorBoard's messages.
_FLOAT, _DOUBLE, _STRING = 1, 2, 7


def array_of(value: Any) -> Any:
    """Return numbers, a tensor or an array as an array.

    Raises:
        NotImplementedError: It is something else.
    """
    if isinstance(value, Tensor):
        plain = value.detach().cpu()
        if plain.is_floating_point() and plain.dtype not in _OF_NUMPY:
            plain = plain.float()
        return plain.numpy()
    if isinstance(value, np.ndarray):
        return value
    if np.isscalar(value):
        return np.array([value])
    raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")


def scalar(
    tag: str, value: Any, new_style: bool = False, double_precision: bool = False
) -> Summary:
    """Return a number under a name.

    Raises:
        ValueError: There are more numbers than one, or it is a text that is none.
    """
    array = array_of(value).squeeze()
    if array.ndim:
        raise ValueError(f"add_scalar(): expected one number, got {array.size}")
    number = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=number)])
    tensor = (
        TensorProto(double_val=[number], dtype=_DOUBLE)
        if double_precision
        else TensorProto(float_val=[number], dtype=_FLOAT)
    )
    return _of_plugin(tag, "scalars", tensor)


def _of_plugin(tag: str, plugin: str, tensor: TensorProto | None, content: bytes = b"") -> Summary:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    kept = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=tag, metadata=kept, tensor=tensor)])


def text(tag: str, value: str) -> Summary:
    """Return a text, which is shown as Markdown."""
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=_STRING, string_val=[value.encode("utf-8")], tensor_shape=shape)
    return _of_plugin(f"{tag}/text_summary", "text", tensor)


# --- histograms -------------------------------------------------------------------------------


def bucket_edges() -> list[float]:
    """Return the edges that `add_histogram` takes when none are given.

    They grow by a tenth each from 1e-12 to 1e20, on both sides of 0.
    """
    positive = []
    edge = 1e-12
    while edge < 1e20:
        positive.append(edge)
        edge *= 1.1
    return [-edge for edge in reversed(positive)] + [0.0] + positive


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """Return how many values lie between edges.

    Args:
        name: It.
        values: Numbers of any shape.
        bins: What `numpy.histogram` takes.
        max_bins: Most bins: neighbours are counted together.

    Raises:
        ValueError: There are no values.
    """
    array = array_of(values).astype(float).reshape(-1)
    if not array.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(array, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), step))
        limits = np.append(limits[:-1:step], limits[-1])
    used = np.flatnonzero(counts)
    if not used.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    # The bins that have values, with an empty one before the first.
    first, last = int(used[0]), int(used[-1]) + 1
    head = [0] if first == 0 else [counts[first - 1]]
    below = limits[first] if first else limits[0]
    return raw_histogram(
        name,
        array.min(),
        array.max(),
        len(array),
        array.sum(),
        array.dot(array),
        [below, *limits[first + 1 : last + 1]],
        [*head, *counts[first:last]],
    )


def raw_histogram(
    name: str,
    min: Any,
    max: Any,
    num: Any,
    sum: Any,
    sum_squares: Any,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Summary:
    """Return a histogram whose counts and upper limits are given."""
    histo = HistogramProto(
        min=float(min),
        max=float(max),
        num=int(num),
        sum=float(sum),
        sum_squares=float(sum_squares),
        bucket_limit=[float(limit) for limit in bucket_limits],
        bucket=[float(count) for count in bucket_counts],
    )
    return Summary(value=[Summary.Value(tag=name, histo=histo)])


# --- images -----------------------------------------------------------------------------------


def image(tag: str, picture: Any, dataformats: str) -> Summary:
    """Return pixels as a PNG; floating-point numbers are of 0 to 1.

    Raises:
        ValueError: The letters do not fit the shape.
    """
    from PIL import Image  # programs that log no pictures do not need it

    array = array_of(picture)
    pixels = _rows_of_pixels(array, dataformats.upper())
    factor = 1 if array.dtype == np.uint8 else 255
    pixels = (pixels.astype(np.float32) * factor).clip(0, 255).astype(np.uint8)
    height, width, channels = pixels.shape
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    kept = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=kept)])


def _rows_of_pixels(array: Any, letters: str) -> Any:
    """Return pictures as one of shape (H, W, C): several stand in a square."""
    if len(set(letters)) != len(letters) or not set(letters) <= set("NCHW"):
        raise ValueError(f"add_image(): dataformats is {letters!r}, expected letters of NCHW")
    if len(letters) != array.ndim:
        raise ValueError(
            f"add_image(): dataformats {letters!r} does not fit the shape {array.shape}"
        )
    for letter in "NC":
        if letter not in letters:
            array, letters = array[None], letter + letters
    array = array.transpose([letters.index(letter) for letter in "NHWC"])
    count, height, width, channels = array.shape
    if count == 0:
        raise ValueError(f"add_images(): the shape {array.shape} (NHWC) has no picture")
    if channels == 1:
        array = np.repeat(array, 3, axis=3)
    columns = min(count, 8)
    rows = -(-count // columns)
    sheet = np.zeros((rows * height, columns * width, array.shape[3]), array.dtype)
    for at, each in enumerate(array):
        top, left = at // columns * height, at % columns * width
        sheet[top : top + height, left : left + width] = each
    return sheet


# --- hyperparameters --------------------------------------------------------------------------


def hparams(
    values: dict[str, Any] | None,
    metrics: dict[str, Any] | None,
    domains: dict[str, list[Any]] | None,
) -> tuple[Summary, Summary, Summary]:
    """Return the experiment, the beginning and the end of a run with these parameters.

    Raises:
        TypeError: An argument is no dict.
        ValueError: A value is neither a number, a text, a bool nor a tensor.
    """
    values, metrics = _dict(values, "hparam_dict"), _dict(metrics, "metric_dict")
    started = plugin_data_pb2.SessionStartInfo()
    infos = []
    for name, value in values.items():
        if value is None:
            continue
        kind = _set(started.hparams[name], value, name)
        info = api_pb2.HParamInfo(name=name, type=kind)
        for choice in (domains or {}).get(name, ()):
            _set(info.domain_discrete.values.add(), choice, name)
        infos.append(info)
    experiment = api_pb2.Experiment(
        hparam_infos=infos,
        metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag=name)) for name in metrics],
    )
    ended = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    plugin = metadata.PLUGIN_NAME
    data = plugin_data_pb2.HParamsPluginData
    return (
        _of_plugin(
            metadata.EXPERIMENT_TAG, plugin, None, data(experiment=experiment).SerializeToString()
        ),
        _of_plugin(
            metadata.SESSION_START_INFO_TAG,
            plugin,
            None,
            data(session_start_info=started).SerializeToString(),
        ),
        _of_plugin(
            metadata.SESSION_END_INFO_TAG,
            plugin,
            None,
            data(session_end_info=ended).SerializeToString(),
        ),
    )


def _dict(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"add_hparams(): {what} must be a dict, got {type(given).__name__}")
    return given


def _set(target: Any, value: Any, name: str) -> Any:
    """Write a value into a protocol buffer; returns its type."""
    if isinstance(value, str):
        target.string_value = value
        return api_pb2.DATA_TYPE_STRING
    # Truth values are numbers in these logs.
    if isinstance(value, (int, float, np.number, np.bool_)) or (
        isinstance(value, Tensor) and value.numel() == 1
    ):
        target.number_value = float(value)
        return api_pb2.DATA_TYPE_FLOAT64
    raise ValueError(
        f"add_hparams(): {name} is a {type(value).__name__}; expected int, float, str, bool or a "
        "tensor of one element"
    )
