"""Walk the models of the sharing protocol with Spin: ``model.py [--only NAME] [--long]``.

The models are in ``model/``. Each run below must walk every state without an error. Then each
planted fault is compiled in, and must be found: a model that finds nothing proves nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tree import ROOT

MODELS = ROOT / "model"
COMPILER_FLAGS = "-w -DSAFETY -DCOLLAPSE -DNOFAIR -DMEMLIM=3500".split()
PAN_FLAGS = ["-m1000000", "-w22"]


@dataclass(frozen=True)
class Run:
    """One walk of a model. *fault*: what is planted, which must then be found."""

    model: str
    defines: str
    fault: str = ""

    @property
    def title(self) -> str:
        """What the run is called in the output."""
        return " ".join(filter(None, (self.model, self.fault, self.defines)))


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    run: Run
    states: int
    seconds: float
    error: str  # "" when every state was walked and nothing was found

    @property
    def is_good(self) -> bool:
        """Is it what was expected?"""
        return "assertion violated" in self.error if self.run.fault else not self.error


SOUND = (
    Run("names", "KILLS=1 MANAGER_KILLS=1"),
    Run("numbers", "KILLS=1 MANAGER_KILLS=0"),
    Run("numbers", "KILLS=0 MANAGER_KILLS=1"),
    Run("numbers", "KILLS=0 MANAGER_KILLS=0 TWO_NAMESPACES"),
    Run("blocks", "OPS=2 KILLS=1"),
    Run("blocks", "OPS=2 KILLS=0 SHARED"),
    Run("blocks", "OPS=2 KILLS=0 SHARED STALE"),
    Run("blocks", "OPS=3 KILLS=0 SHARED IDLE=8"),
    Run("blocks", "OPS=1 KILLS=1 SHARED"),
    Run("blocks", "OPS=2 KILLS=0 MANAGER_KILLS=1"),
    Run("blocks", "OPS=1 KILLS=1 MANAGER_KILLS=1 SHARED IDLE=12"),
    Run("ring", "OPS=1 KILLS=1"),
    Run("ring", "OPS=1 KILLS=0 MANAGER_KILLS=1"),
    Run("ring", "OPS=2 KILLS=0 STOPS=1 IDLE=4"),
    Run("ring", "OPS=2 KILLS=1 REUSE IDLE=12"),
    Run("ring", "OPS=2 KILLS=1 OWN_RING NO_RING_0 IDLE=12"),
    Run("acks", "OPS=1 KILLS=1"),
    Run("acks", "OPS=2 KILLS=1"),
    Run("acks", "OPS=2 KILLS=1 GETS=1"),
    Run("acks", "OPS=2 KILLS=1 MESSAGES=2 COMPACT"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=16"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=4"),
    Run("topics", "PUBLISH=2 KILLS=1 STOPS=1 IDLE=20"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=16 BLOCK"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=20 BLOCK REUSE"),
    Run("calls", "CALLS=2 KILLS=1"),
    Run("calls", "CALLS=2 KILLS=1 WORDS=2"),
    Run("calls", "CALLS=2 KILLS=1 REUSE"),
    Run("calls", "CALLS=2 KILLS=1 WORDS=2 REUSE"),
    Run("calls", "CALLS=2 KILLS=1 STOPS=1"),
    Run("events", "OPS=3 KILLS=0 WAITERS=1 SETS"),
    Run("events", "OPS=2 KILLS=1 WAITERS=1"),
    Run("events", "OPS=2 KILLS=0 STOPS=1 WAITERS=1"),
)

# With --long: up to 25 million states each, 2 GB, some minutes.
LONG = (
    Run("blocks", "OPS=3 KILLS=0 SHARED"),
    Run("blocks", "OPS=2 KILLS=1 SHARED STALE"),
)

# "was": the sources have really had this fault. The words are from the subject of the commit that
# mended it.
FAULTS = (
    Run("blocks", "OPS=2 KILLS=0 SHARED IDLE=4", "FAULT_HOLD_CHECKED_BEFORE_WRITTEN"),
    Run("blocks", "OPS=2 KILLS=0 SHARED IDLE=4", "FAULT_HOLD_RELAXED"),
    Run("blocks", "OPS=2 KILLS=0 SHARED IDLE=4", "FAULT_NOT_CHECKED_AGAIN"),
    Run("blocks", "OPS=2 KILLS=0 SHARED IDLE=4", "FAULT_MARK_STAYS"),
    Run("blocks", "OPS=2 KILLS=0 SHARED IDLE=4", "FAULT_NUMBER_AFTER_HOLD"),
    Run("blocks", "OPS=3 KILLS=0 SHARED IDLE=8", "FAULT_LEASE_ENDS_BEFORE_HOLD"),
    # was: "ipc: judge by kernel locks ...; leases that a second opening does not end"
    Run("blocks", "OPS=4 KILLS=0 SHARED IDLE=8", "FAULT_SECOND_OPENING_ENDS_A_LEASE"),
    Run("blocks", "OPS=1 KILLS=1 SHARED IDLE=12", "FAULT_MARK_OF_THE_DEAD_STAYS"),
    Run("blocks", "OPS=1 KILLS=1 SHARED IDLE=12", "FAULT_LEASES_OF_THE_DEAD_UNCOUNTED"),
    # was: "shm: a manager that takes over sweeps and audits at once, ..."
    Run("blocks", "OPS=1 KILLS=0 MANAGER_KILLS=1 SHARED IDLE=12", "FAULT_SUCCESSOR_BELIEVES_FLAGS"),
    # was: "shm: a hold that fails has the manager sweep"
    Run("blocks", "OPS=2 KILLS=0 SHARED STALE IDLE=4", "FAULT_FAILED_HOLD_IS_SILENT"),
    # was: "ipc: a session has one manager, in whatever network namespaces its members are"
    Run("numbers", "KILLS=0 MANAGER_KILLS=0 TWO_NAMESPACES", "FAULT_TWO_MANAGERS"),
    # was: "ipc: judge by kernel locks which processes live, in whatever pid namespace"
    Run("numbers", "KILLS=0 MANAGER_KILLS=0", "FAULT_LIVES_BY_PID"),
    # was: "shm: a claimed number without room is left to the manager"
    Run("numbers", "KILLS=0 MANAGER_KILLS=0", "FAULT_CLAIMER_GIVES_NUMBER_BACK"),
    Run("numbers", "KILLS=1 MANAGER_KILLS=0", "FAULT_CHILD_KEEPS_ITS_PARENTS_LOCK"),
    Run("numbers", "KILLS=1 MANAGER_KILLS=0", "FAULT_NUMBER_FREED_BEFORE_HOLDS"),
    # was: "queues: a process stopped inside one queue's lock no longer keeps the memory that ..."
    Run("ring", "OPS=3 KILLS=1 STOPS=1 IDLE=4", "FAULT_AUDIT_NEEDS_ALL_LOCKS"),
    Run("ring", "OPS=2 KILLS=0 STOPS=1 IDLE=4", "FAULT_AUDIT_STORES_THE_COUNT"),
    Run("ring", "OPS=2 KILLS=0 STOPS=1 IDLE=4", "FAULT_AUDIT_IGNORES_FLUX"),
    # was: "queues: the leases of a ring's messages end whoever frees the ring"
    Run("ring", "OPS=3 KILLS=0 OWN_RING NO_RING_0 IDLE=12", "FAULT_FREED_RING_IS_NOT_AUDITED"),
    Run("ring", "OPS=2 KILLS=1 OWN_RING NO_RING_0 IDLE=12", "FAULT_NO_AUDIT_WITHOUT_A_RING"),
    # was: "queues: an audit notices a ring that was made and freed meanwhile"
    Run("ring", "OPS=4 KILLS=0 OWN_RING IDLE=12", "FAULT_AUDIT_MISSES_A_RING"),
    Run("ring", "OPS=1 KILLS=1 IDLE=12", "FAULT_LEASE_AFTER_TAIL"),
    Run("ring", "OPS=2 KILLS=0 IDLE=8", "FAULT_LEASES_END_BEFORE_HOLD"),
    Run("ring", "OPS=1 KILLS=1 IDLE=12", "FAULT_LOCK_OF_THE_DEAD_STAYS"),
    Run("ring", "OPS=2 KILLS=1 REUSE IDLE=12", "FAULT_NUMBER_FREED_BEFORE_LOCKS"),
    # was: "service: a refused publication leaves the blocks of others held"
    Run("names", "KILLS=0 MANAGER_KILLS=0", "FAULT_REFUSED_PUBLICATION_DROPS_A_HOLD"),
    Run("names", "KILLS=0 MANAGER_KILLS=0", "FAULT_TICK_BEFORE_SLOT"),
    Run("names", "KILLS=0 MANAGER_KILLS=0", "FAULT_ONE_SLOT"),
    Run("names", "KILLS=0 MANAGER_KILLS=0", "FAULT_OLD_VERSION_STAYS_HELD"),
    Run("names", "KILLS=0 MANAGER_KILLS=1", "FAULT_SUCCESSOR_KEEPS_ALL_HOLDS"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_COUNTED_AGAIN"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_PREPARED_MESSAGES_STAY"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_MOVES_ARE_NOT_SETTLED"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_MOVE_IS_NOT_ANNOUNCED"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_LIVE_BEFORE_IT_HAS_MOVED"),
    Run("acks", "OPS=1 KILLS=1", "FAULT_GONE_BEFORE_IT_HAS_MOVED"),
    Run("acks", "OPS=2 KILLS=1 MESSAGES=2", "FAULT_ACKNOWLEDGED_WITHOUT_REPAIR"),
    Run("acks", "OPS=2 KILLS=1 MESSAGES=2 COMPACT", "FAULT_COPY_IS_VALID_FIRST"),
    # was: "topics: what a killed publisher drops is counted, ..."
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=20", "FAULT_COUNTED_AFTER_IT_IS_DROPPED"),
    # was: "topics: ..., and waiting publishers keep no dead subscriber"
    Run("topics", "PUBLISH=3 KILLS=1 IDLE=16 BLOCK", "FAULT_WAITERS_HOLD_THE_RING"),
    # was: "ipc: a process with the number of a dead one is not taken for it; ..."
    Run("topics", "PUBLISH=3 KILLS=1 IDLE=20 BLOCK REUSE", "FAULT_NUMBERS_ARE_PROCESSES"),
    # was: "topics: what a killed publisher drops is counted, ..." (the history lost its newest)
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=4", "FAULT_HISTORY_IS_DROPPED_FIRST"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=16", "FAULT_BUSY_IS_NOT_COUNTED"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=20", "FAULT_LOCKS_OF_THE_DEAD_STAY"),
    Run("topics", "PUBLISH=2 KILLS=1 IDLE=20", "FAULT_FREED_RINGS_ARE_NOT_AUDITED"),
    # was: "ipc: a process with the number of a dead one is not taken for it; ..."
    Run("calls", "CALLS=2 KILLS=1 WORDS=2 REUSE", "FAULT_NUMBERS_ARE_PROCESSES"),
    # was: "ipc: ...; servers say what they let go of"
    Run("calls", "CALLS=2 KILLS=0 WORDS=2", "FAULT_LET_GO_SILENTLY"),
    Run("calls", "CALLS=2 KILLS=0", "FAULT_QUEUED_AFTER_THE_REQUEST"),
    Run("calls", "CALLS=2 KILLS=0", "FAULT_LOST_BEFORE_A_LOOK_AT_THE_TAKER"),
    Run("calls", "CALLS=2 KILLS=0", "FAULT_GIVEN_UP_SILENTLY"),
    Run("calls", "CALLS=2 KILLS=1", "FAULT_TAKEN_AFTER_THE_REQUEST_HAS_LEFT"),
    Run("calls", "CALLS=2 KILLS=0", "FAULT_TAKEN_BEFORE_THE_LINE_IS_HELD"),
    Run("calls", "CALLS=2 KILLS=1", "FAULT_ANY_WORD_IS_TAKEN"),
    Run("calls", "CALLS=2 KILLS=0", "FAULT_LINE_LET_GO_BEFORE_THE_REPLY"),
    Run("calls", "CALLS=2 KILLS=1", "FAULT_HOLDS_OF_THE_DEAD_STAY"),
    # was: "events: who waits learns of each call of set, also after another setter was killed"
    Run("events", "OPS=3 KILLS=1 WAITERS=1 SETS", "FAULT_ONLY_THE_FIRST_COUNTS_A_SET"),
    Run("events", "OPS=3 KILLS=0 WAITERS=1 SETS", "FAULT_SETS_ARE_NOT_COUNTED"),
    Run("events", "OPS=1 KILLS=0 PULSES", "FAULT_ONE_IS_WOKEN"),
    Run("events", "OPS=2 KILLS=0 WAITERS=1 SETS", "FAULT_WOKEN_BEFORE_IT_IS_SET"),
    Run("events", "OPS=2 KILLS=0 WAITERS=1 SETS", "FAULT_NO_LOOK_AFTER_ARMING"),
    Run("events", "OPS=3 KILLS=0 WAITERS=1 PULSES", "FAULT_PULSE_COUNTED_BEFORE_ITS_ID"),
    Run("events", "OPS=3 KILLS=0 WAITERS=1 PULSES", "FAULT_NO_SECOND_LOOK_AT_THE_NUMBER"),
    Run("events", "OPS=2 KILLS=1 WAITERS=1 PULSES", "FAULT_LOCK_OF_THE_DEAD_STAYS"),
)


def _spin() -> str:
    for program, package in (("spin", "spin"), ("gcc", "gcc")):
        if shutil.which(program) is None:
            raise SystemExit(f"model: {program} is missing: apt-get install {package}")
    return "spin"


def walk(run: Run) -> Result:
    """Make the checker of one run in a folder of its own and run it."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="model-") as name:
        defines = [f"-D{one}" for one in (*run.defines.split(), *filter(None, [run.fault]))]
        source = MODELS / f"{run.model}.pml"
        subprocess.run([_spin(), "-a", *defines, source], cwd=name, check=True, capture_output=True)
        compiler = os.environ.get("CC", "gcc").split()
        level = "-O0" if run.fault else "-O1"  # optimizing takes longer than the search for a fault
        command = [*compiler, level, *COMPILER_FLAGS, "-o", "pan", "pan.c"]
        subprocess.run(command, cwd=name, check=True)
        done = subprocess.run(
            ["./pan", *PAN_FLAGS], cwd=name, check=False, capture_output=True, text=True
        )
    out = done.stdout
    states = re.search(r"(\d+) states, stored", out)
    error = next((line for line in out.split("\n") if line.startswith("pan:1:")), "")
    if not error and (done.returncode != 0 or "Search not completed" in out or states is None):
        error = "not every state was walked: " + (out + done.stderr)[-500:]
    return Result(run, int(states[1]) if states else 0, time.monotonic() - begin, error)


def _report(result: Result) -> None:
    said = "ok" if result.is_good else "FAILED"
    if result.run.fault and result.is_good:
        said = "found"
    print(
        f"{said:6} {result.states:9} states {result.seconds:6.1f} s  {result.run.title}", flush=True
    )
    if not result.is_good:
        print("   ", result.error or "the planted fault was not found", flush=True)


def main() -> int:
    """Run what was asked for; 1 when a model has a fault, or a planted one was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="runs whose title has this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--long", action="store_true", help="also the runs that take minutes")
    wanted = parser.parse_args()
    _spin()
    runs = [
        run for run in (*SOUND, *(LONG if wanted.long else ()), *FAULTS) if wanted.only in run.title
    ]
    good = True
    with ThreadPoolExecutor(wanted.jobs) as pool:
        for result in pool.map(walk, runs):
            _report(result)
            good = good and result.is_good
    return 0 if good and runs else 1


if __name__ == "__main__":
    sys.exit(main())
