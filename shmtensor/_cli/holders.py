"""Shows which processes hold which blocks.

  shmtensor holders 4711        the blocks that process 4711 holds, and who else holds them
  shmtensor holders block:12    the processes that hold block 12 (numbers: shmtensor ls --blocks)
  shmtensor holders model       the processes that hold the newest version of the published name
                                "model"; name:4711 for a name that is a number

Blocks with the same size and the same holders are counted together, largest first.

exit status
  0  a process holds it
  1  none does: no such process in a session, no such block in use, no such name
  2  wrong usage
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from shmtensor._cli._common import (
    add_json_argument,
    add_owner_argument,
    add_session_argument,
    chosen_sessions,
    count,
    identity,
    print_json,
    size_text,
    table,
    title,
)
from shmtensor.inspect import Block, Client, Session, Snapshot

SUMMARY = "show who holds a block, or what a process holds"

_Found = dict[str, Any]
_Group = tuple[int, tuple[int, ...], bool]


def _what(text: str) -> str:
    number = text.removeprefix("block:")
    if number != text and not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(
            f"expected a number after block:, got {number!r}; a name: name:{text}"
        )
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "what",
        type=_what,
        metavar="PID|block:N|NAME",
        help="a process id, block: and a number, or a published name",
    )
    add_session_argument(parser)
    add_owner_argument(parser)
    add_json_argument(parser)


# Each `_find` function returns plain values, which are printed as text or as JSON.


def _holder(client: Client, block: Block) -> _Found:
    return {
        "pid": client.pid,
        "is_maker": client.client == block.owner,
        "label": client.label,
        "command": client.command,
        "what": client.what,
    }


def _who(snapshot: Snapshot, numbers: tuple[int, ...]) -> list[str]:
    who = {0: "name", **{c.client: c.who for c in snapshot.clients}}
    return [who.get(n, f"#{n}") for n in numbers]


def _find_process(session: Session, pid: int) -> _Found | None:
    snapshot = session.snapshot()
    client = next((c for c in snapshot.clients if c.pid == pid and not c.is_forking), None)
    if client is None:
        return None
    groups: Counter[_Group] = Counter()
    for block in session.blocks():
        if client.client in block.holders:
            others = tuple(h for h in block.holders if h != client.client)
            groups[block.nbytes, others, block.owner == client.client] += 1
    rows = [
        {"n_blocks": n, "nbytes": nbytes, "made": made, "also_held_by": _who(snapshot, others)}
        for (nbytes, others, made), n in sorted(groups.items(), key=lambda g: -g[0][0] * g[1])
    ]
    return {**asdict(client), "command": client.command, "what": client.what, "blocks": rows}


def _print_process(session: Session, found: _Found) -> None:
    held, alone = size_text(found["held_bytes"]), size_text(found["alone_bytes"])
    print(f"{found['pid']} ({found['what']}) in {title(session)}")
    print(f"  holds {count(found['n_held'], 'block')}, {held}; {alone} of it alone")
    rows = [
        [
            row["n_blocks"],
            size_text(row["nbytes"]),
            size_text(row["n_blocks"] * row["nbytes"]),
            "yes" if row["made"] else "no",
            " ".join(row["also_held_by"]) or "-",
        ]
        for row in found["blocks"]
    ]
    if rows:
        heads = [">BLOCKS", ">EACH", ">TOGETHER", "MADE IT", "ALSO HELD BY"]
        print(*table(heads, rows, indent="  "), sep="\n")


def _find_block(session: Session, number: int) -> _Found | None:
    snapshot = session.snapshot()
    block = next((b for b in session.blocks() if b.block == number), None)
    if block is None:
        return None
    holders = [_holder(c, block) for c in snapshot.clients if c.client in block.holders]
    return {**asdict(block), "holders": holders}


def _print_block(session: Session, found: _Found) -> None:
    kept = f"{count(found['n_leases'], 'lease')}, {count(found['n_holders'], 'holder')}"
    print(f"block {found['block']} in {title(session)}: {size_text(found['nbytes'])}, {kept}")
    rows = [[h["pid"], "yes" if h["is_maker"] else "no", h["what"]] for h in found["holders"]]
    if rows:
        print(*table([">PID", "MADE IT", "RUNS"], rows, indent="  "), sep="\n")


def _find_name(session: Session, name: str) -> _Found | None:
    published = session.published(name)
    if published is None:
        return None
    wanted, held = set(published.blocks), Counter[int]()
    for block in session.blocks():
        if block.block in wanted:
            for holder in block.holders:
                held[holder] += block.nbytes
    holders = [
        {
            "pid": c.pid,
            "held_bytes": held[c.client],
            "label": c.label,
            "command": c.command,
            "what": c.what,
        }
        for c in session.snapshot().clients
        if held[c.client]
    ]
    return {"name": name, **asdict(published), "holders": holders}


def _print_name(session: Session, found: _Found) -> None:
    kept = "persists" if found["persists"] else f"published by {found['pid']}"
    print(f"{found['name']!r} in {title(session)}: version {found['version']}, {kept}")
    print(f"  {count(len(set(found['blocks'])), 'block')}, {size_text(found['nbytes'])}")
    rows = [[h["pid"], size_text(h["held_bytes"]), h["what"]] for h in found["holders"]]
    if rows:
        print(*table([">PID", ">HOLDS", "RUNS"], rows, indent="  "), sep="\n")


def run(arguments: argparse.Namespace) -> int:
    """Print the holders."""
    what: str = arguments.what
    find: Callable[[Session], _Found | None]
    if what.isascii() and what.isdigit():
        find, show = lambda session: _find_process(session, int(what)), _print_process
        missing = f"process {what} is in no session"
    elif what.startswith("block:"):
        find, show = lambda session: _find_block(session, int(what[6:])), _print_block
        missing = f"no block {what[6:]} is in use in any session"
    else:
        name = what.removeprefix("name:")
        find, show = lambda session: _find_name(session, name), _print_name
        missing = f"no service of this user has published {name!r}"
    with chosen_sessions(arguments) as sessions:
        each = [(session, find(session)) for session in sessions]
        found = [(session, values) for session, values in each if values is not None]
        if not found:
            raise LookupError(missing)
        if arguments.json:
            print_json([{**identity(session), **values} for session, values in found])
            return 0
        for session, values in found:
            show(session, values)
    return 0
