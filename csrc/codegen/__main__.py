"""``python -m codegen``: generate, or with ``--check`` only validate the specification."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from codegen import SpecError, generate


def main(arguments: list[str] | None = None) -> int:
    """Run the generator; returns the exit status."""
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, report errors")
    parser.add_argument("--spec", type=Path, default=root / "csrc" / "spec")
    parser.add_argument("--out", type=Path, default=root / "build" / "native" / "generated")
    parser.add_argument("--root", type=Path, default=root)
    options = parser.parse_args(arguments)
    try:
        result = generate(options.spec, options.out, options.root, check=options.check)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    verb = "would change" if options.check else "changed"
    total = len(result.c_files) + len(result.other_files)
    print(f"{total} files, {len(result.changed)} {verb}")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
