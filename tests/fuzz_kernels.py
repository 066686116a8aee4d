"""Call every public function with random arguments: nothing may crash, every refusal is a sentence.

    python tests/fuzz_kernels.py                          until stopped, new seeds all the time
    python tests/fuzz_kernels.py --seconds 60 --only attention
    python tests/fuzz_kernels.py --call cpu.matmul 7 123   one call again: name, seed, number

The calls run in a child process. When it dies, the parent prints the call that killed it and starts
the next child after it. Half of the calls are valid ones with an argument or two spoiled, because
most bugs hide behind the first check.
"""

import argparse
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import warnings

import fuzz_arguments as arguments
import numpy as np

import minidl as md
import minidl_kernels.cpu as cpu

HANG = 20                   # seconds one call may take
MEMORY = 1 << 30            # bytes a child may have beyond what it starts with
# An honest refusal; anything else that a compiled kernel raises is a bug of its own.
REFUSALS = (TypeError, ValueError, LookupError, OverflowError, MemoryError, NotImplementedError)
NEVER = (SystemError, AssertionError, RecursionError, NameError, ZeroDivisionError)
COMPILED = {name for name, module in sys.modules.items() if name.startswith("minidl_kernels.cpu.")
            and not module.__file__.endswith(".py")}
# tensor_split into 2^31 pieces makes them, one by one.
SKIP = {"md.tensor_split", "Tensor.tensor_split", "md.show_config", "md.set_printoptions"}


def targets():
    """Every public function by name: kernels, functions of tensors, tensor methods."""
    found = {}
    sources = {"cpu": cpu, "cpu.threads": cpu.threads, "cpu.memory": cpu.memory, "md": md,
               "cpu.scipy_blas": cpu.scipy_blas, "F": md.nn.functional, "Tensor": md.Tensor}
    for prefix, source in sources.items():
        for name in sorted(dir(source)):
            function = getattr(source, name, None)
            if name.startswith("_") or inspect.isclass(function) or inspect.ismodule(function):
                continue
            if callable(function) and f"{prefix}.{name}" not in SKIP:
                found[f"{prefix}.{name}"] = function
    return found


def make_call(name, function, seed, number):
    """The arguments of one call: a function of (name, seed, number) only."""
    rng = random.Random(f"{name}/{seed}/{number}")
    return arguments.make(rng, name, function)


def touch(result):
    """Read all of a result, so that memory which is not there is noticed here."""
    if isinstance(result, (tuple, list)):
        for part in result:
            touch(part)
    elif isinstance(result, md.Tensor):
        touch(result.array)
    elif isinstance(result, np.ndarray) and result.size < 1 << 22:
        result.tobytes()


def complaint(name, function, args, kwargs):
    """None, or what is wrong with the way a call went."""
    try:
        result = function(*args, **kwargs)
        touch(result)
        if isinstance(result, md.Tensor) and result.requires_grad and result.array.size < 1 << 20:
            result.backward(md.from_numpy(np.ones_like(result.array)))
            touch([a.grad for a in args if isinstance(a, md.Tensor)])
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if not str(error).strip():
            return f"no message: {text}"
        if isinstance(error, NEVER):
            return text
        module = getattr(function, "__module__", None) or ""
        if module in COMPILED and not isinstance(error, REFUSALS):
            return text
    return None


# ------------------------------------------------------------------------------------- the child

def child(log, seed, first, calls, names):
    """Calls `first`, ... of names[0], then `calls` of each other name; complaints as JSON lines."""
    functions = targets()
    limit_memory()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    now = open(log, "w")  # noqa: SIM115  one file for all calls: opening it takes longer than most

    def note(text):
        now.seek(0)
        now.write(text.ljust(80) + "\n")
        now.flush()

    for name in names:
        function = functions[name]
        for number in range(first, calls):
            note(f"{name} {number}")
            args, kwargs = make_call(name, function, seed, number)
            alarm(HANG)
            problem = complaint(name, function, args, kwargs)
            alarm(0)
            cpu.threads.set_num_threads(2)
            if problem:
                print(json.dumps([name, number, problem]), flush=True)
        first = 0
    note("done 0")


def alarm(seconds):
    """The process dies when a call hangs, even inside C code."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


def limit_memory():
    """Sizes that would fill the machine become MemoryError."""
    try:
        import resource

        with open("/proc/self/statm") as f:
            now = int(f.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError):
        pass


# ------------------------------------------------------------------------------------ the parent

def fuzz(seed, calls, names):
    """Run `calls` calls of every name in child processes; returns [(name, number, problem)]."""
    problems, first, names = [], 0, list(names)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "now")
        while names:
            command = [sys.executable, os.path.abspath(__file__), "--child", log, str(seed),
                       str(first), str(calls), *names]
            done = subprocess.run(command, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, env=env)
            problems += [tuple(json.loads(line)) for line in done.stdout.splitlines()
                         if line.startswith("[")]
            if not os.path.exists(log):
                raise RuntimeError(f"the child did not start:\n{done.stderr}")
            with open(log) as f:
                name, number = f.read().split()
            if name == "done":
                break
            problems.append((name, int(number), how_it_died(done)))
            names = names[names.index(name):]
            first = int(number) + 1
    return problems


def how_it_died(done):
    if done.returncode == -getattr(signal, "SIGALRM", 0):
        return f"hung for {HANG} seconds"
    if done.returncode < 0:
        return f"died of {signal.Signals(-done.returncode).name}"
    return f"ended with exit code {done.returncode}: {done.stderr.strip()[-500:]}"


def describe(name, seed, number, problem):
    args, kwargs = make_call(name, targets()[name], seed, number)
    shown = [arguments.show(a) for a in args]
    shown += [f"{key}={arguments.show(value)}" for key, value in kwargs.items()]
    return (f"{name}({', '.join(shown)})\n    {problem}\n"
            f"    again: python tests/fuzz_kernels.py --call {name} {seed} {number}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: random)")
    parser.add_argument("--calls", type=int, default=1000, help="calls of a function per seed")
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--call", nargs=3, metavar=("NAME", "SEED", "NUMBER"))
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        log, seed, first, calls, *names = options.child
        return child(log, int(seed), int(first), int(calls), names)
    if options.call:
        name, seed, number = options.call[0], int(options.call[1]), int(options.call[2])
        print(describe(name, seed, number, ""), flush=True)
        function = targets()[name]
        args, kwargs = make_call(name, function, seed, number)
        return print(complaint(name, function, args, kwargs) or "fine")
    from time import monotonic

    names = [name for name in targets() if options.only in name]
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    start, bad = monotonic(), 0
    while monotonic() - start < options.seconds:
        for first in range(0, len(names), 20):              # so that problems show soon
            for problem in fuzz(seed, options.calls, names[first:first + 20]):
                print(describe(problem[0], seed, *problem[1:]), flush=True)
                bad += 1
        print(f"seed {seed}: {len(names)} functions, {options.calls} calls each, "
              f"{bad} problems so far, {monotonic() - start:.0f} s", flush=True)
        seed += 1
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
