"""`utils.tensorboard`: what is in the files that it writes."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import shmtensor as T


@pytest.mark.check
def test_without_the_package_the_import_says_what_to_do() -> None:
    text = "import sys; sys.modules['tensorboard'] = None; import shmtensor.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: utils.tensorboard needs the package tensorboard" in done.stderr


def _events(folder: Path) -> list[Any]:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    (path,) = folder.glob("events.out.*")
    return list(loader.LegacyEventFileLoader(str(path)).Load())


@pytest.fixture
def writer_class() -> Any:
    pytest.importorskip("tensorboard")
    from shmtensor.utils.tensorboard import SummaryWriter

    return SummaryWriter


def test_scalars(tmp_path: Path, writer_class: Any) -> None:
    with writer_class(tmp_path) as writer:
        writer.add_scalar("loss", T.tensor(1.5), 3, walltime=5.0)
        writer.add_scalar("loss", 2, 4, new_style=True)
        writer.add_scalars("both", {"a": 1, "b": 2}, 7)
        with pytest.raises(NotImplementedError, match="NoneType"):
            writer.add_scalar("loss", None)
        with pytest.raises(ValueError, match="one number"):
            writer.add_scalar("loss", T.ones(2))
    first, old, new = _events(tmp_path)
    assert first.file_version == "brain.Event:2"
    assert (old.step, old.wall_time) == (3, 5.0)
    assert (old.summary.value[0].tag, old.summary.value[0].simple_value) == ("loss", 1.5)
    assert list(new.summary.value[0].tensor.float_val) == [2.0]
    assert _events(tmp_path / "both_b")[1].summary.value[0].simple_value == 2.0


def test_histograms(tmp_path: Path, writer_class: Any) -> None:
    with writer_class(tmp_path) as writer:
        writer.add_histogram("h", T.arange(10.0), 1, bins=4)
        writer.add_histogram("h", T.tensor([1.0, 1.0, 5.0]), 1)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("h", T.zeros(0))
    _, four, default = (event.summary for event in _events(tmp_path))
    histo = four.value[0].histo
    assert (histo.min, histo.max, histo.num) == (0.0, 9.0, 10.0)
    assert (histo.sum, histo.sum_squares) == (45.0, 285.0)
    assert list(histo.bucket_limit) == [0.0, 2.25, 4.5, 6.75, 9.0]
    assert list(histo.bucket) == [0.0, 3.0, 2.0, 2.0, 3.0]
    assert sum(default.value[0].histo.bucket) == 3.0


def test_texts_and_hyperparameters(tmp_path: Path, writer_class: Any) -> None:
    with writer_class(tmp_path) as writer:
        writer.add_text("note", "hi", 2)
        writer.add_hparams({"lr": 0.5, "kind": "sgd"}, {"acc": 3.0}, run_name="run")
        with pytest.raises(TypeError, match="dict"):
            writer.add_hparams([], {})
        with pytest.raises(ValueError, match="lr is a list"):
            writer.add_hparams({"lr": [1]}, {}, run_name="other")
        with pytest.raises(NotImplementedError, match="add_graph"):
            writer.add_graph(T.nn.ReLU())
    value = _events(tmp_path)[1].summary.value[0]
    assert value.tag == "note/text_summary" and list(value.tensor.string_val) == [b"hi"]
    tags = [event.summary.value[0].tag for event in _events(tmp_path / "run")[1:]]
    assert tags == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
        "acc",
    ]


def test_pictures(tmp_path: Path, writer_class: Any) -> None:
    pytest.importorskip("PIL")
    with writer_class(tmp_path) as writer:
        writer.add_image("one", T.zeros(3, 2, 5))
        writer.add_images("many", T.zeros(9, 1, 2, 5))
        with pytest.raises(ValueError, match="does not fit"):
            writer.add_image("one", T.zeros(2, 5))
    one, many = (event.summary.value[0].image for event in _events(tmp_path)[1:])
    assert (one.height, one.width, one.colorspace) == (2, 5, 3)
    assert (many.height, many.width) == (4, 40)
    assert one.encoded_image_string.startswith(b"\x89PNG")


def test_numbers_of_dtypes_that_arrays_lack(tmp_path: Path, writer_class: Any) -> None:
    small = T.tensor([1.5, -2.0], dtype=T.bfloat16)
    with writer_class(tmp_path) as writer:
        writer.add_scalar("a", small[0], 0)
        writer.add_histogram("h", small, 0, bins=[-3.0, 0.0, 3.0])
        writer.add_image("i", T.ones(3, 2, 2, dtype=T.bfloat16))
    values = [value for event in _events(tmp_path) for value in event.summary.value]
    assert values[0].simple_value == 1.5
    assert (values[1].histo.min, values[1].histo.max, values[1].histo.sum) == (-2.0, 1.5, -0.5)


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, writer_class: Any) -> None:
    with writer_class(tmp_path) as writer:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(ValueError, match="expected one number, got 2"):
            writer.add_hparams({"a": 1}, {"good": 1, "bad": T.ones(2)}, run_name="run")
        with pytest.raises(ValueError, match="expected one number, got 2"):
            writer.add_scalars("both", {"good": 1, "bad": T.ones(2)})
        with pytest.raises(ValueError, match="has no picture"):
            writer.add_images("i", T.ones(0, 3, 2, 2))
        assert sorted(tmp_path.iterdir()) == before


def test_threads_may_add_while_others_close(tmp_path: Path, writer_class: Any) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    before = threading.active_count()
    writer = writer_class(tmp_path)
    errors: list[BaseException] = []

    def add() -> None:
        try:
            for i in range(100):
                writer.add_scalar("x", i, i)
                if i % 20 == 19:
                    writer.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    writer.close()
    assert not errors
    files = [loader.LegacyEventFileLoader(str(path)) for path in tmp_path.iterdir()]
    assert sum(len(event.summary.value) for file in files for event in file.Load()) == 300
    assert threading.active_count() == before


def test_all_files_are_closed_whatever_one_raises(tmp_path: Path, writer_class: Any) -> None:
    writer = writer_class(tmp_path)
    writer.add_scalars("both", {"a": 1, "b": 2})
    closed: list[str] = []

    def close(name: str, plain: Any) -> None:
        closed.append(name)
        plain()
        raise OSError(name)

    for name, each in writer.all_writers.items():
        each.close = functools.partial(close, name, each.close)
    with pytest.raises(OSError, match=str(tmp_path)):
        writer.close()
    assert len(closed) == 3
    writer.add_scalar("again", 1)
    writer.close()


@pytest.mark.usefixtures("writer_class")
def test_summaries_are_made_without_a_writer() -> None:
    from shmtensor.utils.tensorboard import summary

    made = summary.hparams({"lr": 0.5, "kind": "sgd", "deep": None}, {"acc": 3.0})
    assert [each.value[0].tag for each in made] == [
        "_hparams_/experiment",
        "_hparams_/session_start_info",
        "_hparams_/session_end_info",
    ]
    assert {each.value[0].metadata.plugin_data.plugin_name for each in made} == {"hparams"}
    assert summary.scalar("loss", T.tensor(1.5)).value[0].simple_value == 1.5
    assert list(summary.scalar("loss", 2, new_style=True).value[0].tensor.float_val) == [2.0]
    assert summary.histogram(name="h", values=T.arange(4.0), bins=2).value[0].histo.num == 4
    raw = summary.histogram_raw("h", 0, 1, 2, 1, 1, bucket_limits=[1], bucket_counts=[2])
    assert list(raw.value[0].histo.bucket) == [2.0]
    assert summary.text("note", "words").value[0].tag == "note/text_summary"
    with pytest.raises(TypeError, match="hparam_dict must be a dict, got NoneType"):
        summary.hparams()


def test_a_writer_takes_summaries(tmp_path: Path, writer_class: Any) -> None:
    from shmtensor.utils.tensorboard.summary import hparams

    with writer_class(tmp_path) as writer:
        for each in hparams({"lr": 0.5}, {"acc": 3.0}):
            writer._get_file_writer().add_summary(each, 7)
    assert [event.step for event in _events(tmp_path)[1:]] == [7, 7, 7]
