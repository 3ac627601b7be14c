"""The curve of the image pipeline: its points, and the files that show them."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

from common.plots import Panel, draw_panels
from shmtensor.utils.safetensors import save_file

__all__ = ["State", "write_files"]


@dataclasses.dataclass
class State:
    """How far a run is: what its checkpoint has beside model and optimizer."""

    batches: int = 0
    seconds: float = 0.0
    waited_s: float = 0.0
    loss: float = 0.0
    failures: int = 0
    points: list[list[float]] = dataclasses.field(default_factory=list)

    COLUMNS = ("seconds", "batches", "loss", "accuracy", "batches_per_second", "waiting")

    def add_point(self, accuracy: float) -> None:
        """Add a row to the curve."""
        rate, waiting = self.batches / self.seconds, self.waited_s / self.seconds
        row = (self.seconds, self.batches, self.loss, accuracy, rate, waiting)
        self.points.append([float(value) for value in row])


def write_files(folder: Path, state: State, parameters: dict[str, Any]) -> list[Path]:
    """Write the curve as a table and a picture, and the model; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table, model = folder / "curve.csv", folder / "model.safetensors"
    with open(table, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(State.COLUMNS)
        rows.writerows([f"{v:.6g}" for v in row] for row in state.points)
    save_file(parameters, model)
    panels = []
    for i, title in ((2, "loss"), (3, "held-out accuracy"), (4, "batches a second")):
        panel = Panel(title, "seconds")
        panel.lines[""] = [p[0] for p in state.points], [p[i] for p in state.points]
        panels.append(panel)
    title = "Loader workers decode and augment PNG images for a CNN"
    return [table, model, *draw_panels(panels, folder / "curve.png", title)]
