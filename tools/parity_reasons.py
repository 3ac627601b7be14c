"""Why operators of torch's list differ on purpose, or cannot be compared.

Each row: regular expressions of names, checks and dtypes, which match as a whole, and the reason.
"""

from __future__ import annotations

import re

_ANY = ".*"
_PRIVATE = (
    "_batch_norm_with_update|_chunk_cat|_unsafe_masked_index.*|_upsample_bilinear2d_aa|slice"
    "|max_pool2d_with_indices_backward"
)
_AT_NAN = r"nn\.functional\.(hardshrink|hardtanh|relu6|celu|elu|selu|softshrink)"

REASONS: tuple[tuple[str, str, str, str], ...] = (
    (_PRIVATE, _ANY, _ANY, "a name that torch keeps to itself"),
    (r"sparse\..*|to_sparse", _ANY, _ANY, "no sparse tensors"),
    (r"torch\._scaled_mm.*", _ANY, _ANY, "no float8 dtypes"),
    (_ANY, _ANY, "float8.*", "no float8 dtypes"),
    (r"fft\..*|stft|istft", "empty", _ANY, "torch's library cannot transform nothing"),
    (
        r"addmv|nn\.functional\.(conv[12]d|pixel_unshuffle|scaled_dot_product_attention)",
        "empty",
        _ANY,
        "torch's result has another shape than the operator's",
    ),
    (
        r"nn\.functional\.(conv_transpose.*|batch_norm|instance_norm|embedding|embedding_bag)",
        "empty",
        _ANY,
        "torch refuses",
    ),
    (r"_segment_reduce.*", "empty", _ANY, "torch reads outside of the data, or refuses"),
    ("lu_unpack", "empty", _ANY, "more pivots than rows"),
    ("matrix_exp", "forward", "float16|bfloat16", "torch overflows; calculated in float32 here"),
    (
        r"(special\.)?polygamma.*",
        "forward|noncontig|method|out|outcast",
        "u?int.*",
        "a pole is infinite, torch's is a number",
    ),
    (
        r"(digamma|(special\.)?polygamma).*",
        "grad|gradgrad",
        _ANY,
        "torch has fewer digits, none at the poles",
    ),
    (r"special\.(bessel|airy).*", _ANY, _ANY, "torch has fewer digits"),
    ("as_strided_scatter", "grad|gradgrad", _ANY, "torch's gradient is that of other elements"),
    (
        "cov|.*layer_norm|.*batch_norm.*|.*normalize",
        "grad|gradgrad",
        _ANY,
        "0 but for torch's rounding",
    ),
    (r"as_strided\.partial_views", "jvp", _ANY, "no tangent outside of the tensor's elements"),
    ("triangular_solve", "jvp", _ANY, "torch multiplies by the tangent's other triangle as well"),
    (_AT_NAN, "grad|gradgrad", _ANY, "torch's gradient at NaN depends on strides and sizes"),
    (r"nn\.functional\.rrelu", "grad|gradgrad", _ANY, "random slopes that do not show in infinity"),
    (
        r"nn\.functional\.multi_head_attention_forward",
        "forward|noncontig",
        "float16",
        "scores are rounded, of which a steep softmax is taken",
    ),
    (r".*linear_cross_entropy\.chunked", "gradgrad", _ANY, "no second derivatives by pieces"),
    (
        r"linalg\.norm(\.subgradients_at_zero)?",
        "gradgrad",
        _ANY,
        "torch's is NaN where the limit is finite",
    ),
    ("sinc", "grad|gradgrad", _ANY, "torch cancels near 0, a power series does not"),
    (
        "addcmul|addcdiv",
        "grad|gradgrad",
        _ANY,
        "torch rounds the product with value to a factor's narrower dtype",
    ),
    (r"logit|nn\.functional\.mish", "gradgrad", _ANY, "torch's is NaN where the limit is known"),
    ("ldexp", "gradgrad", _ANY, "products that overflow, in another order"),
    (
        r"nn\.functional\.prelu",
        "gradgrad",
        _ANY,
        "at 0 torch's second derivative is that of the other side",
    ),
    (r"special\.erfcx", "grad|gradgrad", _ANY, "a difference of nearly equal terms on both sides"),
    (r"fft\.ih?fft.*", "outcast", _ANY, "torch refuses a double output for real input only"),
    ("diff", "outcast", _ANY, "torch refuses another dtype for n=0 only"),
    (
        r"__r\w+__",
        "strides",
        _ANY,
        "strides follow the left operand; torch's, called by name, the right",
    ),
    (r"__r\w+__", _ANY, _ANY, "the class's own slots take a tensor as the first argument only"),
    (r"special\.(zeta|laguerre.*|log_ndtr)", _ANY, _ANY, "torch has NaN where the limit is finite"),
    (r"signal\.windows\.kaiser", _ANY, _ANY, "torch has NaN where its Bessel function overflows"),
    (
        r"(linalg\.)?svd",
        "forward|noncontig|method|out",
        _ANY,
        "singular vectors are free in their signs",
    ),
    ("as_strided.*", "meta", _ANY, "a Meta tensor of the same geometry has a smaller storage"),
    (r"nn\.functional\.one_hot", "meta", _ANY, "how many classes there are is found in the values"),
    ("amax|amin|aminmax", "error|message", _ANY, "a tensor of 65 dims cannot be made here"),
)


def reason_for(name: str, check: str, dtype: str) -> str:
    """The reason why a check of an operator fails in a dtype; empty when none is known."""
    for names, checks, dtypes, why in REASONS:
        pairs = ((names, name), (checks, check), (dtypes, dtype))
        if all(re.fullmatch(pattern, text) for pattern, text in pairs):
            return why
    return ""
