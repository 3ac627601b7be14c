"""The layers."""

from __future__ import annotations

from shmtensor.nn.module import Module
from shmtensor.nn.modules.activation import (
    GELU,
    LeakyReLU,
    LogSoftmax,
    ReLU,
    Sigmoid,
    Softmax,
    Tanh,
)
from shmtensor.nn.modules.container import ModuleList, ParameterList, Sequential
from shmtensor.nn.modules.conv import Conv2d
from shmtensor.nn.modules.dropout import Dropout
from shmtensor.nn.modules.embedding import Embedding
from shmtensor.nn.modules.flatten import Flatten, Unflatten
from shmtensor.nn.modules.linear import Identity, Linear
from shmtensor.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
)
from shmtensor.nn.modules.pooling import AvgPool2d, MaxPool2d

__all__ = [
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "GELU",
    "HuberLoss",
    "Identity",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleList",
    "NLLLoss",
    "ParameterList",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Tanh",
    "Unflatten",
]
