"""Programs written for torch run with ``--as-torch`` and print what torch 2.13 prints.

``programs/<name>.txt`` is what ``OMP_NUM_THREADS=1 python programs/<name>.py`` printed with torch.
Programs whose libraries are not installed are skipped: ``pip install --no-deps`` them and what
they need besides torch.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))

#: Packages that a program imports, besides those that all tests need.
NEEDED = {
    "digits": "sklearn",
    "with_accelerate": "accelerate",
    "with_botorch": "botorch",
    "with_einops": "einops",
    "with_gpytorch": "gpytorch",
    "with_ignite": "ignite captum",
    "with_kornia": "kornia",
    "with_lightning": "lightning",
    "with_peft": "peft transformers",
    "with_pyro": "pyro",
    "with_sentence_transformers": "sentence_transformers all_minilm_l6_v2",
    "with_skorch": "skorch",
    "with_stable_baselines3": "stable_baselines3",
    "with_tensordict": "tensordict",
    "with_timm": "timm torchvision",
    "with_torch_geometric": "torch_geometric",
    "with_torchdiffeq": "torchdiffeq",
    "with_torchinfo": "torchinfo opt_einsum torchsde torch_optimizer",
    "with_torchmetrics": "torchmetrics",
    "with_torchvision": "torchvision PIL",
    "with_transformers": "transformers",
    "with_x_transformers": (
        "x_transformers vector_quantize_pytorch entmax lion_pytorch ema_pytorch"
    ),
    "with_zuko": "zuko nflows geoopt pytorch_metric_learning",
}

pytestmark = pytest.mark.timeout(300)


def same(ours: str, theirs: str) -> bool:
    """Whether two words are equal; numbers up to 1e-4."""
    try:
        return float(ours) == pytest.approx(float(theirs), rel=1e-4, abs=1e-4)
    except ValueError:
        return ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_program_prints_what_it_prints_with_torch(name):
    for package in NEEDED.get(name, "").split():
        if importlib.util.find_spec(package) is None:  # importing it would look for torch
            pytest.skip(f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "shmtensor", "run", "--as-torch", str(PROGRAMS / f"{name}.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = (PROGRAMS / f"{name}.txt").read_text()
    ours_words, theirs_words = done.stdout.split(), theirs.split()
    assert len(ours_words) == len(theirs_words), done.stdout
    wrong = [pair for pair in zip(ours_words, theirs_words, strict=True) if not same(*pair)]
    assert not wrong, f"{wrong}\n{done.stdout}"
