"""benchmarks/bench_examples.py: the demonstrations beside the same lines on torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import EXAMPLES, own_session

BENCHMARK = EXAMPLES.parent / "benchmarks" / "bench_examples.py"


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments],
        cwd=folder,
        env=own_session(),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text of few words, quick to read and to learn."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "counting.txt").write_text("one, two, three and four, five or six.\n" * 2000)
    return folder


@pytest.mark.parametrize(
    ("program", "options", "reached"),
    [
        ("actor_learner", "--steps 20", r"greedy return \d"),
        (
            "char_lm",
            "--data TEXTS --model lstm --width 24 --steps 20",
            r"bits a character \d",
        ),
        ("data_parallel", "--epochs 2", r"accuracy 0\.\d"),
        ("hogwild", "--epochs 20", r"accuracy 0\.9"),
        ("hogwild_sparse", "--epochs 1 --batch 32", r"accuracy 0\.\d"),
        ("image_pipeline", "--epochs 1 --quick", r"accuracy 0\.\d"),
        ("inference_server", "--seconds 1", r"99th percentile \d"),
        ("parameter_server", "--epochs 2", r"accuracy 0\.\d"),
        ("word_vectors", "--data TEXTS --epochs 1 --size 8", r"pairs above random 0\.\d"),
    ],
)
@pytest.mark.timeout(300)
def test_both_sides_train(
    tmp_path: Path, texts: Path, program: str, options: str, reached: str
) -> None:
    pytest.importorskip("torch")
    options = options.replace("TEXTS", str(texts))
    done = compare(tmp_path, program, *options.split(), "--plain")
    assert done.returncode == 0, done.stderr
    ours, theirs, ratio = done.stdout.splitlines()[-3:]
    for line, name in ((ours, "shmtensor"), (theirs, "torch")):
        assert re.match(rf"{name} +[\d.]+ (steps|updates|answers|batches)/s  ", line), line
        assert re.search(reached, line), line
    assert re.fullmatch(r"shmtensor: [\d.]+ times torch's", ratio)
    assert list(tmp_path.iterdir()) == []


def test_every_demonstration_but_those_of_several_nodes_is_compared() -> None:
    text = BENCHMARK.read_text()
    programs = {path.stem for path in EXAMPLES.glob("*.py")} - {"hogwild_mpi"}
    assert programs == set(re.findall(r'^    "(\w+)": compare_', text, re.M))


def test_demonstrations_compare_themselves_with_no_other_package() -> None:
    for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("common/*.py")]:
        assert not re.search(r"--compare torch|times as many|of torch's", path.read_text()), path
