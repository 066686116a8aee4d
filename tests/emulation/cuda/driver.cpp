/* The calls of the CUDA driver that pycuda makes for minidl, over machine.cpp.
 *
 * Streams are lazy: work that is queued runs when somebody waits for it, and not before, so a host
 * that forgets to wait sees old values. What goes wrong inside a kernel is reported, as by a GPU, by
 * a later call, and by every call after that. */
#include "state.h"

#include <cstring>

static Context primary;
static thread_local std::vector<Context *> current;
static std::map<void *, size_t> pinned;

#define ENTER \
    Lock lock(door); \
    if (current.empty()) return refuse(CUDA_ERROR_INVALID_CONTEXT, "no context on this thread")

/* ------------------------------------------------------------------- device and contexts */

API CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

API CUresult cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

API CUresult cuGetErrorString(CUresult error, const char **text) {
    static thread_local std::string kept;
    kept = "error " + std::to_string(error) + (error ? ": " + detail : "");
    *text = kept.c_str();
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int n, CUdevice) {
    snprintf(name, n, "CPU running PTX");
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 1; break;
    default: return refuse(CUDA_ERROR_NOT_SUPPORTED, "an attribute the emulator does not have");
    }
    return CUDA_SUCCESS;
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
    *major = 8, *minor = 0;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
    *bytes = capacity;
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
    *context = (CUcontext)&primary;
    return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }

API CUresult cuCtxPushCurrent_v2(CUcontext context) {
    current.push_back((Context *)context);
    return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (current.empty()) return refuse(CUDA_ERROR_INVALID_CONTEXT, "no context to pop");
    if (context) *context = (CUcontext)current.back();
    current.pop_back();
    return CUDA_SUCCESS;
}

API CUresult cuCtxDetach(CUcontext) { return CUDA_SUCCESS; }

API CUresult cuCtxSetCurrent(CUcontext context) {
    if (!current.empty()) current.pop_back();
    if (context) current.push_back((Context *)context);
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current.empty() ? nullptr : (CUcontext)current.back();
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER;
    *device = 0;
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetApiVersion(CUcontext, unsigned *version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize() {
    ENTER;
    counters.waits++;
    drain_all();
    return state();
}

/* --------------------------------------------------------------------------------- memory */

API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t n) {
    ENTER;
    counters.allocations++;
    if (!n) return refuse(CUDA_ERROR_INVALID_VALUE, "an allocation of no bytes");
    if (n > capacity - used) return refuse(CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
    *pointer = allocate(n);
    return *pointer ? state() : refuse(CUDA_ERROR_OUT_OF_MEMORY, "out of addresses");
}

API CUresult cuMemFree_v2(CUdeviceptr pointer) {
    ENTER;
    counters.frees++;
    counters.waits++;
    drain_all();
    const auto found = blocks.find(pointer);
    if (found == blocks.end()) return refuse(CUDA_ERROR_INVALID_VALUE, "free of what is not there");
    memory.mark(pointer, found->second, NONE);
    used -= found->second;
    blocks.erase(found);
    return state();
}

API CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    *available = capacity - used;
    *total = capacity;
    return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void **pointer, size_t n, unsigned) {
    ENTER;
    *pointer = malloc(n);
    pinned[*pointer] = n;
    return CUDA_SUCCESS;
}

API CUresult cuMemFreeHost(void *pointer) {
    Lock lock(door);
    drain_all();
    pinned.erase(pointer);
    free(pointer);
    return CUDA_SUCCESS;
}

/* Pageable memory of the host is read before the call returns, pinned memory when it is its turn. */
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
    ENTER;
    counters.uploads++;
    if (!owned(to, n)) return refuse(CUDA_ERROR_INVALID_VALUE, "upload outside an allocation");
    auto above = pinned.upper_bound((void *)from);
    const bool late = above != pinned.begin() &&
                      (char *)from < (char *)std::prev(above)->first + std::prev(above)->second;
    auto staged = std::make_shared<std::string>(late ? 0 : n, '\0');
    if (!late) memcpy(&(*staged)[0], from, n);
    return queue(stream, [=] {
        memory.wrote(to, n);
        memcpy((void *)to, late ? from : staged->data(), n);
    });
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    ENTER;
    counters.downloads++;
    if (!owned(from, n)) return refuse(CUDA_ERROR_INVALID_VALUE, "download outside an allocation");
    return queue(stream, [=] {
        if (!memory.inside(from, n)) throw Fault{700, "download of memory that was given back"};
        memcpy(to, (void *)from, n);
    });
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    ENTER;
    if (!owned(to, n) || !owned(from, n))
        return refuse(CUDA_ERROR_INVALID_VALUE, "copy outside an allocation");
    return queue(stream, [=] { memory.move(to, from, n); });
}

