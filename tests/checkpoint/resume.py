"""Train with every optimizer, straight through, up to a kill, or on from the last checkpoint.

    python resume.py straight|killed|resumed FOLDER [what to leave out when resuming]

Prints the bits of the losses and the weights after 200 steps as JSON.
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

STEPS, SAVED, KILLED = 200, 100, 130
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


def main(mode, folder, left_out=None):
    results = {}
    for name in OPTIMIZERS:
        place = os.path.join(folder, name)
        if mode == "killed" and os.fork():
            assert os.wait()[1] == signal.SIGKILL
            continue
        run = Run(name)
        if mode == "resumed":
            run.load(CheckpointManager(place).load(), left_out)
        for step in range(len(run.log) + 1, STEPS + 1):
            run.step()
            if mode == "killed" and step == SAVED:
                CheckpointManager(place).save(run.state(), step)
            if mode == "killed" and step == KILLED:
                os.kill(os.getpid(), signal.SIGKILL)
        results[name] = run.result()
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
