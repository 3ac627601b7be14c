"""Show what the camera in C++ sees: where the stripe is in each frame, and how many were missed.

    python viewer.py [--service NAME] [--frames N]

The frames are NumPy arrays over the camera's memory. Any number of viewers may run.
"""

from __future__ import annotations

import argparse

from shmtensor.service import Service


def main() -> None:
    """Print a line for each frame."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service", help="name of the service; the default one otherwise")
    parser.add_argument("--frames", type=int, default=-1, help="end after so many")
    arguments = parser.parse_args()
    service = Service(arguments.service, start=True)
    with service.Topic("frames", depth=4, history=1).subscribe(as_="numpy") as frames:
        for number, frame in enumerate(frames, 1):
            column = int(frame[0, :, 0].argmax())
            print(f"{frame.shape} stripe at {column}, {frames.lost} missed", flush=True)
            if number == arguments.frames:
                break


if __name__ == "__main__":
    main()
