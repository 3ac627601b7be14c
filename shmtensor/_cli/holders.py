"""Says who holds what.

  shmtensor holders 4711        the blocks that process 4711 holds, and who else holds them
  shmtensor holders block:12    the processes that hold block 12 (numbers: shmtensor ls --blocks)
  shmtensor holders model       the processes that hold the newest version of the published name
                                "model"; name:4711 for a name that is a number

Blocks with the same size and the same holders are counted together, largest first.

exit status
  0  somebody holds it
  1  nobody does: no such process in a session, no such block in use, no such name
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
    parser.add_argument(
        "what",
        metavar="PID|block:N|NAME",
        help="a process id, block: and a number, or a published name",
    )
    add_session_argument(parser)


def _names(picture: Picture, numbers: tuple[int, ...]) -> str:
    pids = {c.client: c.pid for c in picture.clients}
    return " ".join(str(pids.get(n, f"#{n}" if n else "name")) for n in numbers) or "-"


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


def _of_name(session: Session, name: str) -> bool:
    published = session.published(name)
    if published is None:
        return False
    picture = session.look()
    wanted, held = set(published.blocks), Counter[int]()
    for block in session.blocks():
        if block.block in wanted:
            for holder in block.holders:
                held[holder] += block.nbytes
    kept = "persists" if published.persists else f"published by {published.pid}"
    print(f"{name!r} in session {session.name}: version {published.version}, {kept}")
    print(f"  {len(wanted)} blocks, {size_text(published.nbytes)}")
    rows = [
        [c.pid, size_text(held[c.client]), command_of(c.pid)]
        for c in picture.clients
        if held[c.client]
    ]
    if rows:
        print(*table([">PID", ">HOLDS", "COMMAND"], rows, indent="  "), sep="\n")
    return True


def run(arguments: argparse.Namespace) -> int:
    """Print the holders."""
    what: str = arguments.what
    with chosen_sessions(arguments) as sessions:
        if what.isdigit():
            found = [_of_process(session, int(what)) for session in sessions]
            missing = f"process {what} is in no session"
        elif what.startswith("block:") and what[6:].isdigit():
            found = [_of_block(session, int(what[6:])) for session in sessions]
            missing = f"no block {what[6:]} is in use in any session"
        else:
            name = what.removeprefix("name:")
            found = [_of_name(session, name) for session in sessions]
            missing = f"no service of this user has published {name!r}"
    if not any(found):
        raise LookupError(missing)
    return 0
