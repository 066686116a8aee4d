"""How fast minidl is: `python -m bench --list`, explained in docs/performance.md."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if not [f for f in ROOT.glob("minidl/_core.*") if f.suffix in (".so", ".pyd")]:
    # Sources that were not built in place must not hide the installed, compiled package.
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != ROOT] + [str(ROOT)]
