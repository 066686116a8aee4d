"""Every compiled module has a stub, and both know the same names and signatures."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import minidl
import minidl_kernels

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(".".join(p.relative_to(ROOT).with_suffix("").parts)
                 for folder in ("minidl", "minidl_kernels") for p in (ROOT / folder).rglob("*.pyx"))


def stub_of(module):
    return ast.parse(Path(module.__file__).with_name(module.__name__.rpartition(".")[2] + ".pyi")
                     .read_text())


def parameters(node):
    """[(name, has a default)] of a function in a stub, * and ** in front of the names."""
    a = node.args
    plain = [*a.posonlyargs, *a.args]
    defaults = [False] * (len(plain) - len(a.defaults)) + [True] * len(a.defaults)
    found = [(p.arg, d) for p, d in zip(plain, defaults, strict=True)]
    if a.vararg:
        found.append(("*" + a.vararg.arg, False))
    found += [(p.arg, d is not None) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return found + ([("**" + a.kwarg.arg, False)] if a.kwarg else [])


def signature(function):
    """The same of a compiled function, from its signature or the first line of its docstring."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        first = re.match(r"(?:\w+\.)?(\w+\(.*\))", (function.__doc__ or "").partition("\n")[0])
        return parameters(ast.parse(f"def {first[1]}: ...").body[0]) if first else None
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [(star.get(p.kind, "") + p.name, p.default is not p.empty) for p in found]


def public(module):
    """Names that a compiled module defines itself, without what it imports."""
    return {name for name, value in vars(module).items() if not name.startswith("_")
            and getattr(value, "__module__", None) == module.__name__}


def test_the_packages_are_typed():
    for package in (minidl, minidl_kernels):
        assert Path(package.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("name", MODULES)
def test_stub_and_module_know_the_same_names(name):
    module = importlib.import_module(name)
    stub = {node.name for node in stub_of(module).body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")}
    stub |= {node.target.id for node in stub_of(module).body if isinstance(node, ast.AnnAssign)}
    assert stub - set(dir(module)) == set(), "only in the stub"
    assert public(module) - stub == set(), "only in the module"


@pytest.mark.parametrize("name", MODULES)
def test_stub_and_module_agree_on_signatures(name):
    module = importlib.import_module(name)
    compared = 0
    for node in stub_of(module).body:
        owner = getattr(module, getattr(node, "name", ""), None)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == signature(owner), f"{name}.{node.name}"
            compared += 1
        elif isinstance(node, ast.ClassDef):
            compared += compare_class(node, owner)
    assert compared or not public(module)


def compare_class(node, owner):
    """Methods and attributes of a class that the stub names exist; signatures agree where known."""
    compared = 0
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            assert hasattr(owner, part.target.id), f"{node.name}.{part.target.id}"
        if isinstance(part, ast.FunctionDef) and part.name != "__getattr__":
            assert hasattr(owner, part.name), f"{node.name}.{part.name}"
            if not part.decorator_list and not part.name.startswith("__"):
                found = signature(getattr(owner, part.name))
                assert found is None or found == parameters(part), f"{node.name}.{part.name}"
                compared += 1
    return compared
