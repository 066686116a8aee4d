"""Options and exit codes: 0, 1 for a failure, 2 for a wrong option, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from minidl.config import __version__
from minidl.errors import MinidlError

from .settings import Settings, UsageError, flag

COMMANDS = {
    "train": "train a model on text",
    "generate": "continue a prompt with a trained model",
    "eval": "measure the loss of a trained model",
    "info": "say what is installed here, or what is in a checkpoint",
    "doctor": "look for what makes minidl slow or wrong on this machine",
    "verify-resume": "check that a run that is killed and resumed has the bits of a straight one",
    "bench": "measure speed beside other libraries (in a checkout)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["bench"]:  # its own parser takes the rest
        options = argparse.Namespace(command="bench", arguments=given[1:])
    else:
        options = parser().parse_args(given)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            command = options.command.replace("-", "_")
            return int(importlib.import_module(f"minidl.cli.{command}").run(options))
    except UsageError as error:
        print(f"minidl {options.command}: error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `minidl generate ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (MinidlError, OSError, ImportError) as error:
        print(f"minidl {options.command}: {_sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _show_warning(message: Any, *where: Any, **more: Any) -> None:
    print(f"minidl: warning: {message}", file=sys.stderr)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="minidl", description="Train and run small transformers on a CPU.",
        epilog="`minidl COMMAND --help` lists the options of a command.")
    top.add_argument("--version", action="version", version=f"minidl {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {name: commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.",
                                      allow_abbrev=False)
            for name, text in COMMANDS.items()}
    _train(made["train"])
    _generate(made["generate"])
    _eval(made["eval"])
    _info(made["info"])
    _verify_resume(made["verify-resume"])
    return top


def _train(p: argparse.ArgumentParser) -> None:
    p.add_argument("--config", metavar="FILE.toml", help="settings from a file; flags go before it")
    p.add_argument("--out", metavar="FOLDER", help="folder of the run, default: a new one in runs/")
    p.add_argument("--resume", metavar="FOLDER", nargs="?", const="",
                   help="go on with the run in FOLDER, default: the newest in runs/")
    p.add_argument("--plot", action=argparse.BooleanOptionalAction, default=None,
                   help="draw the loss curve at the end (extra `plot`); default: where matplotlib "
                   "is installed")
    p.add_argument("--samples", type=int, default=3, metavar="N",
                   help="texts to write at the end, default 3")
    p.add_argument("--prompt", help="what these texts start with")
    p.add_argument("--quiet", action="store_true", help="no progress and no samples")
    group = p.add_argument_group("settings", "The default of most depends on the preset. All are "
                                 "saved as config.toml with the run.")
    for one in fields(Settings):
        how: dict[str, Any] = dict(one.metadata["how"])
        text = one.metadata["help"]
        if isinstance(one.default, bool):
            how["action"] = argparse.BooleanOptionalAction
        elif not isinstance(one.default, (bool, str)) or "choices" in how:
            how.setdefault("type", type(one.default))
        if isinstance(one.default, (int, float, str)) and not isinstance(one.default, bool):
            text += f" (default {one.default})"
        group.add_argument(flag(one.name), default=argparse.SUPPRESS, help=text, **how)


def _checkpoint(p: argparse.ArgumentParser) -> None:
    p.add_argument("checkpoint", metavar="CKPT", help="folder of a run (its best checkpoint is "
                   "taken), or a .safetensors file of its checkpoints")


def _threads(p: argparse.ArgumentParser) -> None:
    p.add_argument("--threads", type=int, metavar="N", help="threads to compute with")


def _device(p: argparse.ArgumentParser) -> None:
    p.add_argument("--device", default="cpu", metavar="NAME",
                   help="where to compute: cpu, cuda, metal or opencl (`minidl info` says which "
                   "are here)")


def _generate(p: argparse.ArgumentParser) -> None:
    _checkpoint(p)
    p.add_argument("--prompt", default="\n", help="what to continue; default: a new line")
    p.add_argument("--max-new-tokens", type=int, default=300, metavar="N", help="default 300")
    p.add_argument("--samples", type=int, default=1, metavar="N", help="texts to write, default 1")
    p.add_argument("--temperature", type=float, default=0.8, metavar="X",
                   help="0 takes the likeliest token, 1 draws as the model says; default 0.8")
    p.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens")
    p.add_argument("--top-p", type=float, metavar="P",
                   help="draw from the fewest tokens that have probability P together")
    p.add_argument("--min-p", type=float, metavar="P",
                   help="draw from tokens with at least P of the likeliest one's probability")
    p.add_argument("--repetition-penalty", type=float, default=1.0, metavar="X",
                   help="above 1: make tokens that are already there less likely")
    p.add_argument("--stop", action="append", default=[], metavar="TEXT",
                   help="end before this text; may be given several times")
    p.add_argument("--seed", type=int, metavar="N", help="the same text each time")
    p.add_argument("--stream", action="store_true", help="write each token as soon as it is known")
    p.add_argument("--attention", metavar="FILE.png",
                   help="draw the attention of the prompt in the last layer (extra `plot`)")
    _device(p)
    _threads(p)


def _eval(p: argparse.ArgumentParser) -> None:
    _checkpoint(p)
    p.add_argument("--text", nargs="+", metavar="PATH",
                   help="files and folders; default: the validation part of the run's own text")
    p.add_argument("--batch-size", type=int, default=16, metavar="N", help="default 16")
    _device(p)
    _threads(p)


def _info(p: argparse.ArgumentParser) -> None:
    p.add_argument("checkpoint", nargs="?", metavar="CKPT",
                   help="folder of a run or a .safetensors file; default: this installation")


def _verify_resume(p: argparse.ArgumentParser) -> None:
    p.add_argument("config", metavar="CONFIG", help="a config file, or the folder of a run")
    p.add_argument("--steps", type=int, default=40, metavar="N",
                   help="of the straight run; the other is killed after half of them; default 40")
    p.add_argument("--keep", metavar="FOLDER", help="keep both runs in this folder")
