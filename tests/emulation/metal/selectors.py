"""Which selectors the stand-in has, with the types of their arguments, and calls checked by them.

The types are those that PyObjC's own metadata lists; test_metadata.py compares the two where
PyObjC's wheels are at hand. LISTED_BY_NAME are in that metadata by name only, UNLISTED not at all:
PyObjC reads their types from the classes when it runs, and they are taken from Apple's headers.

Encodings are Objective-C's: @ an object, Q and q integers, Z a bool, d a double, n^v bytes whose
length is the next argument, o^@ an error that comes back beside the result.
"""

from collections import Counter

__all__ = ["CONSTANTS", "LISTED_BY_NAME", "SELECTORS", "UNLISTED", "Misuse", "Object", "counts"]

SIZE = "{MTLSize=QQQ}"
SELECTORS = {
    "name": "@", "newCommandQueue": "@", "newBufferWithLength:options:": "@ Q Q",
    "newLibraryWithSource:options:error:": "@ @ @ o^@", "newFunctionWithName:": "@ @",
    "newComputePipelineStateWithFunction:error:": "@ @ o^@",
    "maxTotalThreadsPerThreadgroup": "Q", "threadExecutionWidth": "Q",
    "contents": "^v", "length": "Q", "setPurgeableState:": "Q Q",
    "commandBuffer": "@", "computeCommandEncoder": "@", "blitCommandEncoder": "@",
    "commit": "v", "waitUntilCompleted": "v", "status": "q", "error": "@", "endEncoding": "v",
    "setComputePipelineState:": "v @", "setBuffer:offset:atIndex:": "v @ Q Q",
    "setBytes:length:atIndex:": "v n^v Q Q",
    "dispatchThreadgroups:threadsPerThreadgroup:": f"v {SIZE} {SIZE}",
    "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:": "v @ Q @ Q Q",
    "setFastMathEnabled:": "v Z",
    "initWithDevice:transposeLeft:transposeRight:resultRows:resultColumns:interiorColumns:alpha:"
    "beta:": "@ @ Z Z Q Q Q d d",
}
LISTED_BY_NAME = {
    "matrixDescriptorWithRows:columns:matrices:rowBytes:matrixBytes:dataType:": "@ Q Q Q Q Q I",
    "initWithBuffer:offset:descriptor:": "@ @ Q @",
}
UNLISTED = {
    "setLanguageVersion:": "v Q", "setMathMode:": "v q", "alloc": "@", "init": "@",
    "localizedDescription": "@",
    "encodeToCommandBuffer:leftMatrix:rightMatrix:resultMatrix:": "v @ @ @ @",
}
CONSTANTS = {
    "MTLResourceStorageModeShared": 0, "MTLPurgeableStateEmpty": 4, "MTLMathModeSafe": 0,
    "MTLLanguageVersion2_4": 131076, "MTLCommandBufferStatusNotEnqueued": 0,
    "MTLCommandBufferStatusCommitted": 2, "MTLCommandBufferStatusCompleted": 4,
    "MTLCommandBufferStatusError": 5, "MPSDataTypeFloat32": 268435488,
}
_ALL = {**SELECTORS, **LISTED_BY_NAME, **UNLISTED}

# How often what was called: "new" objects, "alloc" objects, launches, commits, waits, and
# autoreleased objects that were made outside of an autorelease pool.
counts: Counter[str] = Counter()


class Misuse(Exception):
    """The host code did what Metal or PyObjC does not allow."""


def check(selector, arguments):
    """Refuse arguments that PyObjC could not pass to a selector."""
    _, *types = _ALL[selector].split()
    if len(arguments) != len(types):
        raise Misuse(f"{selector} takes {len(types)} arguments, got {len(arguments)}")
    for i, (value, type_) in enumerate(zip(arguments, types, strict=True)):
        wrong = f"argument {i} of {selector} cannot be {value!r:.80}"
        if type_ in ("Q", "q", "I"):
            if type(value) is not int or (type_ != "q" and value < 0) or value >= 2**63:
                raise Misuse(f"{wrong}: an integer is expected")
        elif type_ == "Z":
            if type(value) is not bool:
                raise Misuse(f"{wrong}: a bool is expected")
        elif type_ == "d":
            if type(value) not in (int, float):
                raise Misuse(f"{wrong}: a number is expected")
        elif type_ == SIZE:
            if not isinstance(value, tuple) or len(value) != 3 or \
                    any(type(n) is not int or n < 0 for n in value):
                raise Misuse(f"{wrong}: three integers are expected")
        elif type_ == "n^v":
            if memoryview(value).nbytes != arguments[i + 1]:
                raise Misuse(f"{wrong}: it has {memoryview(value).nbytes} bytes")
        elif type_ == "o^@":
            if value is not None:
                raise Misuse(f"{wrong}: None is expected where an error comes back")
        elif not (value is None or isinstance(value, (Object, str))):
            raise Misuse(f"{wrong}: an object is expected")


class Object:
    """An Objective-C object as PyObjC shows it: a_b_(x, y) calls the selector a:b:."""

    def __init_subclass__(cls):
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and callable(method):
                setattr(cls, name, _checked(name, method))

    def __getattr__(self, name):
        selector = name.replace("_", ":")
        raise AttributeError(f"{type(self).__name__} does not respond to {selector}"
                             if selector in _ALL else f"there is no selector {selector}")


def _checked(name, method):
    selector = name.replace("_", ":")
    if selector not in _ALL:
        raise TypeError(f"{name} is not in the table of selectors")

    def call(self, *arguments):
        check(selector, arguments)
        if selector.startswith("new"):
            counts["new"] += 1
        return method(self, *arguments)

    return call
