"""From PTX text to the instructions of machine.cpp.

Which instructions compute, and the types of their operands, is read from ops.h; memory, branches,
barriers and shuffles are spelled here. An instruction, register or directive that is not known is
an error: the emulator never guesses.
"""

import re
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["DecodeError", "Decoded", "decode", "operations"]

CONTROL = ("bra", "bra_if", "bra_unless", "ret", "bar", "shfl_bfly", "ld", "st")
SPACES = ("param", "shared", "global", "global.nc")
SPECIAL = ("%tid.x", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z")
BYTES = {"pred": 4, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4,
         "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8}
GAP = 64  # bytes of nobody between two variables in shared memory

_OPERATION = re.compile(r"^OP\d\((\w+), ((?:\w+, )+)", re.M)
_COMPARE = re.compile(r"^COMPARE\((\w+)\)", re.M)
_ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)\s*((?:\.\w+ [\d, ]+\s*)*)\{(.*?)\n\}", re.S)
_VARIABLE = re.compile(r"\.(shared|global) \.align (\d+) \.(\w+) ([\w$]+)(?:\[(\d+)\])?"
                       r"(?: = \{([^}]*)\})?;")
_PARAMETER = re.compile(r"\.param (?:\.align (\d+) )?\.(\w+) (\w+)(?:\[(\d+)\])?")
_ADDRESS = re.compile(r"\[([%\w$]+)(?:\+(-?\d+))?\]")


class DecodeError(ValueError):
    """PTX that the emulator does not know."""


class Decoded(NamedTuple):
    """A kernel as machine.h wants it; code and text are parallel."""

    name: str
    code: list[tuple[int, ...]]  # op, d, a, b, c, e, f
    text: list[str]
    constants: list[tuple[int, int, int]]  # place, bytes, value
    shared: list[tuple[int, int]]
    file_bytes: int
    shared_bytes: int
    param_bytes: int
    threads: int
    special: list[int]


@cache
def operations():
    """{name: (opcode, types of the result and the operands)} of ops.h.

    >>> operations()["shl_b64"][1]
    ('u64', 'u64', 'u32')
    """
    text = Path(__file__).with_name("ops.h").read_text()
    compare = re.search(r"#define COMPARE\(T\) (.*?[^\\])\n", text, re.S)[1].replace("\\\n", "\n")
    text = _COMPARE.sub(lambda m: re.sub(r"\bT\b", m[1], compare.replace("##T", m[1])), text)
    text = re.sub(r"^ +", "", text, flags=re.M)
    found = [(name, tuple(types.rstrip(", ").split(", "))) for name, types
             in _OPERATION.findall(text)]
    return {name: (len(CONTROL) + i, types) for i, (name, types) in enumerate(found)}


def decode(text, place_global):
    """The kernels of a PTX text. place_global(name, align, bytes) gives a variable its address."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    outside = _ENTRY.sub("", text)
    addresses = {}
    for space, align, type_, name, count, values in _VARIABLE.findall(outside):
        if space != "global" or BYTES[type_] != 1:
            raise DecodeError(f"a {space} variable {name} of {type_} outside of kernels")
        data = bytes(int(v) & 255 for v in values.split(",")) if values else b""
        addresses[name] = place_global(name, int(align), data.ljust(int(count or 1), b"\0"))
    rest = re.sub(r"\.(version|target|address_size) [^\n]*", "", _VARIABLE.sub("", outside))
    if rest.strip(" \n\t\0"):
        raise DecodeError(f"what is this: {rest.strip()[:80]!r}")
    return [_Function(addresses, *found).decoded() for found in _ENTRY.findall(text)]


class _Function:
    """One kernel while it is being decoded."""

    def __init__(self, addresses, name, parameters, limits, body):
        self.name, self.addresses = name, addresses
        self.types, self.places, self.constants = {}, {}, {}
        self.symbols, self.shared, self.labels = {}, [], {}
        self.code, self.text, self.end = [], [], 0
        threads = re.search(r"\.maxntid (\d+)", limits)
        self.threads = int(threads[1]) if threads else 1024
        self.param_bytes = self._parameters(parameters)
        for line in self._declare(body):
            self._line(line)
        for at, (op, d, *rest) in enumerate(self.code):
            if CONTROL[op:op + 1] and CONTROL[op].startswith("bra"):
                self.code[at] = (op, self.labels[d], *rest)

    def decoded(self):
        shared_bytes = self.shared[-1][1] + GAP if self.shared else 0
        return Decoded(self.name, self.code, self.text, list(self.constants.values()), self.shared,
                       self.end, shared_bytes, self.param_bytes, self.threads,
                       [self.places.get(s, -1) for s in SPECIAL])

    def _parameters(self, text):
        at = 0
        for align, type_, name, count in _PARAMETER.findall(text):
            size = BYTES[type_]
            at = -(-at // int(align or size)) * int(align or size)
            self.symbols[name] = at
            at += size * int(count or 1)
        return at

    def _declare(self, body):
        """Registers and shared variables; the lines that are left."""
        for space, align, type_, name, count, _ in _VARIABLE.findall(body):
            begin = -(-(self.shared[-1][1] + GAP if self.shared else 0) // int(align)) * int(align)
            if space != "shared":
                raise DecodeError(f"{self.name}: a {space} variable inside a kernel")
            self.symbols[name] = begin
            self.shared.append((begin, begin + BYTES[type_] * int(count or 1)))
        for type_, name, count in re.findall(r"\.reg \.(\w+)\s+(%\w+)<(\d+)>;", body):
            self.types.update({f"{name}{i}": type_ for i in range(int(count))})
        body = re.sub(r"\.reg [^;]*;|\.pragma [^;]*;", "", _VARIABLE.sub("", body))
        return [line.strip() for line in body.split("\n") if line.strip()]

    def _room(self, size):
        at = self.end
        self.end += 32 * size
        return at

    def _place(self, operand, type_):
        """Where an operand of a type lies in the register file."""
        size = BYTES[type_]
        if operand in self.types or operand in SPECIAL:
            have = BYTES[self.types.get(operand, "u32")]
            if have != size:
                raise DecodeError(f"{operand} has {have} bytes, the instruction wants {size}")
            if operand not in self.places:
                self.places[operand] = self._room(size)
            return self.places[operand]
        value = self._number(operand) & (1 << 8 * size) - 1
        if type_ == "pred":
            value = int(value != 0)
        if (value, size) not in self.constants:
            self.constants[value, size] = self._room(size), size, value
        return self.constants[value, size][0]

    def _number(self, operand):
        if operand in self.symbols:
            return self.symbols[operand]
        if operand in self.addresses:
            return self.addresses[operand]
        if re.fullmatch(r"0f[0-9a-fA-F]{8}", operand):
            return int(operand[2:], 16)
        if re.fullmatch(r"-?(\d+|0x[0-9a-fA-F]+)", operand):
            return int(operand, 0)
        raise DecodeError(f"unknown operand {operand}")

    def _line(self, line):
        label = re.fullmatch(r"([\w$]+):", line)
        if label:
            self.labels[label[1]] = len(self.code)
            return
        found = re.fullmatch(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.]*)\s*([^;]*);", line)
        if not found:
            raise DecodeError(f"{self.name}: cannot read {line!r}")
        unless, guard, name, operands = found.groups()
        try:
            if guard and name not in ("bra", "bra.uni"):
                raise DecodeError("a predicate before anything but a branch")
            got = self._instruction(name, [o.strip() for o in operands.split(",")], guard, unless)
        except (DecodeError, KeyError, ValueError) as error:
            raise DecodeError(f"{self.name}: {line!r}: {error}") from None
        self.code.append((*got, *[-1] * (7 - len(got))))
        self.text.append(line)

    def _instruction(self, name, operands, guard, unless):
        """op, d, a, b, c, e, f as far as used."""
        first, *rest = name.split(".")
        if first == "bra":
            if not guard:
                return CONTROL.index("bra"), operands[0]
            kind = "bra_unless" if unless else "bra_if"
            return CONTROL.index(kind), operands[0], self._place(guard, "pred")
        if first == "ret":
            return (CONTROL.index("ret"),)
        if name == "bar.sync" and operands == ["0"]:
            return (CONTROL.index("bar"),)
        if name == "shfl.sync.bfly.b32":
            d, _, p = operands[0].partition("|")
            a, b, c, f = [self._place(o, "u32") for o in operands[1:]]
            return (CONTROL.index("shfl_bfly"), self._place(d, "u32"), a, b, c,
                    self._place(p, "pred") if p else -1, f)
        if first in ("ld", "st"):
            return self._memory(first, ".".join(rest[:-1]), rest[-1], operands)
        if name.replace(".", "_") not in operations():
            raise DecodeError("an instruction that ops.h does not have")
        op, types = operations()[name.replace(".", "_")]
        if len(types) != len(operands):
            raise DecodeError(f"{len(operands)} operands, ops.h says {len(types)}")
        return op, *[self._place(o, t) for o, t in zip(operands, types, strict=True)]

    def _memory(self, kind, space, type_, operands):
        value, address = operands if kind == "ld" else operands[::-1]
        base, offset = _ADDRESS.fullmatch(address).groups()
        if base in self.types and BYTES[self.types[base]] == 4:  # shared memory has short addresses
            wide = self._room(8)
            op, _ = operations()["cvt_u64_u32"]
            self.code.append((op, wide, self._place(base, "u32"), -1, -1, -1, -1))
            self.text.append(f"address of {address}")
            base = wide
        else:
            base = self._place(base, "u64")
        held = self.types.get(value, type_ if BYTES[type_] > 1 else "u16")
        how = (SPACES.index(space) | BYTES[type_] << 4 | (type_[0] == "s") << 8
               | BYTES[held] << 12)
        return CONTROL.index(kind), self._place(value, held), base, int(offset or 0), how


def packed(kernel):
    """The code of a kernel as the bytes of struct Instruction."""
    return b"".join([struct.pack("I6i", *line) for line in kernel.code])
