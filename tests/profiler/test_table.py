"""Tables and sums of events that are made by hand: every character is known."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from shmtensor.autograd import profiler_util as ours


def made(library: Any, **options: Any) -> Any:
    """A list of four events: two of one name, one inside, one with a long name."""
    common = {"flops": 0, "stack": [], "input_shapes": []}

    def event(i: int, name: str, start: float, end: float, **more: Any) -> Any:
        return library.FunctionEvent(i, name, 1, start, end, **{**common, **more})

    events = library.EventList(
        [
            event(1, "root", 0, 1000),
            event(2, "x" * 70, 10, 110, input_shapes=[[2, 3]], flops=10**7, cpu_memory_usage=4096),
            event(3, "root", 200, 250, input_shapes=[[4]]),
            event(4, "aten::mm", 2000, 2_002_000.5, cpu_memory_usage=-(3 << 20)),
        ],
        use_device=None,
        **options,
    )
    events._build_tree()
    return events


@pytest.mark.check
def test_tree_and_own_times() -> None:
    root, long, inner, product = made(ours)
    assert root.cpu_children == [long, inner]
    assert (long.cpu_parent, product.cpu_parent) == (root, None)
    assert (root.cpu_time_total, root.self_cpu_time_total) == (1000, 850)
    assert root.cpu_time_str == "1.000ms"
    assert root.self_cpu_memory_usage == -4096


def test_sums() -> None:
    sums = made(ours).key_averages()
    assert [(e.key, e.count, e.cpu_time_total) for e in sums] == [
        ("root", 2, 1050),
        ("x" * 70, 1, 100),
        ("aten::mm", 1, 2_000_000.5),
    ]
    assert sums[0].cpu_time == 525
    assert sums[0].self_cpu_time_total == 900
    assert len(made(ours).key_averages(group_by_input_shapes=True)) == 4
    total = made(ours).total_average()
    assert (total.key, total.count) == ("Total", 4)


def test_table_of_two() -> None:
    events = ours.EventList(
        [ours.FunctionEvent(1, "root", 1, 0, 1000), ours.FunctionEvent(2, "b", 1, 1500, 1750)]
    )
    rule = "-" * 8 + ("  " + "-" * 12) * 6 + "  "

    def line(name: str, *cells: str) -> str:
        return name.rjust(8) + "".join("  " + cell.rjust(12) for cell in cells) + "  "

    headings = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")
    assert events.table(header="two").splitlines() == [
        "=" * 92,
        "two",
        rule,
        line("Name", *headings),
        rule,
        line("root", "80.00%", "1.000ms", "80.00%", "1.000ms", "1.000ms", "1"),
        line("b", "20.00%", "250.000us", "20.00%", "250.000us", "250.000us", "1"),
        rule,
        "Self CPU time total: 1.250ms",
    ]


@pytest.mark.check
def test_rows_are_sorted_and_limited() -> None:
    events = made(ours)
    first = events.table(sort_by="cpu_time", row_limit=1).splitlines()[3]
    assert first.split()[0] == "aten::mm"
    assert len(events.table(row_limit=-1).splitlines()) == len(events) + 5
    assert len(events.table(top_level_events_only=True).splitlines()) == 2 + 2 + 5
    assert "2.000s" in events.table()
    assert "2000.001ms" in events.table(time_unit="ms")
    with pytest.raises(AttributeError, match="no attribute 'heat'"):
        events.table(sort_by="heat")
    assert ours.EventList([]).table() == ""


def test_units() -> None:
    texts = [ours._format_memory(n) for n in (0, 1023, 1024, 3 << 20, 1 << 30, -2048)]
    assert texts == ["0 B", "1023 B", "1.00 KB", "3.00 MB", "1.00 GB", "-2.00 KB"]
    texts = [ours._format_time(t) for t in (0, 999.9994, 1000, 1234567)]
    assert texts == ["0.000us", "999.999us", "1.000ms", "1.235s"]


def test_stacks_for_flame_graphs(tmp_path: Any) -> None:
    events = ours.EventList(
        [ours.FunctionEvent(1, "a", 1, 0, 7, stack=["b.py(2): inner", "a.py(1): outer"])]
    )
    events.export_stacks(tmp_path / "stacks", "self_cpu_time_total")
    assert (tmp_path / "stacks").read_text() == "a.py(1):_outer;b.py(2):_inner 7\n"
    with pytest.raises(ValueError, match="metric should be one of"):
        events.export_stacks(tmp_path / "stacks", "heat")


OPTIONS = [
    {},
    {"sort_by": "cpu_time_total"},
    {"sort_by": "self_cpu_memory_usage", "row_limit": 2},
    {"header": "HEAD", "top_level_events_only": True},
    {"time_unit": "us", "max_name_column_width": 12},
    {"max_name_column_width": None, "max_shapes_column_width": 6},
]


@pytest.mark.parametrize(
    "options, memory, flops", itertools.product(OPTIONS, [False, True], [False, True])
)
def test_tables_are_torchs(options: dict[str, Any], memory: bool, flops: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.autograd.profiler_util
    mine, other = (
        made(library, profile_memory=memory, with_flops=flops) for library in (ours, theirs)
    )
    assert mine.table(**options) == other.table(**options)
    for group in ({"group_by_input_shapes": True}, {}):
        sums, others = (events.key_averages(**group) for events in (mine, other))
        assert sums.table(**options) == others.table(**options)
