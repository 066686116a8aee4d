"""What lets each topic run alone: `python bench/softmax.py` is `python -m bench softmax`."""

import sys
from pathlib import Path


def run(file):
    """Run the topic of that file with the command line's options, and exit."""
    sys.path[0] = str(Path(file).resolve().parents[1])      # was the folder of the file itself
    from bench.cli import main

    sys.exit(main([Path(file).stem, *sys.argv[1:]]))
