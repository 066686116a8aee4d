"""`minidl bench`: the bench of a checkout, which no wheel carries."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def run(options: argparse.Namespace) -> int:
    """Run `python -m bench` of the checkout that minidl is in, or that is the current folder."""
    for root in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (root / "bench" / "cli.py").is_file() and (root / "minidl").is_dir():
            sys.path.insert(0, str(root))
            from bench.cli import main

            return int(main(options.arguments))
    print("minidl bench: the bench is part of the source checkout, not of the installation; clone "
          "the repository and run `minidl bench` there", file=sys.stderr)
    return 1
