"""The messages of TensorBoard's logs, for programs that add them to a writer themselves.

Source:
    torch.utils.tensorboard.summary.
"""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary

from shmtensor.utils.tensorboard import _values
from shmtensor.utils.tensorboard._values import histogram, text
from shmtensor.utils.tensorboard._values import raw_histogram as histogram_raw

__all__ = ["histogram", "histogram_raw", "hparams", "scalar", "text"]


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Summary, Summary, Summary]:
    """Return the messages of a run with hyperparameters.

    Args:
        hparam_dict: Numbers, texts, bools by name.
        metric_dict: What the run reaches, by name; only the names count here.
        hparam_domain_discrete: The values that a parameter may have.

    Returns:
        Of the experiment, of the run's beginning and of its end.

    Raises:
        TypeError: An argument is no dict.
        ValueError: A value has another type.
    """
    return _values.hparams(hparam_dict, metric_dict, hparam_domain_discrete)


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Summary:
    """Return a number under a name.

    Args:
        name: It.
        tensor: A number, or a tensor or array of one element.
        collections: Ignored.
        new_style: Write it as a tensor.
        double_precision: In the new style, write a double.

    Raises:
        NotImplementedError: It is neither a number nor a tensor or an array.
        ValueError: It has more elements than one.
    """
    return _values.scalar(name, tensor, new_style, double_precision)
