"""What is special about an operator, in sets of names, each with its reason."""

from __future__ import annotations

from codegen.spec.model import OperatorEntry

#: The values of the result are not defined.
UNDEFINED = frozenset(
    "empty.memory_format empty_like empty_permuted empty_strided new_empty new_empty_strided "
    "resize_ resize_as_".split()
)

#: Parts of derivatives: what they make up is compared with differences in ``test_gradients.py``.
OF_DERIVATIVES = frozenset(
    """
    _elu_double_backward _gelu_double_backward _gelu_tanh_second_derivative
    _mish_second_derivative _silu_double_backward
    _silu_second_derivative _softplus_double_backward _pow_backward _pow_backward_exponent
    _pow_backward_self _div_mode_other_backward _div_mode_self_backward _logit_backward
    _native_dropout_backward _group_norm_statistics_backward
    _sinc_backward grid_sampler_backward _grid_sampler_double_backward _nll_backward
    _cumprod_backward
    _cumprod_terms _least
    _prod_backward _prod_quotients _clamp_backward _clamp_max_backward _clamp_min_backward
    _clamp_self_backward _angle_backward _sgn_backward _log_ndtr_backward
    """.split()
)

#: Self becomes another view of a storage: ``tests/tensor/golden/views.txt`` says of which elements.
SETS_STORAGE = frozenset(
    "set_ set_.source_Storage set_.source_Storage_storage_offset set_.source_Tensor "
    "set_.source_Tensor_storage_offset".split()
)

#: The meaning is in the storage, not in the values: other strides are other arguments. Or
#: statistics among the arguments are written to, which may not overlap.
OF_STORAGE = frozenset(
    "_batch_norm_with_update _debug_has_internal_overlap "
    "as_strided as_strided_ as_strided_copy as_strided_scatter _as_strided_at _as_strided_at_ "
    "_as_strided_backward _as_strided_forward resize_ resize_as_ set_ set_.source_Storage "
    "set_.source_Storage_storage_offset set_.source_Tensor set_.source_Tensor_storage_offset "
    "view.dtype view_copy.dtype".split()
)

#: A view exists for some strides only; for others the operator refuses.
NEEDS_STRIDES = frozenset(
    "view view.dtype view_as _unsafe_view view_as_complex view_as_complex_copy view_copy "
    "unflatten.int".split()
)

#: The result is in units of the dtype's own precision or bytes.
OF_PRECISION = frozenset(
    "nextafter view.dtype view_copy.dtype _eps nan_to_num set_.source_Storage".split()
)

#: Vectors are determined up to a sign or phase: compared by magnitude.
UP_TO_PHASE = frozenset("linalg_eig linalg_eigh _linalg_eigh linalg_svd _linalg_svd svd".split())

#: The result depends on values, so Meta may refuse.
DATA_DEPENDENT = frozenset(
    """
    _local_scalar_dense
    _unique2 argwhere masked_select nonzero nonzero.out nonzero_numpy repeat_interleave.Tensor
    repeat_interleave.self_Tensor unique_consecutive unique_dim unique_dim_consecutive bincount
    where allclose equal tensor_split.tensor_indices_or_sections narrow.Tensor
    _histogramdd_bin_edges index.Tensor segment_reduce _ctc_loss linspace.Scalar_Tensor
    linspace.Tensor_Scalar linspace.Tensor_Tensor logspace.Scalar_Tensor logspace.Tensor_Scalar
    logspace.Tensor_Tensor
    """.split()
)


#: Unsigned numbers wrap on the way, because a step or a bound is below 0; wider ones do not.
WRAPS = frozenset(
    "l1_loss clamp clip _clamp_backward _group_norm_statistics_backward _gelu_double_backward "
    "_gelu_tanh_second_derivative _log_ndtr_backward".split()
)

#: The error is as large as roundings of the largest numbers make it, not each element's own:
#: rotations and eliminations mix the elements, and coordinates are rounded beside whole sizes.
MIXES = frozenset(
    "_linalg_eigh linalg_eigh linalg_eigvalsh _det_cofactors grid_sampler_backward "
    "_grid_sampler_double_backward _resample_backward".split()
)

#: In double precision the reference is less exact: SciPy's exponential of a matrix is off by 3e-13
#: where ours is by 2e-15; the others subtract numbers from 1, or integrate.
REFERENCE_ROUNDS = frozenset(
    "matrix_exp linalg_matrix_exp gelu soft_margin_loss _dirichlet_grad "
    "_standard_gamma_grad".split()
)

