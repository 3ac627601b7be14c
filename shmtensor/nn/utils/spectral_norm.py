"""A weight over its largest singular value, recomputed before every call by a hook.

Source: torch.nn.utils.spectral_norm.
"""

from __future__ import annotations

from typing import Any, TypeVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter
from shmtensor.nn.utils.parametrizations import _first_of_outputs
from shmtensor.nn.utils.weight_norm import _apply, _Recomputed, _remove

__all__ = ["remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)


class SpectralNorm(_Recomputed):
    """The hook of `spectral_norm`."""

    kind = "spectral_norm"
    _version = 1  # since the state has the vector v

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name, dim)
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with all dimensions but *dim* in one."""
        return weight.movedim(self.dim, 0).flatten(1)

    def compute_weight(self, module: Module) -> Tensor:
        """The weight over its largest singular value; in training the vectors follow it first."""
        weight: Tensor
        weight, u, v = (getattr(module, name) for name in self.stored())
        matrix = self.reshape_weight_to_matrix(weight)
        if module.training and shmtensor.is_grad_enabled():
            self._iterate(matrix, u, v)
            u, v = u.clone(), v.clone()  # the graph needs what the next call changes
        return weight / shmtensor.dot(u, matrix.mv(v))

    def _iterate(self, matrix: Tensor, u: Tensor, v: Tensor) -> None:
        with shmtensor.no_grad():
            for _ in range(self.n_power_iterations):
                F.normalize(matrix.t().mv(u), dim=0, eps=self.eps, out=v)
                F.normalize(matrix.mv(v), dim=0, eps=self.eps, out=u)

    def start(self, module: Module, weight: Parameter) -> None:
        """The weight is the parameter, two vectors are buffers."""
        module.register_parameter(f"{self.name}_orig", weight)
        setattr(module, self.name, weight.detach())
        matrix = self.reshape_weight_to_matrix(weight.detach())
        for which, length in zip("uv", matrix.shape, strict=True):
            vector = matrix.new_empty(length).normal_(0, 1)
            module.register_buffer(f"{self.name}_{which}", F.normalize(vector, dim=0, eps=self.eps))

    def stored(self) -> list[str]:
        """The parameter and the two buffers."""
        return [f"{self.name}_{which}" for which in ("orig", "u", "v")]

    def watch_state(self, module: Module) -> None:
        """The state's metadata has the version; states from before versions are completed."""
        self.handles = [
            module.register_state_dict_post_hook(self._note_version),
            module.register_load_state_dict_pre_hook(self._complete_old_state),
        ]

    def _note_version(
        self, module: Module, state: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self._version

    def _complete_old_state(
        self,
        module: Module,
        state: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        """Old states have the divided weight instead of v, which follows from it."""
        version = local_metadata.get("spectral_norm", {}).get(f"{self.name}.version")
        if version is not None and version >= 1:
            return
        weight_key = prefix + self.name
        is_new = all(prefix + name in state for name in self.stored())
        if version is None and is_new and weight_key not in state:
            return
        needed = [f"{weight_key}_orig", weight_key, f"{weight_key}_u"]
        absent = [key for key in needed if key not in state]
        if absent:
            missing.extend(absent if strict else [])
            return
        with shmtensor.no_grad():
            original, u = state[needed[0]], state[needed[2]]
            sigma = (original / state.pop(weight_key)).mean()
            state[f"{weight_key}_v"] = self._vector_of(original, u, sigma)

    def _vector_of(self, weight: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """The v with ``u = normalize(W v)`` and ``u . W v = sigma``, by least squares."""
        matrix = self.reshape_weight_to_matrix(weight)
        v = shmtensor.linalg.pinv(matrix.t().mm(matrix)).mv(matrix.t().mv(u))
        return v.mul_(sigma / shmtensor.dot(u, matrix.mv(v)))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divide a weight by its largest singular value; parametrizations.spectral_norm is newer.

    Args:
        module: Whose weight. Its parameter is then ``name_orig``.
        name: Of the weight.
        n_power_iterations: Steps with which each call in training follows the singular vectors.
        eps: The least norm that these are divided by.
        dim: The dimension of the matrix's rows; by default that of the outputs.

    Raises:
        RuntimeError: The weight has such a hook.

    Source:
        torch.nn.utils.spectral_norm.
    """
    dim = _first_of_outputs(module) if dim is None else dim
    _apply(module, SpectralNorm(name, n_power_iterations, dim, eps))
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make the divided weight a parameter again.

    Raises:
        ValueError: `spectral_norm` was not applied.
    """
    _remove(module, SpectralNorm, name)
    return module