/* -------------------------------------------------------------------------------- streams */

API CUresult cuStreamCreate(CUstream *stream, unsigned) {
    ENTER;
    Stream *made = new Stream;
    streams.insert(made);
    *stream = (CUstream)made;
    return state();
}

API CUresult cuStreamDestroy_v2(CUstream stream) {
    Lock lock(door);
    if (!streams.erase((Stream *)stream)) return CUDA_ERROR_INVALID_HANDLE;
    drain(*(Stream *)stream);
    delete (Stream *)stream;
    return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream stream) {
    ENTER;
    counters.waits++;
    if (streams.count((Stream *)stream)) drain(*(Stream *)stream);
    else drain_all();
    return state();
}

/* ----------------------------------------------------------------------- modules, launches */

API CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned, CUjit_option *, void **) {
    ENTER;
    counters.modules++;
    if (!memchr(image, '.', 4096) || !strstr((const char *)image, ".version"))
        return refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "only PTX text can run here");
    std::unique_ptr<Module> module(new Module);
    if (!decoder || !decoder((const char *)image, module.get())) return CUDA_ERROR_INVALID_PTX;
    *out = (CUmodule)module.release();
    return state();
}

API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}

/* Kernels may still be queued: a module stays as long as the process. */
API CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }

API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    ENTER;
    auto &kernels = ((Module *)module)->kernels;
    const auto found = kernels.find(name);
    if (found == kernels.end()) return refuse(CUDA_ERROR_NOT_FOUND, std::string("no ") + name);
    *function = (CUfunction)found->second.get();
    return CUDA_SUCCESS;
}

API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    const Kernel *kernel = (Kernel *)function;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = kernel->threads; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = kernel->shared_bytes; break;
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

/* pycuda calls it before each launch, which says the same again. */
API CUresult cuFuncSetBlockShape(CUfunction, int, int, int) { return CUDA_SUCCESS; }

API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream, void **,
                            void **extra) {
    ENTER;
    const Kernel *kernel = (Kernel *)function;
    counters.launches++;
    if (!gx || !gy || !gz || gx > 0x7fffffffu || gy > 65535 || gz > 65535)
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name + ": the grid is empty or too large");
    if (by != 1 || bz != 1 || !bx || (int)bx > kernel->threads || shared)
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      kernel->name + ": too many threads for its launch bounds");
    std::string params;
    const char *buffer = nullptr;
    size_t n = 0;
    for (void **e = extra; e && *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = (const char *)e[1];
        if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE) n = *(size_t *)e[1];
    }
    if (!buffer || n != (size_t)kernel->param_bytes)
        return refuse(CUDA_ERROR_INVALID_VALUE, kernel->name + ": " + std::to_string(n) +
                      " bytes of arguments, the kernel takes " + std::to_string(kernel->param_bytes));
    params.assign(buffer, n);
    return queue(stream, [=] {
        const uint32_t grid[3] = {gx, gy, gz};
        launch(*kernel, grid, bx, params.data());
    });
}
