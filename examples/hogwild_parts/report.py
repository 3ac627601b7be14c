"""What a run leaves: a curve as CSV and picture, a checkpoint, and a summary on the screen."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

from hogwild_parts.run import Result
from hogwild_parts.settings import Settings
from shmtensor.utils.safetensors import save_file


def write_files(folder: Path, results: list[Result], settings: Settings) -> list[Path]:
    """Write curve.csv, model.safetensors and, with matplotlib, curve.png; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [_write_csv(folder / "curve.csv", results)]
    ours = results[0]
    checkpoint = folder / "model.safetensors"
    save_file(
        ours.state,
        checkpoint,
        metadata={
            "model": settings.model,
            "steps": str(ours.steps),
            "held_out_accuracy": f"{ours.accuracy:.4f}",
        },
    )
    written.append(checkpoint)
    if importlib.util.find_spec("matplotlib") is not None:
        written.append(_draw(folder / "curve.png", results, settings))
    else:
        print("matplotlib is not installed; curve.png is not drawn")
    return written


def _write_csv(path: Path, results: list[Result]) -> Path:
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["library", "seconds", "steps", "train_loss", "test_loss", "test_accuracy"])
        for result in results:
            for p in result.points:
                rows.writerow(
                    [
                        result.library,
                        f"{p.seconds:.4f}",
                        p.steps,
                        f"{p.train_loss:.6f}",
                        f"{p.test_loss:.6f}",
                        f"{p.test_accuracy:.6f}",
                    ]
                )
    return path


def _draw(path: Path, results: list[Result], settings: Settings) -> Path:
    import matplotlib  # optional, and slow to import

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for result in results:
        seconds = [p.seconds for p in result.points]
        left.plot(
            seconds, [p.test_loss for p in result.points], label=f"{result.library}, held out"
        )
        left.plot(
            seconds,
            [p.train_loss for p in result.points],
            linestyle="--",
            label=f"{result.library}, training",
        )
        right.plot(seconds, [p.test_accuracy for p in result.points], label=result.library)
    left.set(xlabel="seconds", ylabel="loss", yscale="log")
    right.set(xlabel="seconds", ylabel="held-out accuracy")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(f"Hogwild, {settings.model}, {settings.workers} workers")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def print_summary(results: list[Result], written: list[Path]) -> None:
    """Accuracy, speed, losses of workers, and where the files are."""
    print()
    for result in results:
        print(
            f"{result.library:10} held-out accuracy {result.accuracy:.4f}   "
            f"{result.steps} steps in {result.seconds:.2f} s = "
            f"{result.steps_per_second:.0f} steps/s"
        )
        for line in result.lost_workers:
            print(f"  {line}")
        if result.lost_workers:
            print(f"  {result.finished_workers} of {result.n_workers} workers finished")
    if len(results) == 2 and results[1].steps_per_second:
        ratio = results[0].steps_per_second / results[1].steps_per_second
        print(f"{results[0].library} made {ratio:.1f} times as many steps per second")
    print("wrote " + ", ".join(str(path) for path in written))
