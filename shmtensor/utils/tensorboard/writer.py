"""Writers of TensorBoard's logs, over the event writer of the package ``tensorboard``.

Source:
    torch.utils.tensorboard.writer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from datetime import datetime
from types import TracebackType
from typing import Any, NoReturn

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._not_offered import not_offered
from shmtensor.utils.tensorboard import _values

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events into one file of a folder.

    Args:
        log_dir: The folder.
        max_queue: Events that wait before one that is added waits too.
        flush_secs: How often events are written, in seconds.
        filename_suffix: The end of the file's name.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.event_writer = EventFileWriter(
            os.fspath(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """Return the folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Add an event; its time is now unless *walltime* says another."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add values."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Do nothing: a closed writer of `SummaryWriter` is made anew."""


def _refusing(name: str) -> Any:
    def refuse(self: SummaryWriter, *args: Any, **kwargs: Any) -> NoReturn:
        raise not_offered(
            f"SummaryWriter.{name}() is not offered: it writes scalars, histograms, images, "
            "figures, texts and hyperparameters"
        )

    refuse.__name__, refuse.__qualname__ = name, f"SummaryWriter.{name}"
    refuse.__doc__ = "Raise NotImplementedError."
    return refuse


class SummaryWriter:
    """Writes scalars, histograms, images, texts and hyperparameters for TensorBoard.

    Graphs, embeddings, videos, sound and meshes raise NotImplementedError.

    Args:
        log_dir: The folder; by default one in ``runs`` named by the time and this machine.
        comment: The end of the default's name.
        purge_step: TensorBoard hides what an earlier run wrote from this step on.
        max_queue: Events that wait before one that is added waits too.
        flush_secs: How often events are written, in seconds.
        filename_suffix: The end of the files' names.

    Source:
        torch.utils.tensorboard.SummaryWriter.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._lock = free_in_child(threading.RLock())
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the folder, a new one after `close`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._writer_in(self.log_dir)
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                start = Event(session_log=SessionLog(status=SessionLog.START))
                self.file_writer.add_event(start, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _writer_in(self, folder: str) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _add(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        with self._lock:  # nobody closes the file meanwhile, and one writer is made after `close`
            self._get_file_writer().add_summary(summary, global_step, walltime)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number.

        Args:
            tag: Its name.
            scalar_value: A number, or a tensor or array of one element.
            global_step: The step.
            walltime: The time.
            new_style: Write it as a tensor.
            double_precision: In the new style, write a double.

        Raises:
            NotImplementedError: It is neither a number nor a tensor or an array.
            ValueError: It has more elements than one.
        """
        summary = _values.scalar(tag, scalar_value, new_style, double_precision)
        self._add(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add numbers that are shown in one plot; each gets a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        summaries = {tag: _values.scalar(main_tag, v) for tag, v in tag_scalar_dict.items()}
        with self._lock:
            self._get_file_writer()
            assert self.all_writers is not None
            for tag, summary in summaries.items():
                folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
                if folder not in self.all_writers:
                    self.all_writers[folder] = self._writer_in(folder)
                self.all_writers[folder].add_summary(summary, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add how values are distributed.

        Args:
            tag: Its name.
            values: Numbers of any shape.
            global_step: The step.
            bins: ``"tensorflow"``, or what `numpy.histogram` takes.
            walltime: The time.
            max_bins: Most bins.

        Raises:
            ValueError: There are no values.
        """
        edges = _values.bucket_edges() if bins == "tensorflow" else bins
        summary = _values.histogram(tag, values, edges, max_bins)
        self._add(summary, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram whose counts and upper limits are given.

        Raises:
            ValueError: There are not as many limits as counts.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts): "
                f"{len(bucket_limits)} and {len(bucket_counts)}"
            )
        summary = _values.raw_histogram(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(summary, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture; PIL writes it.

        Args:
            tag: Its name.
            img_tensor: uint8, or numbers of 0 to 1.
            global_step: The step.
            walltime: The time.
            dataformats: What the dims are: ``"CHW"``, ``"HWC"``, ``"HW"`` and so on.

        Raises:
            ValueError: The letters do not fit the shape.
        """
        summary = _values.image(tag, img_tensor, dataformats)
        self._add(summary, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add pictures side by side, eight in a row; see `add_image`."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a figure of matplotlib, or several side by side.

        Args:
            tag: Its name.
            figure: It, or a list.
            global_step: The step.
            close: Whether matplotlib forgets them.
            walltime: The time.
        """
        import numpy as np
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        pictures = []
        figures = figure if isinstance(figure, list) else [figure]
        for each in figures:
            canvas: Any = FigureCanvasAgg(each)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[:, :, :3])
            if close:
                pyplot.close(each)
        self.add_image(tag, np.stack(pictures), global_step, walltime, "NHWC")

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a text, which is shown as Markdown."""
        summary = _values.text(tag, text_string)
        self._add(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add hyperparameters and what a run with them has reached.

        Args:
            hparam_dict: Numbers, texts, bools by name.
            metric_dict: Numbers by name.
            hparam_domain_discrete: The values that a parameter may have.
            run_name: The folder inside of this writer's; by default the time.
            global_step: The step of the metrics.

        Raises:
            TypeError: An argument is no dict.
            ValueError: A value has another type.
        """
        summaries = _values.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        reached = [_values.scalar(name, value) for name, value in metric_dict.items()]
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as writer:
            for summary in summaries:
                writer._add(summary)
            for summary in reached:
                writer._add(summary, global_step)

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            for writer in (self.all_writers or {}).values():
                writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; adding more opens new ones."""
        with self._lock, contextlib.ExitStack() as closing:  # all of them, whatever one raises
            for writer in (self.all_writers or {}).values():
                closing.callback(writer.close)
            self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    add_audio = _refusing("add_audio")
    add_custom_scalars = _refusing("add_custom_scalars")
    add_custom_scalars_marginchart = _refusing("add_custom_scalars_marginchart")
    add_custom_scalars_multilinechart = _refusing("add_custom_scalars_multilinechart")
    add_embedding = _refusing("add_embedding")
    add_graph = _refusing("add_graph")
    add_image_with_boxes = _refusing("add_image_with_boxes")
    add_mesh = _refusing("add_mesh")
    add_onnx_graph = _refusing("add_onnx_graph")
    add_pr_curve = _refusing("add_pr_curve")
    add_pr_curve_raw = _refusing("add_pr_curve_raw")
    add_tensor = _refusing("add_tensor")
    add_video = _refusing("add_video")
