"""What a bridge counts, and shows of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeGuard

__all__ = ["BridgeStatus", "NameStatus", "as_prometheus", "is_status"]


@dataclass
class NameStatus:
    """The counters of one name of a bridge.

    Attributes:
        kind: ``"topic"``, ``"value"``, ``"remote value"``, ``"call"`` or ``"remote call"``.
        name: Its name on this machine.
        n_sent: Messages, versions, requests or replies that went over the link.
        sent_bytes: Their bytes, without those of headers and repetitions.
        n_received: The same of what came over the link and was used here.
        received_bytes: Their bytes.
        n_lost: Messages of a topic that did not go over the link: there was no room while the link
            was down or slow, or the partner ended before it said that it had them.
        n_skipped: Versions that were never sent, since a newer one was there by then.
        n_resent: Messages that went over the link once more, after it was cut.
        n_refused: What cannot go to another machine, or had no room there: see `last_error`.
        n_damaged: What came and is no message of this format, or was not to be expected.
        n_under_way: Messages that the partner has not worked off; calls without a reply.
        last_error: Why something was refused or damaged, the last time.
    """

    kind: str
    name: str
    n_sent: int = 0
    sent_bytes: int = 0
    n_received: int = 0
    received_bytes: int = 0
    n_lost: int = 0
    n_skipped: int = 0
    n_resent: int = 0
    n_refused: int = 0
    n_damaged: int = 0
    n_under_way: int = 0
    last_error: str = ""


@dataclass
class BridgeStatus:
    """A bridge at one moment.

    Attributes:
        id: The bridge.
        pid: Its process.
        partner: The id of the bridge on the other machine; empty while the link is down.
        is_up: Whether the link is up.
        n_ups: How often it came up.
        waiting: Ids of other bridges that are there and have no partner here.
        n_damaged: Frames that belong to no name here, or are none.
        n_dropped: Greetings that came while too many others waited.
        last_error: Why, the last time.
        names: The counters of each name.
    """

    id: str
    pid: int
    partner: str = ""
    is_up: bool = False
    n_ups: int = 0
    waiting: list[str] = field(default_factory=list)
    n_damaged: int = 0
    n_dropped: int = 0
    last_error: str = ""
    names: list[NameStatus] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return it as plain values."""
        return asdict(self)


def is_status(values: object) -> bool:
    """Whether *values* are what `BridgeStatus.as_dict` gives, perhaps with fields of a newer one.

    Whoever may open names of the service may answer in place of a bridge.
    """
    return (
        _has_fields_of(values, BridgeStatus("", 0))
        and all(type(other) is str for other in values["waiting"])
        and all(_has_fields_of(row, NameStatus("", "")) for row in values["names"])
    )


def _has_fields_of(values: object, example: BridgeStatus | NameStatus) -> TypeGuard[dict[str, Any]]:
    return type(values) is dict and all(
        type(values.get(name)) is type(value) for name, value in vars(example).items()
    )


#: A metric's name, type, help text, and the field of `NameStatus` with its value.
_METRICS = (
    ("sent_total", "counter", "What went over the link.", "n_sent"),
    ("sent_bytes_total", "counter", "Bytes of what went over the link.", "sent_bytes"),
    ("received_total", "counter", "What came over the link.", "n_received"),
    ("received_bytes_total", "counter", "Bytes of what came over the link.", "received_bytes"),
    ("lost_total", "counter", "Messages that did not go over the link.", "n_lost"),
    ("skipped_total", "counter", "Versions that a newer one replaced.", "n_skipped"),
    ("resent_total", "counter", "Messages sent again after the link was cut.", "n_resent"),
    ("refused_total", "counter", "What could not be sent, or not be used.", "n_refused"),
    ("damaged_total", "counter", "What came and is no message of this format.", "n_damaged"),
    ("under_way", "gauge", "What the other machine has not worked off.", "n_under_way"),
)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def as_prometheus(statuses: list[dict[str, Any]]) -> str:
    """Return what `BridgeStatus.as_dict` gave of some bridges in Prometheus's text format."""
    lines = [
        "# HELP shmtensor_bridge_up Whether the link of a bridge is up.",
        "# TYPE shmtensor_bridge_up gauge",
    ]
    lines += [
        f'shmtensor_bridge_up{{bridge="{_escaped(s["id"])}"}} {int(s["is_up"])}' for s in statuses
    ]
    for name, kind, text, key in _METRICS:
        metric = f"shmtensor_bridge_{name}"
        lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
        for status in statuses:
            for row in status["names"]:
                labels = f'bridge="{_escaped(status["id"])}",kind="{_escaped(row["kind"])}"'
                lines.append(f'{metric}{{{labels},name="{_escaped(row["name"])}"}} {row[key]}')
    return "\n".join(lines) + "\n"
