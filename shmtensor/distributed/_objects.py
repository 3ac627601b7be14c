"""Collectives of Python objects, which are pickled: use them only among processes that trust each
other.

Source:
    torch.distributed.
"""

from __future__ import annotations

import pickle
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributed import _collectives as collectives
from shmtensor.distributed import _messages as messages
from shmtensor.distributed._arguments import member_of, root_of

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _to_tensor(obj: Any) -> Tensor:
    data = bytearray(pickle.dumps(obj))
    tensor: Tensor = _C.frombuffer(data, dtype=_C.uint8)
    return tensor


def _to_object(tensor: Tensor) -> Any:
    return pickle.loads(tensor.numpy().tobytes())


def _length(tensor: Tensor) -> Tensor:
    made: Tensor = _C.tensor([tensor.numel()], dtype=_C.int64)
    return made


def _empty(n: int) -> Tensor:
    made: Tensor = _C.empty(n, dtype=_C.uint8)
    return made


def _padded(tensor: Tensor, n: int) -> Tensor:
    whole: Tensor = _C.zeros(n, dtype=_C.uint8)
    whole[: tensor.numel()] = tensor
    return whole


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Write the object of rank i into ``object_list[i]``, on every rank.

    Args:
        object_list: One item for each rank.
        obj: This rank's object; it must be picklable.
        group: The group; None: all ranks.

    Source:
        torch.distributed.all_gather_object.
    """
    members = member_of(group, "all_gather_object")
    if members is None:
        return
    size = members.size()
    own = _to_tensor(obj)
    lengths = _C.zeros(size, dtype=_C.int64)
    collectives.all_gather_into_tensor(lengths, _length(own), members)
    longest = int(lengths.max())
    everything = _empty(size * longest)
    collectives.all_gather_into_tensor(everything, _padded(own, longest), members)
    for i in range(size):
        start = i * longest
        object_list[i] = _to_object(everything[start : start + int(lengths[i])])


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Write the object of rank i into ``object_gather_list[i]`` on one rank.

    Args:
        obj: This rank's object; it must be picklable.
        object_gather_list: On *dst*, one item for each rank; nothing on the others.
        dst: The rank that receives, as a number in the default group; rank 0 unless given.
        group: The group; None: all ranks.
        group_dst: The rank that receives, as a number in *group*.

    Source:
        torch.distributed.gather_object.
    """
    members = member_of(group, "gather_object")
    if members is None:
        return
    given = dst is not None or group_dst is not None
    root = root_of(members, dst, group_dst, "gather") if given else 0
    is_root = members.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if not is_root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    size = members.size()
    own = _to_tensor(obj)
    lengths = _C.zeros(size, dtype=_C.int64)
    collectives.all_gather_into_tensor(lengths, _length(own), members)
    longest = int(lengths.max())
    outputs = [_empty(longest) for _ in range(size)] if is_root else None
    collectives.gather(_padded(own, longest), outputs, group=members, group_dst=root)
    if outputs is not None and object_gather_list is not None:
        for i, output in enumerate(outputs):
            object_gather_list[i] = _to_object(output[: int(lengths[i])])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the items of a list on every rank by those of one rank.

    Args:
        object_list: The same number of items on all ranks; they must be picklable.
        src: The rank that sends, as a number in the default group; rank 0 unless given.
        group: The group; None: all ranks.
        device: Ignored.
        group_src: The rank that sends, as a number in *group*.

    Source:
        torch.distributed.broadcast_object_list.
    """
    members = member_of(group, "broadcast_object_list")
    if members is None:
        return
    given = src is not None or group_src is not None
    root = root_of(members, src, group_src, "broadcast") if given else 0
    is_root = members.rank() == root
    n = len(object_list)
    pieces = [_to_tensor(obj) for obj in object_list] if is_root else []
    lengths = _C.zeros(n, dtype=_C.int64)
    for i, piece in enumerate(pieces):
        lengths[i] = piece.numel()
    collectives.broadcast(lengths, group=members, group_src=root)
    sizes: list[int] = lengths.tolist()
    everything = _C.cat(pieces) if is_root and pieces else _empty(sum(sizes))
    collectives.broadcast(everything, group=members, group_src=root)
    if not is_root:
        for i, piece in enumerate(everything.split(sizes)):
            object_list[i] = _to_object(piece)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Write item i of one rank's list into the first item of the list of rank i.

    Args:
        scatter_object_output_list: At least one item.
        scatter_object_input_list: On *src*, one item for each rank; they must be picklable.
        src: The rank that sends, as a number in the default group; rank 0 unless given.
        group: The group; None: all ranks.
        group_src: The rank that sends, as a number in *group*.

    Source:
        torch.distributed.scatter_object_list.
    """
    members = member_of(group, "scatter_object_list")
    if members is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    given = src is not None or group_src is not None
    root = root_of(members, src, group_src, "scatter") if given else 0
    is_root = members.rank() == root
    size = members.size()
    pieces: list[Tensor] = []
    if is_root:
        if not scatter_object_input_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        if len(scatter_object_input_list) != size:
            raise ValueError(
                f"scatter_object_list(): {len(scatter_object_input_list)} objects for {size} ranks"
            )
        pieces = [_to_tensor(obj) for obj in scatter_object_input_list]
    lengths = _C.zeros(size, dtype=_C.int64)
    for i, piece in enumerate(pieces):
        lengths[i] = piece.numel()
    collectives.broadcast(lengths, group=members, group_src=root)
    longest = int(lengths.max())
    own = _empty(longest)
    inputs = [_padded(piece, longest) for piece in pieces] if is_root else None
    collectives.scatter(own, inputs, group=members, group_src=root)
    scatter_object_output_list[0] = _to_object(own[: int(lengths[members.rank()])])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send picklable objects to one rank.

    Args:
        object_list: The objects.
        dst: The rank that receives, as a number in the default group.
        group: The group; None: the default group.
        device: Ignored.
        group_dst: The rank that receives, as a number in *group*.
        use_batch: Ignored.

    Source:
        torch.distributed.send_object_list.
    """
    pieces = [_to_tensor(obj) for obj in object_list]
    lengths = _C.tensor([piece.numel() for piece in pieces], dtype=_C.int64)
    messages.send(lengths, dst, group, group_dst=group_dst)
    messages.send(_C.cat(pieces), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive the objects of `send_object_list` into the items of a list.

    Args:
        object_list: As many items as the sender's.
        src: The rank that sends, as a number in the default group; None: any rank.
        group: The group; None: the default group.
        device: Ignored.
        group_src: The rank that sends, as a number in *group*.
        use_batch: Ignored.

    Returns:
        The sender, as a number in the default group.

    Source:
        torch.distributed.recv_object_list.
    """
    lengths = _C.zeros(len(object_list), dtype=_C.int64)
    source = messages.recv(lengths, src, group, group_src=group_src)
    if source < 0:
        return source
    sizes: list[int] = lengths.tolist()
    everything = _empty(sum(sizes))
    messages.recv(everything, source, group)
    for i, piece in enumerate(everything.split(sizes)):
        object_list[i] = _to_object(piece)
    return source
