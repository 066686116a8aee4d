"""OpenCL through pyopencl: any GPU with a driver for it, and through PoCL any CPU."""

import os
import warnings

import numpy as np

from minidl_kernels.device.interface import Device

__all__ = ["OpenCLDevice", "open_device"]

# Never -cl-fast-relaxed-math: the formulas of scalar_math.h rely on the order of operations.
_OPTIONS = ["-cl-std=CL1.2", "-w"]


class OpenCLDevice(Device):
    """One OpenCL device: a context, a queue in order, kernels compiled on first use."""

    target = "opencl"

    def __init__(self, cl, device):
        self._cl = cl
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        self._programs = {}
        self.name = "opencl"
        self.description = f"{device.name.strip()} ({device.platform.name.strip()})"
        divide = "CORRECTLY_ROUNDED_DIVIDE_SQRT"
        precise = getattr(cl.device_fp_config, divide, 0) & device.single_fp_config
        self._options = _OPTIONS + (["-cl-fp32-correctly-rounded-divide-sqrt"] if precise else [])
        super().__init__()

    def alloc(self, nbytes):
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, nbytes)

    def free(self, segment):
        segment.release()

    def upload(self, x, values):
        # blocking: NumPy's memory may be gone or changed when the queue gets to it
        self._cl.enqueue_copy(self._queue, x.block.segment, values,
                              dst_offset=x.offset * x.itemsize, is_blocking=True)

    def download(self, values, x):
        self._cl.enqueue_copy(self._queue, values, x.block.segment,
                              src_offset=x.offset * x.itemsize, is_blocking=True)

    def compile(self, text, name, signature):
        program = self._programs.get(text)
        if program is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a compiler's remarks on correct code
                program = self._cl.Program(self._context, text).build(options=self._options)
            self._programs[text] = program
        return self._cl.Kernel(program, f"k_{name}")

    def run(self, function, grid, threads, args):
        i = 0
        for a in args:
            if type(a) is bytes:
                function.set_arg(i, a)
                i += 1
            else:
                function.set_arg(i, None if a is None else a.block.segment)
                function.set_arg(i + 1, np.int64(0 if a is None else a.offset))
                i += 2
        self._cl.enqueue_nd_range_kernel(self._queue, function, (grid[0] * threads, *grid[1:]),
                                         (threads, 1, 1))

    def synchronize(self):
        self._queue.finish()
        self.check()


def open_device():
    """The device that MINIDL_OPENCL names (a part of its name), else a GPU, else any: the first
    that can compile a kernel."""
    try:
        import pyopencl as cl
    except ImportError as error:
        raise ImportError("the device 'opencl' needs pyopencl: pip install 'minidl[opencl]' "
                          f"({error})") from None
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error as error:
        raise RuntimeError("no OpenCL platform was found; install your GPU's driver, or PoCL for "
                           f"the CPU: pip install 'pyopencl[pocl]' ({error})") from None
    wanted = os.environ.get("MINIDL_OPENCL", "").lower()
    fitting = [d for d in found if wanted in d.name.lower()]
    if not fitting:
        raise RuntimeError(f"no OpenCL device matches MINIDL_OPENCL={wanted!r}; there are: "
                           + ", ".join(d.name.strip() for d in found))
    fitting.sort(key=lambda d: d.type != cl.device_type.GPU)
    refused = []
    for device in fitting:
        opened = OpenCLDevice(cl, device)
        try:
            opened.compile("kernel void k_nothing(void) {}", "nothing", None)
        except cl.Error as error:
            words = [line for line in str(error).splitlines() if line.startswith("error: ")]
            refused.append(f"{opened.description} cannot compile a kernel "
                           f"({' '.join(words) or str(error).splitlines()[0]})")
        else:
            return opened
    raise RuntimeError("; ".join(refused) + ". PoCL does not know CPUs that are newer than itself: "
                       "install your GPU's driver, or Intel's OpenCL for x86-64 CPUs, pip install "
                       "intel-opencl-rt intel-cmplr-lib-rt (docs/devices.md says how it is found)")
