"""Optimizer: parameter groups, state and saving; what every optimizer shares."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from minidl._core import Tensor
from minidl.grad_mode import enable_grad, no_grad

Params = Iterable[Any]


class Optimizer:
    """Base of the optimizers: a list of parameter groups, each a dict of ``params`` and options,
    and a ``state`` dict for each parameter.

    A subclass writes ``update(group, params)``: one step of the parameters that have gradients.

    >>> model = md.nn.Linear(2, 3)
    >>> optimizer = md.optim.AdamW(model.parameters(), lr=1e-3)
    >>> loss = model(md.ones(4, 2)).square().mean()
    >>> optimizer.zero_grad()
    >>> loss.backward()
    >>> optimizer.step()
    """

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "an optimizer takes a list of parameters or of groups, got one tensor; write "
                "[param]"
            )
        self.defaults = defaults
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options: ``{"params": [...], "lr": 1e-4}``.

        Parameters may be given as ``(name, parameter)`` pairs; the names are kept in
        ``param_names``.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"a parameter group must be a dict, got {type(param_group).__name__}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError("parameters must be in order; a set has none, use a list")
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and all(isinstance(p, tuple) for p in params):
            group["param_names"] = [name for name, _ in params]
            params = [param for _, param in params]
        self._check_params(params)
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        group["params"] = params
        self.param_groups.append(group)

    def _check_params(self, params: list[Any]) -> None:
        seen = {id(p) for group in self.param_groups for p in group["params"]}
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"an optimizer takes tensors, got {type(param).__name__}")
            if not param.is_leaf:
                raise ValueError("cannot optimize a tensor that was computed (not a leaf)")
            if id(param) in seen:
                raise ValueError("some parameters appear in more than one parameter group")
            seen.add(id(param))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every parameter (or fill them with zeros)."""
        with no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if set_to_none:
                        param.grad = None
                    elif param.grad is not None:
                        param.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step on every parameter that has a gradient; a ``closure`` computes the loss anew
        first, and its loss is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                if params:
                    self.update(group, params)
        return loss

    def update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        """One step of ``params``, which belong to ``group``; runs without recording."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to update parameters")

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: {...}}, "param_groups": [...]}``; parameters are numbered in
        their order.

        >>> list(md.optim.SGD([md.ones(2, requires_grad=True)]).state_dict())
        ['state', 'param_groups']
        """
        numbers = {id(p): i for i, p in enumerate(self._all_params())}
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            | {"params": [numbers[id(param)] for param in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(param)]: values for param, values in self.state.items()}
        return {"state": state, "param_groups": groups}

    def _all_params(self) -> list[Tensor]:
        return [param for group in self.param_groups for param in group["params"]]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the options and a copy of the state of another optimizer of the same kind."""
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"the state dict has {len(groups)} parameter groups, the optimizer "
                f"{len(self.param_groups)}"
            )
        for i, (own, other) in enumerate(zip(self.param_groups, groups, strict=True)):
            if len(own["params"]) != len(other["params"]):
                raise ValueError(
                    f"parameter group {i} has {len(other['params'])} parameters in the state "
                    f"dict, {len(own['params'])} in the optimizer"
                )
        numbers = [number for group in groups for number in group["params"]]
        params = dict(zip(numbers, self._all_params(), strict=True))
        self.state = {
            params[number]: {name: _own(value, params[number]) for name, value in values.items()}
            for number, values in state_dict["state"].items()
        }
        for own, other in zip(self.param_groups, groups, strict=True):
            own.update((k, copy.deepcopy(v)) for k, v in other.items() if k != "params")

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _own(value: Any, param: Tensor) -> Any:
    """A copy of a saved value; tensors take the dtype and device of the parameter they belong to,
    but for a step number, which PyTorch saves as a tensor and which is for the host."""
    if isinstance(value, Tensor):
        same = value.shape == param.shape
        return value.detach().to(param.device if same else None, param.dtype).clone()
    return copy.deepcopy(value)
