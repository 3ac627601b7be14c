"""Messages between two ranks of a group.

Source:
    torch.distributed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.distributed._arguments import Buffers, check_tensor, member_of, root_of
from shmtensor.distributed._group import ProcessGroup
from shmtensor.distributed._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

_ANY = -1


def _receiver(members: ProcessGroup, dst: int | None, group_dst: int | None) -> int:
    to = root_of(members, dst, group_dst, "send")
    if to == members.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    return to


def _sender(members: ProcessGroup, src: int | None, group_src: int | None) -> int | None:
    if src is None and group_src is None:
        return None
    source = root_of(members, src, group_src, "recv")
    if source == members.rank():
        raise ValueError(
            "Invalid source rank: source rank should not be the same as the rank of the current "
            "process."
        )
    return source


@overridable
def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send *tensor*. Do not change it before the returned work is done.

    Args:
        tensor: What to send.
        dst: The rank that receives, as a number in the default group.
        group: The group; None: the default group.
        tag: The receiver takes a message with the same tag.
        group_dst: The rank that receives, as a number in *group*.

    Returns:
        The work; None: this process is not in the group.

    Source:
        torch.distributed.isend.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "isend")
    if members is None:
        return None
    to = _receiver(members, dst, group_dst)
    backend = members._collectives
    plain = Buffers().input(tensor)
    work = backend.isend(plain, to, tag)
    if work is not None:
        return work
    lane = members._lane_of("send", to)
    return lane.start(lambda: backend.send(plain, to, tag), [tensor])


@overridable
def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive into *tensor*. Do not use it before the returned work is done.

    Args:
        tensor: A tensor of the message's size.
        src: The rank that sends, as a number in the default group; None: any rank.
        group: The group; None: the default group.
        tag: The message's tag.
        group_src: The rank that sends, as a number in *group*.

    Returns:
        The work; None: this process is not in the group.

    Source:
        torch.distributed.irecv.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "irecv")
    if members is None:
        return None
    source = _sender(members, src, group_src)
    backend = members._collectives
    buffers = Buffers()
    plain = buffers.output(tensor)
    work = backend.irecv(plain, source, tag)
    if work is not None:
        return work

    def call() -> int:
        sender = backend.recv(plain, source, tag)
        buffers.write_back()
        return members._ranks[sender]

    return members._lane_of("recv", _ANY if source is None else source).start(call, [tensor])


@overridable
def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send *tensor*; you may change it afterwards. Arguments are those of `isend`.

    Source:
        torch.distributed.send.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "send")
    if members is None:
        return
    to = _receiver(members, dst, group_dst)
    backend = members._collectives
    plain = Buffers().input(tensor)
    members._lane_of("send", to).run(lambda: backend.send(plain, to, tag))


@overridable
def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into *tensor*. Arguments are those of `irecv`.

    Returns:
        The sender, as a number in the default group; -1: this process is not in the group.

    Source:
        torch.distributed.recv.
    """
    check_tensor(tensor, "tensor")
    members = member_of(group, "recv")
    if members is None:
        return -1
    source = _sender(members, src, group_src)
    backend = members._collectives
    buffers = Buffers()
    plain = buffers.output(tensor)

    def call() -> int:
        sender = backend.recv(plain, source, tag)
        buffers.write_back()
        return members._ranks[sender]

    lane = members._lane_of("recv", _ANY if source is None else source)
    received: int = lane.run(call)
    return received


class P2POp:
    """One message of `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: What to send, or where to receive.
        peer: The other rank, as a number in the default group.
        group: The group; None: the default group.
        tag: The message's tag.
        group_peer: The other rank, as a number in *group*.

    Raises:
        ValueError: *op* is neither.

    Source:
        torch.distributed.P2POp.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op = op
        self.tensor = tensor
        self.group = group
        self.tag = tag
        self.peer = peer
        self.group_peer = group_peer

    def __repr__(self) -> str:
        return (
            f"P2POp({self.op.__name__}, peer={self.peer}, tag={self.tag}, "
            f"{tuple(self.tensor.shape)}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin all messages of a list.

    Returns:
        A work for each.

    Raises:
        ValueError: The list has anything but `P2POp`.
        IndexError: The list is empty.

    Source:
        torch.distributed.batch_isend_irecv.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if not p2p_op_list:
        raise IndexError("batch_isend_irecv(): the list is empty")
    works = []
    for each in p2p_op_list:
        work = each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer)
        if work is not None:
            works.append(work)
    return works
