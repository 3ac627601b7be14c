"""Where torch gives something else, by operator, each with its reason.

An operator that is listed must differ, so that the lists stay short.
"""

from __future__ import annotations

#: torch has kernels of these for some operators only. Ours calculate them in float32 and complex64,
#: or move them without looking at them.
FEW_KERNELS = frozenset(("float16", "bfloat16", "complex32", "uint16", "uint32", "uint64"))

#: Steps with an output that are composed otherwise in torch.
NOT_IN_TORCH = frozenset(
    (
        "_embedding_bag_sum",
        "_embedding_bag_max",
        "_conj_complex",
        "_div_trunc",
        "_embedding_bag_mean",
        "_multi_margin",
        "_multilabel_margin",
        "_normalize",
        "_resample",
        "_rrelu_noise",
        "_transform_input",
    )
)

#: The operator of that name takes other arguments in torch.
OTHER_ARGUMENTS = frozenset(
    """
    _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _cdist_forward elu_backward
    leaky_relu_backward log_sigmoid_backward native_layer_norm_backward
    """.split()
)

#: Not what the name promises, but values of its own kept for the derivative: of another layout
#: (factors of the matrix rather than of its transpose, rows first) or of more digits.
OWN_VALUES = frozenset(
    """
    _ctc_loss _linalg_det _linalg_slogdet _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward native_layer_norm
    """.split()
)

_NARROW = ("uint8", "int8", "int16", "int32")
_INTEGERS = (*_NARROW, "int64")
_WIDE = ("uint16", "uint32", "uint64")
_HALF = ("float16", "bfloat16")
_COMPLEX = ("complex64", "complex128")

#: Dtypes that only ours take: the result is exact, or that of the numbers in float32.
ONLY_OURS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        """
        avg_pool1d avg_pool2d avg_pool3d conv2d conv_transpose1d conv_transpose2d.input
        conv_transpose3d.input
        """.split(),
        _NARROW,
    ),
    "convolution": (*_NARROW, *_COMPLEX),
    "convolution_backward": (*_INTEGERS, *_COMPLEX),
    "max_pool1d": _INTEGERS,
    "linalg_vander": _WIDE,
    # torch allocates a result that it then refuses, or stops in an assertion of its own.
    **dict.fromkeys(("norm.ScalarOpt_dim_dtype", "norm.ScalarOpt_dtype"), ("complex32", *_COMPLEX)),
    **dict.fromkeys(("renorm", "renorm_"), ("complex32",)),
}

#: Dtypes that only torch takes, in a step below a function that ours takes them in too, or where
#: torch has a way round the kernel for some numbers.
ONLY_TORCH: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("_fused_rms_norm", "silu_backward"), _COMPLEX),
    "embedding_dense_backward": _WIDE,
    **dict.fromkeys(("isin.Tensor_Scalar", "pow.Tensor_Scalar"), ("complex32", *_WIDE)),
    **dict.fromkeys(
        ("_histogramdd_from_bin_tensors", "histogram.bin_ct", "histogram.bins_tensor"), _HALF
    ),
    **dict.fromkeys(
        [f"{n}_mean{o}" for n in ("std", "var") for o in ("", ".dim", ".correction")],
        ("complex32",),
    ),
    "_neg_view": ("bool", *_INTEGERS, *_WIDE),
}

#: torch is not as exact: a constant of float32, a short series, an overflow of half.
LESS_EXACT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("_dirichlet_grad", "_standard_gamma_grad"), ("float32", "float64")),
    **dict.fromkeys(("hardsigmoid_backward", "special_airy_ai"), ("float64",)),
    **dict.fromkeys(("linalg_matrix_exp", "matrix_exp"), _HALF),
}

#: Dtypes of the arguments with which the results of an operator differ.
RESULTS: dict[str, tuple[str, ...]] = {**ONLY_OURS, **ONLY_TORCH, **LESS_EXACT}

#: An empty output is laid out by torch as LAPACK or the transform leaves it, by ours row by row.
OUT_ROWS_FIRST = frozenset(
    """
    cholesky_inverse fft_ifft fft_ihfft fft_ihfftn linalg_householder_product orgqr
    """.split()
)

#: Both refuse the same call, but look at the output first or at the input first.
OUT_OTHER_REFUSAL = frozenset(
    """
    ceil column_stack concat concatenate dstack fix floor hardtanh hstack relu row_stack sign
    trunc vstack
    """.split()
)

#: An output of a wider or narrower dtype than the result's is cast to by one of both only.
OUT_CASTS = frozenset(
    """
    _fft_c2c _fft_c2r _fft_r2c abs absolute logsumexp normal.Tensor_float special_logsumexp
    std.correction var.correction
    """.split()
)

#: The results differ too (RESULTS), or torch has no output of that name.
OUT_OF_RESULTS = frozenset(
    """
    _native_batch_norm_legit _native_batch_norm_legit.no_stats histogram.bin_ct
    histogram.bins_tensor native_batch_norm
    """.split()
)

OUT = OUT_ROWS_FIRST | OUT_OTHER_REFUSAL | OUT_CASTS | OUT_OF_RESULTS

#: torch resizes self.
IN_PLACE = frozenset(("addbmm",))

#: The results differ too (RESULTS); torch divides complex numbers by zeros otherwise (addcdiv),
#: and has no powers of bools for a floating point number (ldexp).
PROMOTION = frozenset(
    """
    _dirichlet_grad _standard_gamma_grad addcdiv hardsigmoid_backward ldexp.Tensor silu_backward
    """.split()
)