#: Makers of arguments that stay symmetric (Hermitian) when they change.
SYMMETRIC = frozenset(("_definite", "_hermitian"))
#: Makers of triangular arguments.
TRIANGULAR = frozenset(("_lower", "_upper"))

#: Nothing to differentiate; torch too says that the derivative is not implemented; or (ctc) the
#: gradient is that of the log_softmax before it, as in torch.
#: The statistics of a norm's or attention's backward belong to its input, which a case cannot say.
NO_DIFFERENCES = frozenset(
    """
    _scaled_dot_product_flash_attention_for_cpu_backward
    _ctc_loss _unique2 floor_divide floor_divide.Scalar floor_divide_.Scalar geqrf
    linalg_ldl_factor linalg_ldl_factor_ex native_batch_norm_backward
    native_layer_norm_backward special_zeta.other_scalar unique_consecutive unique_dim
    unique_dim_consecutive
    """.split()
)

#: How many cases, from the first, are differentiated: the rest are settings whose gradient is not
#: the derivative (a padding row), or where there is none (ties, NaN, a basis that is not unique).
GRADIENT_CASES = {
    "embedding": 1,
    "linalg_qr": 2,
    "linalg_svd": 1,
    "mode": 1,
    "nan_to_num": 1,
    "scatter_add": 1,
    "svd": 1,
}

#: Arguments that torch does not differentiate by either.
NO_GRADIENT = {
    "_batch_norm_with_update": {"running_mean", "running_var"},
    "_native_batch_norm_legit": {"running_mean", "running_var"},
    "batch_norm": {"running_mean", "running_var"},
    "_multi_margin": {"weight"},
    "cross_entropy_loss": {"weight"},
    "nll_loss": {"weight"},
    "nll_loss2d": {"weight"},
    "nll_loss_nd": {"weight"},
    "igamma": {"self"},
    "igammac": {"self"},
    "special_gammainc": {"self"},
    "special_gammaincc": {"self"},
    "special_zeta": {"self"},
}

#: Numbers of the results that have a derivative, where some have none.
RESULTS = {
    "_scaled_dot_product_flash_attention_for_cpu": (0,),
    "_linalg_det": (0,),
    "_linalg_slogdet": (0, 1),
    "linalg_eig": (0,),
    "native_batch_norm": (0,),
    "native_layer_norm": (0,),
    "_batch_norm_with_update": (0,),
    "_native_batch_norm_legit": (0,),
    "_native_batch_norm_legit.no_stats": (0,),
    "native_dropout": (0,),
    "_fused_rms_norm": (0,),
}

#: The same for complex numbers, where vectors have a phase.
COMPLEX_RESULTS = {
    "_linalg_eigh": (0,),
    "linalg_eigh": (0,),
    "_linalg_svd": (1,),
    "linalg_svd": (1,),
    "svd": (1,),
}

#: Another device than Meta is asked for, or none can be.
OF_DEVICE = frozenset(
    "to.device _wrapped_scalar set_.source_Storage set_.source_Storage_storage_offset".split()
)

#: The output's dtype is what the result is made in, as in torch.
TAKES_ANY_OUT = frozenset(
    """
    bernoulli cumprod cumsum linspace linspace.Scalar_Tensor linspace.Tensor_Scalar
    linspace.Tensor_Tensor logspace
    logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor prod.dim_int
    sum.dim_IntList arange arange.start arange.start_step range.step zeros ones full
    empty.memory_format eye eye.m bartlett_window bartlett_window.periodic blackman_window
    blackman_window.periodic hamming_window hamming_window.periodic hamming_window.periodic_alpha
    hamming_window.periodic_alpha_beta hann_window hann_window.periodic kaiser_window
    kaiser_window.beta kaiser_window.periodic
    """.split()
)

#: torch only warns that writing into an expanded tensor is deprecated, or does it without a word.
WRITES_EXPANDED = frozenset(
    "index_fill.int_Scalar index_fill.int_Tensor index_put masked_fill.Scalar masked_fill.Tensor "
    "threshold tril triu".split()
)


def has_no_reference(entry: OperatorEntry) -> bool:
    """Is there a reason why nothing is known of the result but what other tests say?"""
    name = entry.name
    return (
        is_undefined(entry)
        or name in OF_DERIVATIVES
        or name in SETS_STORAGE
        or name == "_debug_has_internal_overlap"  # of how the tensor lies
    )


def is_undefined(entry: OperatorEntry) -> bool:
    """Are the values of the result not to be compared?"""
    return entry.name in UNDEFINED or "random" in entry.tags
