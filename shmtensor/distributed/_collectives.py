"""Collectives of a group: calls that all ranks make together.

Source:
    torch.distributed.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._arguments import (
    Buffers,
    check_dtypes,
    check_op,
    check_shape,
    check_tensor,
    check_tensors,
    member_of,
    root_of,
)
from shmtensor.distributed._group import _start
from shmtensor.distributed._names import ReduceOp
from shmtensor.distributed._sparse import all_reduce_sparse
from shmtensor.distributed._work import Work

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


@overridable
def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Replace *tensor* on every rank by the combination of all ranks' tensors.

    The result is bitwise equal on all ranks.

    Args:
        tensor: Any shape; equal shapes and dtypes on all ranks. Sparse COO tensors may have
            different numbers of entries.
        op: How to combine elements; sparse tensors are added.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Returns:
        A `Work` when *async_op* is true, else None.

    Raises:
        DistBackendError: A rank has ended, or did not come in time.
        ValueError: A sparse tensor with another layout, or another *op* than SUM.

    Source:
        torch.distributed.all_reduce.
    """
    is_sparse = isinstance(tensor, Tensor) and tensor.layout == _C.sparse_coo
    if not is_sparse:
        check_tensor(tensor, "tensor")
    members = member_of(group, "all_reduce")
    if members is None:
        return None
    op = check_op("all_reduce", op, tensor)
    backend = members._collectives
    if is_sparse:
        if op != ReduceOp.SUM:
            raise ValueError(f"all_reduce of a sparse tensor needs ReduceOp.SUM, got {op}")
        n_ranks = members.size()
        return _start(
            members, lambda: all_reduce_sparse(tensor, backend, n_ranks), [tensor], async_op
        )
    buffers = Buffers(reduced_by=backend)
    whole = buffers.output(tensor)

    def call() -> None:
        backend.all_reduce(whole, op)
        buffers.write_back()

    return _start(members, call, [tensor], async_op)


