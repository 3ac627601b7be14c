"""Says who holds what.

  shmtensor holders 4711        the blocks that process 4711 holds, and who else holds them
  shmtensor holders block:12    the processes that hold block 12 (numbers: shmtensor ls --blocks)

Blocks with the same size and the same holders are counted together, largest first.

exit status
  0  somebody holds it
  1  nobody does: no such process in a session, no such block in use
  2  wrong use
"""

from __future__ import annotations

import argparse
from collections import Counter

from shmtensor._cli._common import add_session_argument, chosen_sessions, size_text, table
from shmtensor.inspect import Picture, Session
from shmtensor.inspect.processes import command_of

SUMMARY = "who holds a block, what a process holds"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("what", metavar="PID|block:N", help="a process id, or block: and a number")
    add_session_argument(parser)


def _names(picture: Picture, numbers: tuple[int, ...]) -> str:
    pids = {c.client: c.pid for c in picture.clients}
    return " ".join(str(pids.get(n, f"#{n}")) for n in numbers) or "-"


def _of_process(session: Session, pid: int) -> bool:
    picture = session.look()
    client = next((c for c in picture.clients if c.pid == pid and not c.is_forking), None)
    if client is None:
        return False
    groups: Counter[tuple[int, tuple[int, ...], bool]] = Counter()
    for block in session.blocks():
        if client.client in block.holders:
            others = tuple(h for h in block.holders if h != client.client)
            groups[block.nbytes, others, block.owner == client.client] += 1
    held, alone = size_text(client.held_bytes), size_text(client.sole_bytes)
    print(f"{pid} ({command_of(pid)}) in session {session.name}")
    print(f"  holds {client.n_held} blocks, {held}, of which alone {alone}")
    rows = [
        [n, size_text(nbytes), size_text(n * nbytes), "yes" if made else "no", _names(picture, who)]
        for (nbytes, who, made), n in sorted(groups.items(), key=lambda g: -g[0][0] * g[1])
    ]
    if rows:
        heads = [">BLOCKS", ">EACH", ">TOGETHER", "MADE IT", "ALSO HELD BY"]
        print(*table(heads, rows, indent="  "), sep="\n")
    return True


def _of_block(session: Session, number: int) -> bool:
    picture = session.look()
    block = next((b for b in session.blocks() if b.block == number), None)
    if block is None:
        return False
    kept = f"{block.n_leases} leases, {block.n_holders} holders"
    print(f"block {number} in session {session.name}: {size_text(block.nbytes)}, {kept}")
    rows = [
        [c.pid, "yes" if c.client == block.owner else "no", command_of(c.pid)]
        for c in picture.clients
        if c.client in block.holders
    ]
    if rows:
        print(*table([">PID", "MADE IT", "COMMAND"], rows, indent="  "), sep="\n")
    return True


def run(arguments: argparse.Namespace) -> int:
    """Print the holders."""
    kind, colon, text = arguments.what.rpartition(":")
    if not text.isdigit() or (colon and kind != "block"):
        raise ValueError(f"{arguments.what!r} is neither a process id nor block: and a number")
    show = _of_block if colon else _of_process
    with chosen_sessions(arguments) as sessions:
        found = [show(session, int(text)) for session in sessions]
    if not any(found):
        what = f"block {text} is in use" if colon else f"process {text} is"
        raise LookupError(f"no {what} in any session" if colon else f"{what} in no session")
    return 0
