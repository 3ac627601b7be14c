"""Linear algebra. Every function takes batches of matrices in the last two dimensions.

Shapes, keywords and named results are torch.linalg's; matrices are float32, float64, complex64 or
complex128. The work is LAPACK's, in the library that the package brings.

Raises (all functions):
    LinAlgError: A matrix is singular or not positive-definite where it must not be, or an
        iteration did not converge. The text names the batch element.
    RuntimeError: Shapes or dtypes do not fit.

Source: torch.linalg.
"""

from __future__ import annotations

from shmtensor import _C
from shmtensor.errors import LinAlgError

_nn = _C._nn

cholesky = _nn.linalg_cholesky
cholesky_ex = _nn.linalg_cholesky_ex
cond = _nn.linalg_cond
cross = _nn.linalg_cross
det = _nn.linalg_det
diagonal = _nn.linalg_diagonal
eig = _nn.linalg_eig
eigh = _nn.linalg_eigh
eigvals = _nn.linalg_eigvals
eigvalsh = _nn.linalg_eigvalsh
householder_product = _nn.linalg_householder_product
inv = _nn.linalg_inv
inv_ex = _nn.linalg_inv_ex
ldl_factor = _nn.linalg_ldl_factor
ldl_factor_ex = _nn.linalg_ldl_factor_ex
ldl_solve = _nn.linalg_ldl_solve
lstsq = _nn.linalg_lstsq
lu = _nn.linalg_lu
lu_factor = _nn.linalg_lu_factor
lu_factor_ex = _nn.linalg_lu_factor_ex
lu_solve = _nn.linalg_lu_solve
matmul = _nn.linalg_matmul
matrix_exp = _nn.linalg_matrix_exp
matrix_norm = _nn.linalg_matrix_norm
matrix_power = _nn.linalg_matrix_power
matrix_rank = _nn.linalg_matrix_rank
multi_dot = _nn.linalg_multi_dot
norm = _nn.linalg_norm
pinv = _nn.linalg_pinv
qr = _nn.linalg_qr
slogdet = _nn.linalg_slogdet
solve = _nn.linalg_solve
solve_ex = _nn.linalg_solve_ex
solve_triangular = _nn.linalg_solve_triangular
svd = _nn.linalg_svd
svdvals = _nn.linalg_svdvals
tensorinv = _nn.linalg_tensorinv
tensorsolve = _nn.linalg_tensorsolve
vander = _nn.linalg_vander
vecdot = _nn.linalg_vecdot
vector_norm = _nn.linalg_vector_norm

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