@overridable
def all_reduce_coalesced(
    tensors: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Do `all_reduce` with each of several tensors of one dtype.

    Source:
        torch.distributed.all_reduce_coalesced.
    """
    if isinstance(tensors, Tensor):
        tensors = [tensors]
    check_tensors(tensors, "tensors")
    check_dtypes(*tensors)
    members = member_of(group, "all_reduce_coalesced")
    if members is None or not tensors:
        return None
    op = check_op("all_reduce", op, tensors[0])
    backend = members._collectives
    buffers = Buffers(reduced_by=backend)
    wholes = [buffers.output(tensor) for tensor in tensors]

    def call() -> None:
        for whole in wholes:
            backend.all_reduce(whole, op)
        buffers.write_back()

    return _start(members, call, list(tensors), async_op)


@overridable
def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace *tensor* on every rank by the tensor of one rank.

    Args:
        tensor: Equal shapes and dtypes on all ranks.
        src: The rank that sends, as a number in the default group.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.
        group_src: The rank that sends, as a number in *group*.

    Returns:
        A `Work` when *async_op* is true, else None.

    Source:
        torch.distributed.broadcast.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "broadcast")
    if members is None:
        return None
    root = root_of(members, src, group_src, "broadcast")
    backend = members._collectives
    buffers = Buffers()
    whole = buffers.output(tensor)

    def call() -> None:
        backend.broadcast(whole, root)
        buffers.write_back()

    return _start(members, call, [tensor], async_op)


@overridable
def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replace *tensor* on one rank by the combination of all ranks' tensors.

    Arguments and errors are those of `all_reduce`; *dst* or *group_dst* names the rank.

    Source:
        torch.distributed.reduce.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "reduce")
    if members is None:
        return None
    root = root_of(members, dst, group_dst, "reduce")
    op = check_op("reduce", op, tensor)
    backend = members._collectives
    buffers = Buffers(reduced_by=backend)
    whole = buffers.output(tensor)

    def call() -> None:
        backend.reduce(whole, root, op)
        buffers.write_back()

    return _start(members, call, [tensor], async_op)


@overridable
def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor of rank i into ``tensor_list[i]``, on every rank.

    Args:
        tensor_list: One for each rank, of the shape and dtype of *tensor*.
        tensor: This rank's.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Source:
        torch.distributed.all_gather.
    """
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_dtypes(*tensor_list, tensor)
    members = member_of(group, "all_gather")
    if members is None:
        return None
    check_shape("all_gather", tensor_list, tensor, members.size())
    backend = members._collectives
    buffers = Buffers()
    outputs = [buffers.output(each) for each in tensor_list]
    own = buffers.input(tensor)

    def call() -> None:
        backend.all_gather(outputs, own)
        buffers.write_back()

    return _start(members, call, list(tensor_list), async_op)


@overridable
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all ranks into one tensor, one after the other, on every rank.

    Args:
        output_tensor: As many elements as all inputs together: concatenated or stacked.
        input_tensor: This rank's.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Raises:
        ValueError: The number of elements does not fit.

    Source:
        torch.distributed.all_gather_into_tensor.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    check_dtypes(output_tensor, input_tensor)
    members = member_of(group, "all_gather_into_tensor")
    if members is None:
        return None
    n, size = input_tensor.numel(), members.size()
    if output_tensor.numel() != n * size:
        raise ValueError(
            f"all_gather_into_tensor: the output must have {size} times the {n} elements of the "
            f"input, got {output_tensor.numel()}"
        )
    backend = members._collectives
    buffers = Buffers()
    flat = buffers.output(output_tensor).view(-1)
    outputs = [flat.narrow(0, i * n, n) for i in range(size)]
    own = buffers.input(input_tensor).view(-1)

    def call() -> None:
        backend.all_gather(outputs, own)
        buffers.write_back()

    return _start(members, call, [output_tensor], async_op)


@overridable
def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensor of rank i into ``gather_list[i]`` on one rank.

    Args:
        tensor: This rank's.
        gather_list: On *dst*, a tensor for each rank; nothing on the others.
        dst: The rank that receives, as a number in the default group; rank 0 unless given.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.
        group_dst: The rank that receives, as a number in *group*.

    Source:
        torch.distributed.gather.
    """
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
        check_dtypes(*gather_list, tensor)
    members = member_of(group, "gather")
    if members is None:
        return None
    root = 0 if dst is None and group_dst is None else root_of(members, dst, group_dst, "gather")
    backend = members._collectives
    buffers = Buffers()
    outputs = None
    if members.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        if len(gather_list) != members.size():
            raise RuntimeError(
                f"gather: Incorrect output list size {len(gather_list)}. Output list size should "
                f"be {members.size()}, same as size of the process group."
            )
        check_shape("gather", gather_list, tensor, members.size())
        outputs = [buffers.output(each) for each in gather_list]
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    own = buffers.input(tensor)

    def call() -> None:
        backend.gather(outputs, own, root)
        buffers.write_back()

    return _start(members, call, list(gather_list or []), async_op)


@overridable
def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write ``scatter_list[i]`` of one rank into the tensor of rank i.

    Args:
        tensor: This rank's output.
        scatter_list: On *src*, a tensor for each rank; nothing on the others.
        src: The rank that sends, as a number in the default group; rank 0 unless given.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.
        group_src: The rank that sends, as a number in *group*.

    Source:
        torch.distributed.scatter.
    """
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
        check_dtypes(*scatter_list, tensor)
    members = member_of(group, "scatter")
    if members is None:
        return None
    root = 0 if src is None and group_src is None else root_of(members, src, group_src, "scatter")
    backend = members._collectives
    buffers = Buffers()
    inputs = None
    if members.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        if len(scatter_list) != members.size():
            raise RuntimeError(
                f"scatter: Incorrect input list size {len(scatter_list)}. Input list size should "
                f"be {members.size()}, same as size of the process group."
            )
        check_shape("scatter", scatter_list, tensor, members.size())
        inputs = [buffers.input(each) for each in scatter_list]
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    own = buffers.output(tensor)

    def call() -> None:
        backend.scatter(own, inputs, root)
        buffers.write_back()

    return _start(members, call, [tensor], async_op)


@overridable
def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the combination of all ranks' ``input_list[i]`` into the output of rank i.

    Args:
        output: This rank's.
        input_list: A tensor for each rank, of the shape and dtype of *output*.
        op: How to combine elements.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Source:
        torch.distributed.reduce_scatter.
    """
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    check_dtypes(output, *input_list)
    members = member_of(group, "reduce_scatter")
    if members is None:
        return None
    if len(input_list) != members.size():
        raise RuntimeError("invalid input tensor list size, must be world size")
    check_shape("reduce_scatter", input_list, output, members.size())
    op = check_op("reduce_scatter", op, output)
    backend = members._collectives
    buffers = Buffers(reduced_by=backend)
    own = buffers.output(output)
    inputs = [buffers.input(each) for each in input_list]

    def call() -> None:
        backend.reduce_scatter(own, inputs, op)
        buffers.write_back()

    return _start(members, call, [output], async_op)


@overridable
def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Do `reduce_scatter` with the successive parts of one tensor.

    Args:
        output: This rank's.
        input: As many elements as all outputs together: concatenated or stacked.
        op: How to combine elements.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Raises:
        ValueError: The number of elements does not fit.

    Source:
        torch.distributed.reduce_scatter_tensor.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_dtypes(output, input)
    members = member_of(group, "reduce_scatter_tensor")
    if members is None:
        return None
    op = check_op("reduce_scatter_tensor", op, output)
    n, size = output.numel(), members.size()
    if input.numel() != n * size:
        raise ValueError(
            f"reduce_scatter_tensor: the input must have {size} times the {n} elements of the "
            f"output, got {input.numel()}"
        )
    backend = members._collectives
    buffers = Buffers(reduced_by=backend)
    own = buffers.output(output).view(-1)
    flat = buffers.input(input).view(-1)
    inputs = [flat.narrow(0, i * own.numel(), own.numel()) for i in range(size)]

    def call() -> None:
        backend.reduce_scatter(own, inputs, op)
        buffers.write_back()

    return _start(members, call, [output], async_op)


@overridable
def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write ``input_tensor_list[j]`` of rank i into ``output_tensor_list[i]`` of rank j.

    Args:
        output_tensor_list: A tensor for each rank.
        input_tensor_list: A tensor for each rank; sizes may differ from pair to pair.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Source:
        torch.distributed.all_to_all.
    """
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    check_dtypes(*output_tensor_list, *input_tensor_list)
    members = member_of(group, "all_to_all")
    if members is None:
        return None
    for tensors in (output_tensor_list, input_tensor_list):
        if len(tensors) != members.size():
            raise RuntimeError(
                f"all_to_all: the lists must have {members.size()} tensors, got {len(tensors)}"
            )
    backend = members._collectives
    buffers = Buffers()
    outputs = [buffers.output(each).view(-1) for each in output_tensor_list]
    inputs = [buffers.input(each).view(-1) for each in input_tensor_list]

    def call() -> None:
        backend.all_to_all(outputs, inputs)
        buffers.write_back()

    return _start(members, call, list(output_tensor_list), async_op)


def _split(flat: Tensor, tensor: Tensor, sizes: list[int] | None, size: int) -> list[Tensor]:
    """Return the parts of *flat*, which has the elements of *tensor*, for each rank."""
    rows = tensor.shape[0] if tensor.dim() > 0 else 0
    if not sizes:
        if rows % size != 0:
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        sizes = [rows // size] * size
    if len(sizes) != size:
        raise RuntimeError("Number of tensor splits not equal to group size")
    if sum(sizes) != rows:
        raise RuntimeError("Split sizes doesn't match total dim 0 size")
    row = flat.numel() // rows if rows else 0
    return [part.view(-1) for part in flat.view(-1).split([n * row for n in sizes])]


@overridable
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Do `all_to_all` with the rows of one tensor.

    Args:
        output: Rows from all ranks, one after the other.
        input: Rows for all ranks.
        output_split_sizes: How many rows come from each rank; equal numbers unless given.
        input_split_sizes: How many rows go to each rank; equal numbers unless given.
        group: The group; None: all ranks.
        async_op: Return a `Work` at once instead of waiting.

    Source:
        torch.distributed.all_to_all_single.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_dtypes(output, input)
    members = member_of(group, "all_to_all_single")
    if members is None:
        return None
    backend = members._collectives
    buffers = Buffers()
    outputs = _split(buffers.output(output), output, output_split_sizes, members.size())
    inputs = _split(buffers.input(input), input, input_split_sizes, members.size())

    def call() -> None:
        backend.all_to_all(outputs, inputs)
        buffers.write_back()

    return _start(members, call, [output], async_op)


all_gather_single = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_tensor
