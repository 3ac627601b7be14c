"""Where the classes of ``nn`` are: pickles and programs name them by their modules, as torch's."""

from __future__ import annotations

import importlib
import inspect

import pytest

from shmtensor import nn

#: Module -> its classes.
CLASSES_BY_MODULE = {
    "nn.modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
        "LogSoftmax Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax "
        "Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    "nn.modules.adaptive": "AdaptiveLogSoftmaxWithLoss",
    "nn.modules.batchnorm": (
        "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
        "SyncBatchNorm"
    ),
    "nn.modules.channelshuffle": "ChannelShuffle",
    "nn.modules.container": (
        "Container ModuleDict ModuleList ParameterDict ParameterList Sequential"
    ),
    "nn.modules.conv": (
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d "
        "LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d"
    ),
    "nn.modules.distance": "CosineSimilarity PairwiseDistance",
    "nn.modules.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "nn.modules.flatten": "Flatten Unflatten",
    "nn.modules.fold": "Fold Unfold",
    "nn.modules.instancenorm": (
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d"
    ),
    "nn.modules.linear": "Bilinear Identity LazyLinear Linear",
    "nn.modules.linear_cross_entropy_options": "LinearCrossEntropyOptions",
    "nn.modules.loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss "
        "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss "
        "MSELoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
        "MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss "
        "TripletMarginLoss TripletMarginWithDistanceLoss"
    ),
    "nn.modules.module": "Module",
    "nn.modules.normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "nn.modules.padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
        "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
    ),
    "nn.modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
    "nn.modules.pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d "
        "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d "
        "MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
    ),
    "nn.modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    "nn.modules.sparse": "Embedding EmbeddingBag",
    "nn.modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer"
    ),
    "nn.modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "nn.parallel.data_parallel": "DataParallel",
    "nn.parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
}


@pytest.mark.parametrize("module", CLASSES_BY_MODULE)
def test_classes_are_where_torch_has_them(module: str) -> None:
    found = importlib.import_module(f"shmtensor.{module}")
    for name in CLASSES_BY_MODULE[module].split():
        assert getattr(found, name) is getattr(nn, name)
        assert getattr(nn, name).__module__ == f"shmtensor.{module}"


@pytest.mark.check
def test_every_class_has_a_place() -> None:
    named = {name for names in CLASSES_BY_MODULE.values() for name in names.split()}
    assert {name for name, value in vars(nn).items() if inspect.isclass(value)} == named
