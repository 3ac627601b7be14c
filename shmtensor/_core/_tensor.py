"""The tensor class: what Python adds to the C type.

Operators, numbers, indexing and most methods come from ``_TensorBase``; here are the methods that
are conveniences over those, and the protocols that need Python objects (copying, pickling,
printing, NumPy).
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING, Any, overload

from shmtensor import _C
from shmtensor._C import _TensorBase
from shmtensor._core import (
    _array_standard,
    _layouts,
    _named_dimensions,
    _sparse_legacy,
    _type_names,
)
from shmtensor._core._asking_methods import let_methods_ask
from shmtensor._core._elements import replace_elements
from shmtensor._core._printing import tensor_text
from shmtensor._generated.dtypes import DTYPES

if TYPE_CHECKING:
    import numpy as np

    from shmtensor.storage import TypedStorage, UntypedStorage

__all__ = ["Tensor"]

_WITHOUT_NUMPY = {getattr(_C, row.name) for row in DTYPES if not row.numpy}


class Tensor(_TensorBase):
    """A multi-dimensional array of one element type.

    Made by functions such as `shmtensor.tensor`, `shmtensor.zeros` and `shmtensor.from_numpy`;
    ``Tensor(...)`` itself is the old-style constructor (sizes, or data in the default dtype).
    """

    # NumPy leaves `array * tensor` to the tensor.
    __array_priority__ = 1000
    __module__ = "shmtensor"

    # --- subclasses that answer calls themselves ---------------------------------------------

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer a call with an argument of this class. Subclasses may override it.

        Args:
            func: The function, method or ``__get__``/``__set__`` of a property.
            types: The classes of the arguments that have a ``__torch_function__``.
            args: The positional arguments; self first.
            kwargs: The keyword arguments.

        Returns:
            The result, its tensors as instances of this class; NotImplemented when *types* has a
            class that this one is not derived from.

        Source:
            torch.Tensor.__torch_function__.
        """
        from shmtensor.overrides import answer_as  # it imports this module

        return answer_as(cls, func, types, args, kwargs or {})

    #: The same for operators, as their kernels would see them; see `utils._python_dispatch`.
    __torch_dispatch__ = _C._disabled_torch_dispatch_impl

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that answers operators leaves calls as they are, unless it says otherwise."""
        super().__init_subclass__(**options)
        function = getattr(cls.__torch_function__, "__func__", None)
        if function is _default_answer and cls.__torch_dispatch__ is not Tensor.__torch_dispatch__:
            cls.__torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]

    # --- arithmetic --------------------------------------------------------------------------

    # Names that torch kept from before Python 3.
    __div__ = _C._TensorBase.__truediv__
    __idiv__ = _C._TensorBase.__itruediv__
    __rdiv__ = _C._TensorBase.__rtruediv__

    # --- text ------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return tensor_text(self, tensor_contents)

    def __format__(self, format_spec: str) -> str:
        if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
            return format(self.item(), format_spec)
        return object.__format__(self, format_spec)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        return sorted(name for name in names if name != "volatile")

    # --- copying and pickling --------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        from shmtensor._core._pickling import deepcopy_tensor  # it imports this module

        return deepcopy_tensor(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        from shmtensor._core._pickling import reduce_tensor  # it imports this module

        return reduce_tensor(self, protocol)

    # --- storage ---------------------------------------------------------------------------

    def untyped_storage(self) -> UntypedStorage:
        """Return the bytes this tensor shows; the same object for every view of them."""
        from shmtensor.storage import UntypedStorage  # it imports this module

        return UntypedStorage._of_tensor(self)

    def storage(self) -> TypedStorage:
        """Return the storage as a sequence of this tensor's dtype."""
        from shmtensor.storage import TypedStorage  # it imports this module
        from shmtensor.storage.typed import warn_of_removal

        warn_of_removal(3)
        return TypedStorage._of_tensor(self)

    def _typed_storage(self) -> TypedStorage:
        """Return `storage` without its warning."""
        from shmtensor.storage import TypedStorage  # it imports this module

        return TypedStorage._of_tensor(self)

    # --- NumPy -----------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return an array over the same memory.

        Args:
            force: Detach first, and copy from what NumPy cannot show.

        Raises:
            RuntimeError: The tensor requires grad, operations are recorded and *force* is false.
            TypeError: NumPy has no such dtype, or there is no data (Meta).

        Source:
            torch.Tensor.numpy.
        """
        array = _C._simple_array(self)
        if array is not None:
            return array  # type: ignore[no-any-return]
        if type(self).__torch_dispatch__ is not Tensor.__torch_dispatch__:
            raise RuntimeError(
                f".numpy() is not supported for tensor subclasses, got {type(self).__name__}"
            )
        import numpy as np  # loaded by who uses it

        if force:
            return self.detach().cpu().resolve_conj().resolve_neg().numpy()
        if self.is_meta:
            raise TypeError(
                "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        if self.layout is not _C.strided:
            raise TypeError(
                "can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."
            )
        if self.requires_grad and _C.is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        for is_lazy, bit, resolve in (
            (self.is_conj(), "conjugate", "resolve_conj"),
            (self.is_neg(), "negative", "resolve_neg"),
        ):
            if is_lazy:
                raise RuntimeError(
                    f"Can't call numpy() on Tensor that has {bit} bit set. Use "
                    f"tensor.{resolve}().numpy() instead."
                )
        if self.dtype in _WITHOUT_NUMPY:
            title = _type_names.NAMES[self.dtype].removesuffix("Tensor")
            raise TypeError(f"Got unsupported ScalarType {title}")
        return np.asarray(memoryview(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to turn {array.dtype} into {dtype}")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: np.ndarray[Any, Any], context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        # What NumPy's functions give for tensors is a tensor; truths are numbers, as in torch.
        wrapped: Tensor = _C.from_numpy(array.astype("uint8") if array.dtype == bool else array)
        return wrapped

    __array_namespace__ = _array_standard.namespace_of
    to_device = _array_standard.to_device

    # --- new tensors like this one ---------------------------------------------------------

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        shared: bool = False,
    ) -> Tensor:
        """Copy *data* into a new tensor of this one's dtype and device.

        Args:
            data: Anything `shmtensor.tensor` takes.
            dtype: Another dtype.
            device: Another device.
            requires_grad: Record operations on the result.
            shared: Make it in shared memory.

        Source:
            torch.Tensor.new_tensor.
        """
        result: Tensor = _C.tensor(
            data,
            dtype=self.dtype if dtype is None else dtype,
            device=self.device if device is None else device,
            requires_grad=requires_grad,
            shared=shared,
        )
        return result

    def new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of this dtype with the old-style constructor."""
        if self.is_sparse:
            made: Tensor = _sparse_legacy.new_sparse(self.dtype, args, **kwargs)
            return made
        result: Tensor = _C._legacy_new(self.dtype, *args, **kwargs)
        return result

    # --- types -----------------------------------------------------------------------------

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the old-style type name, or this tensor with another dtype.

        Args:
            dtype: A dtype, an old-style class or the name of one such as ``"torch.DoubleTensor"``;
                ``Tensor`` is the class of the default dtype. None asks for the name.
            non_blocking: Ignored on the CPU.

        Raises:
            TypeError: *dtype* is of another type.
            ValueError: The name, or the class, is unknown.
            RuntimeError: It names a device that does not exist here.

        Source:
            torch.Tensor.type.
        """
        if dtype is None:
            if self.layout in (_C.sparse_csr, _C.sparse_csc):
                raise RuntimeError("type(): a compressed matrix has no old-style type name")
            package = "torch.sparse" if self.is_sparse else "torch"
            return f"{package}.{_type_names.NAMES[self.dtype]}"
        wanted = _C.get_default_dtype() if dtype is Tensor else _type_names.dtype_of(dtype)
        return self.to(wanted, non_blocking=non_blocking)

    def __reversed__(self) -> Tensor:
        return self if self.dim() == 0 else self.flip(0)

    # --- names of dimensions -----------------------------------------------------------------

    @property
    def names(self) -> Any:
        """The name of each dimension, or None. Operators do not look at names."""
        return _named_dimensions.names_of(self)

    @names.setter
    def names(self, names: Any) -> None:
        _named_dimensions.set_names(self, names)

    def has_names(self) -> bool:
        """Return whether a dimension has a name."""
        return any(name is not None for name in _named_dimensions.names_of(self))

    def rename(self, *names: Any, **rename_map: str | None) -> Tensor:
        """Return a view with other names of dimensions.

        Args:
            *names: One for each dimension, None for no name; ``"..."`` stands for what is there.
                A single None takes all names away.
            **rename_map: Instead: old names and their new ones.

        Raises:
            RuntimeError: The number does not fit, a name is used twice or is not an identifier.

        Source:
            torch.Tensor.rename.
        """
        return _named_dimensions.rename(self, names, rename_map)

    def rename_(self, *names: Any, **rename_map: str | None) -> Tensor:
        """Give this tensor other names of dimensions; see `rename`."""
        return _named_dimensions.rename_in_place(self, names, rename_map)

    def refine_names(self, *names: Any) -> Tensor:
        """Return a view that names what has no name yet; names that exist must be the same.

        Raises:
            RuntimeError: A dimension has another name.

        Source:
            torch.Tensor.refine_names.
        """
        return _named_dimensions.refine(self, names)

    def align_to(self, *names: Any) -> Tensor:
        """Return a view with the dimensions in the order of *names*; new ones have size 1.

        Raises:
            RuntimeError: A dimension has no name, or its name is not among *names*.

        Source:
            torch.Tensor.align_to.
        """
        return _named_dimensions.align_to(self, names)

    def align_as(self, other: Tensor) -> Tensor:
        """Return a view with the dimensions in the order of *other*'s names."""
        return _named_dimensions.align_to(self, other.names)

    # --- element by element, in Python -------------------------------------------------------

    def apply_(self, callable: Any) -> Tensor:
        """Replace each element by ``callable(element)``; slow, since it is Python.

        Raises:
            RuntimeError: The tensor requires grad.
            TypeError: *callable* returned something that is not a number.

        Source:
            torch.Tensor.apply_.
        """
        replace_elements(self, "apply_", callable)
        return self

    def map_(self, tensor: Tensor, callable: Any) -> Tensor:
        """Replace each element *a* by ``callable(a, b)`` with *b* from *tensor*, broadcast."""
        replace_elements(self, "map_", callable, other=tensor)
        return self

    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Tensor:
        """Replace each element *a* by ``callable(a, b, c)`` with values of *x* and *y*."""
        replace_elements(self, "map2_", callable, x=x, y=y)
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise what ``to("cuda")`` raises: there is no such device."""
        return self.to("cuda")

    def xpu(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise what ``to("xpu")`` raises: there is no such device."""
        return self.to("xpu")

    def mtia(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise what ``to("mtia")`` raises: there is no such device."""
        return self.to("mtia")

    def ipu(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise RuntimeError: there is no such device."""
        raise RuntimeError("PyTorch is not linked with support for ipu devices")

    def pin_memory(self, device: Any = None) -> Tensor:
        """Raise RuntimeError: there is no accelerator to pin memory for."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: there is no accelerator to pin memory for."""
        return False

    # --- layouts -----------------------------------------------------------------------------

    to_dense = _layouts.to_dense
    to_sparse_coo = _layouts.to_sparse_coo
    to_sparse_csr = _layouts.to_sparse_csr
    to_sparse_csc = _layouts.to_sparse_csc
    smm = _layouts.smm
    _dimI = _layouts.dim_of_indices
    _dimV = _layouts.dim_of_values

    # --- questions ---------------------------------------------------------------------------

    def is_distributed(self) -> bool:
        """Return whether it is spread over machines: False."""
        return False

    def _is_view(self) -> bool:
        return self._base is not None

    def is_nonzero(self) -> bool:
        """Return whether the only element is not zero.

        Raises:
            RuntimeError: There is not exactly one.
        """
        return bool(self)

    dim_order = _layouts.dim_order

    def sum_to_size(self, *size: Any) -> Tensor:  # type: ignore[override]
        """Sum over the dimensions that broadcasting from *size* had made.

        Raises:
            RuntimeError: *size* does not broadcast to this shape.
            TypeError: It is not of ints.

        Source:
            torch.Tensor.sum_to_size.
        """
        if not size:
            raise TypeError('sum_to_size() missing 1 required positional arguments: "size"')
        given = size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size
        wanted = tuple(operator.index(s) for s in given)
        if not wanted:
            return self.sum()
        lead = self.dim() - len(wanted)
        fits = lead >= 0 and all(
            w in (1, s) for w, s in zip(wanted, tuple(self.shape)[lead:], strict=True)
        )
        if not fits:
            raise RuntimeError(
                f"size {{{list(wanted)}}} is not expandable to size {{{list(self.shape)}}}."
            )
        summed = [i for i in range(self.dim()) if i < lead or wanted[i - lead] != self.shape[i]]
        return (self.sum(summed, keepdim=True) if summed else self).reshape(wanted)

    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Tensor:
        """See `shmtensor.stft`."""
        from shmtensor._core._spectrogram import stft  # it imports this module

        window_and_place = (n_fft, hop_length, win_length, window, center)
        result = (normalized, onesided, return_complex, align_to_window)
        return stft(self, *window_and_place, pad_mode, *result)

    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Tensor | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Tensor:
        """See `shmtensor.istft`."""
        from shmtensor._core._spectrogram import istft  # it imports this module

        sizes = (n_fft, hop_length, win_length)
        return istft(self, *sizes, window, center, normalized, onesided, length, return_complex)

    def lu(self, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
        """See `shmtensor.lu`."""
        from shmtensor._core._products import lu  # it imports this module

        return lu(self, pivot, get_infos)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """See `shmtensor.nonzero`."""
        return _C._nn.nonzero_numpy(self) if as_tuple else _C._nn.nonzero(self)

    def resize(self, *sizes: int) -> Tensor:
        """Return the elements in another shape of as many; `reshape` is the modern form.

        Raises:
            RuntimeError: The shape has another number of elements.

        Source:
            torch.Tensor.resize.
        """
        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        return self._in_shape(sizes)

    def resize_as(self, tensor: Tensor) -> Tensor:
        """Return the elements in the shape of another tensor of as many.

        Raises:
            RuntimeError: It has another number of elements.

        Source:
            torch.Tensor.resize_as.
        """
        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        return self._in_shape(tuple(tensor.shape))

    def _in_shape(self, sizes: Any) -> Tensor:
        sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        n = math.prod(sizes)
        if n != self.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, sizes))} ({n} elements in total), but the "
                f"given tensor has a size of {'x'.join(map(str, self.shape))} ({self.numel()} "
                "elements). autograd's resize can only change the shape of a given tensor, while "
                "preserving the number of elements. "
            )
        result: Tensor = self.contiguous().view(sizes)
        return result

    def norm(
        self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Tensor:
        """See `shmtensor.norm`."""
        if p == "fro" and dim is None:
            return _C._nn.linalg_vector_norm(self, 2.0, None, keepdim, dtype=dtype)
        from shmtensor._core._products import norm  # it imports this module

        return norm(self, p, dim, keepdim, dtype=dtype)

    @overload
    def unique(self, sorted: bool = True, *, dim: int | None = None) -> Tensor: ...
    @overload
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any: ...
    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """See `shmtensor.unique`."""
        from shmtensor._core._selection import unique  # it imports this module

        return unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """See `shmtensor.unique_consecutive`."""
        from shmtensor._core._selection import unique_consecutive  # it imports this module

        return unique_consecutive(self, return_inverse, return_counts, dim)


let_methods_ask(Tensor)
_C._set_tensor_class(Tensor)
_C._set_torch_dispatch(Tensor.__torch_dispatch__)
_default_answer = Tensor.__dict__["__torch_function__"].__func__
