"""One program publishes measurements in a topic, any number of others watch them.

    python examples/basics/telemetry.py watch      # in one terminal, or in several
    python examples/basics/telemetry.py publish    # in another one

Start and stop them in any order. A slow watcher loses the oldest messages, and holds nobody up.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

import numpy as np

from shmtensor import service


def publish(topic: Any, count: int, rate: float) -> None:
    """Publish the readings of a sensor with 1000 channels, *count* times (0: for ever)."""
    step = 0
    while not count or step < count:
        # Written where the watchers read it: nothing is copied.
        reading = topic.loan(1000, dtype=np.float32, as_="numpy")
        reading.value[:] = np.sin(step / 10 + np.arange(1000) / 1000)
        topic.publish({"step": step, "at": time.time(), "channels": reading.value})
        step += 1
        time.sleep(1 / rate)


def watch(topic: Any, count: int) -> None:
    """Print the mean of each reading, and how old it is, *count* times (0: for ever)."""
    with topic.subscribe(as_="numpy") as readings:
        for n, reading in enumerate(readings, 1):
            mean, age_ms = reading["channels"].mean(), (time.time() - reading["at"]) * 1000
            print(f"step {reading['step']:5}  mean {mean:+.3f}  {age_ms:6.2f} ms", flush=True)
            if n == count:
                break
        print(f"{readings.lost} lost")


def main() -> None:
    """Publish or watch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["publish", "watch"])
    parser.add_argument("--count", type=int, default=0, help="end after so many (0: never)")
    parser.add_argument("--rate", type=float, default=20.0, help="readings a second (20)")
    options = parser.parse_args()
    topic = service.Topic("telemetry", history=1)  # who comes late gets the last reading at once
    if options.what == "publish":
        publish(topic, options.count, options.rate)
    else:
        watch(topic, options.count)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
