"""Operators and kernels from Python.

A `Library` holds registrations and takes them back when it is dropped::

    lib = Library("mylib", "DEF")
    lib.define("twice(Tensor self) -> Tensor")

    @impl(lib, "twice", "CPU")
    def twice(x):
        return x + x

    shmtensor.ops.mylib.twice(t)

`custom_op` makes an operator of one function, whose annotations are the schema::

    @custom_op("mylib::sine", mutates_args=())
    def sine(x: Tensor) -> Tensor:
        return from_numpy(numpy.sin(x.numpy()))

    sine.register_fake(lambda x: empty_like(x))
    sine.register_autograd(backward, setup_context=save)
"""

from shmtensor.library._autocast import register_autocast
from shmtensor.library._contexts import get_ctx, impl_abstract
from shmtensor.library._custom_ops import (
    CustomOpDef,
    custom_op,
    register_autograd,
    register_fake,
    register_kernel,
)
from shmtensor.library._infer_schema import infer_schema
from shmtensor.library._opcheck import OpCheckError, opcheck
from shmtensor.library._registrations import Library, define, fallthrough_kernel, impl
from shmtensor.library._torch_dispatch import register_torch_dispatch

__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
]
