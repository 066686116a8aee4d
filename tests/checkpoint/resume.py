"""Train with every optimizer, straight through, up to a kill, or on from the last checkpoint.

    python resume.py FOLDER

Prints as JSON, for each of these stages, the bits of the losses and of the weights after 200 steps;
and after a few steps of runs that were resumed without something they need.
"""

import functools
import hashlib
import json
import os
import random
import signal
import sys

import numpy as np

import minidl as md
from minidl import nn
from minidl.checkpoint import CheckpointManager, random_state, set_random_state

STEPS, SAVED, KILLED, LOOK = 200, 100, 110, 110
OPTIMIZERS = {
    "SGD with momentum": lambda p: md.optim.SGD(p, 0.001, momentum=0.9, nesterov=True),
    "Adam with amsgrad": lambda p: md.optim.Adam(p, 0.002, amsgrad=True, weight_decay=0.01),
}
for _name in md.optim.__all__:
    _kind = getattr(md.optim, _name)
    if isinstance(_kind, type) and issubclass(_kind, md.optim.Optimizer):
        OPTIMIZERS[_name] = functools.partial(_kind, lr=0.003)
del OPTIMIZERS["Optimizer"]


class Run:
    """Weights, optimizer and a random stream of its own beside the three global ones."""

    def __init__(self, optimizer):
        md.manual_seed(1)
        random.seed(2)
        np.random.seed(3)
        self.generator = md.Generator().manual_seed(4)
        self.model = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Dropout(0.1),
                                   nn.LayerNorm(256), nn.Linear(256, 8))
        params = self.model.parameters()
        if optimizer == "Muon":
            params = md.optim.muon_groups(self.model)
        self.optimizer = OPTIMIZERS[optimizer](params)
        self.log = []

    def step(self):
        x = md.randn(130, 32, generator=self.generator) * random.random() + random.gauss(0, 1)
        noise = md.tensor(np.random.standard_normal(8).astype(np.float32))
        loss = (self.model(x) - x[:, :8].sin() - 0.1 * noise).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.999
        self.log.append(loss.item().hex())

    def state(self):
        return {"model": self.model, "optimizer": self.optimizer, "random": random_state(),
                "generator": self.generator, "log": self.log}

    def load(self, state, left_out):
        self.model.load_state_dict(state["model"])
        self.log = state["log"]
        if left_out != "optimizer":
            self.optimizer.load_state_dict(state["optimizer"])
        if left_out != "random":
            set_random_state(state["random"])
        if left_out != "generator":
            self.generator.set_state(state["generator"])

    def result(self):
        weights = b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())
        return [hashlib.sha256(weights).hexdigest(), self.log]


def train(mode, folder, threads, left_out=None):
    """{optimizer: result} of one stage; "killed" ends by killing its process."""
    md.set_num_threads(threads)
    results = {}
    for name in OPTIMIZERS:
        place = os.path.join(folder, name)
        if mode == "killed" and os.fork():
            assert os.wait()[1] == signal.SIGKILL
            continue
        run = Run(name)
        if mode == "resumed":
            run.load(CheckpointManager(place).load(), left_out)
        last = LOOK if left_out else STEPS
        for step in range(len(run.log) + 1, last + 1):
            run.step()
            if mode == "killed" and step == SAVED:
                CheckpointManager(place).save(run.state(), step)
            if mode == "killed" and step == KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
        results[name] = run.result()
    return results


def killed_and_resumed(folder, threads, without=()):
    """A run that is killed, and then goes on in this process, which has computed nothing yet."""
    assert train("killed", folder, threads) == {}
    results = {f"resumed on {threads}": train("resumed", folder, threads)}
    for left_out in without:
        results[f"without {left_out}"] = train("resumed", folder, threads, left_out)
    return results


def beside(work):
    """Start ``work`` in a process of its own; returns what waits for its result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as file:
            json.dump(work(), file)
        os._exit(0)
    os.close(writer)

    def wait():
        with os.fdopen(reader) as file:
            text = file.read()
        assert os.waitpid(child, 0)[1] == 0
        return json.loads(text)

    return wait


def main(folder):
    one, two = (os.path.join(folder, threads) for threads in "12")
    stages = [beside(lambda: {"straight": train("straight", folder, 1)}),
              beside(lambda: killed_and_resumed(one, 1, ("optimizer", "random"))),
              beside(lambda: killed_and_resumed(two, 2))]
    print(json.dumps({name: result for wait in stages for name, result in wait().items()}))


if __name__ == "__main__":
    main(sys.argv[1])
