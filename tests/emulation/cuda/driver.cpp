/* The calls of the CUDA driver that pycuda makes for minidl, over machine.cpp.
 *
 * Streams are lazy: work that is queued runs when somebody waits for it, and not before, so a host
 * that forgets to wait sees old values. What goes wrong inside a kernel is reported, as by a GPU, by
 * a later call, and by every call after that. Functions beginning with emu_ are for the tests. */
#include <cuda.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "machine.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

struct Work {
    std::function<void()> run;
    bool always;  /* also after an error */
};

struct Stream {
    std::deque<Work> queued;
};

struct Module {
    std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

struct Context {};

/* What the tests count. */
struct Counters {
    int64_t launches, products, allocations, frees, uploads, downloads, waits, modules;
    int64_t default_stream;  /* work queued on the default stream, which waits for all others */
} counters;

std::recursive_mutex door;
Context primary;
thread_local std::vector<Context *> current;
std::map<uint64_t, size_t> blocks;  /* address and size of what is allocated */
std::map<void *, size_t> pinned;
std::set<Stream *> streams;
Stream default_stream;
size_t capacity = size_t(512) << 20, used = 0;
uint64_t cursor = 0;
int broken = 0;  /* the error that a kernel left; the context is lost with it */
std::string detail;
bool (*decoder)(const char *, Module *);

typedef std::lock_guard<std::recursive_mutex> Lock;

void run(const Work &work) {
    if (broken && !work.always) return;
    try {
        work.run();
    } catch (const Fault &fault) {
        broken = fault.code;
        detail = fault.message;
    }
}

void drain(Stream &stream) {
    while (!stream.queued.empty()) {
        const Work work = std::move(stream.queued.front());
        stream.queued.pop_front();
        run(work);
    }
}

void drain_all() {
    for (Stream *s : streams) drain(*s);
    drain(default_stream);
}

CUresult refuse(CUresult code, const std::string &why) {
    detail = why;
    return code;
}

CUresult state() { return CUresult(broken); }

/* Queues work. What is on the default stream of CUDA begins after everything before it and ends
 * before everything after it. */
CUresult queue(CUstream handle, std::function<void()> work, bool always = false) {
    if (broken && !always) return state();
    Stream *stream = (Stream *)handle;
    if (!streams.count(stream)) {
        if (handle) return refuse(CUDA_ERROR_INVALID_HANDLE, "this is no stream");
        counters.default_stream++;
        for (Stream *s : streams) drain(*s);
        stream = &default_stream;
    } else {
        drain(default_stream);
    }
    stream->queued.push_back({std::move(work), always});
    return CUDA_SUCCESS;
}

bool owned(uint64_t address, size_t n) {
    auto found = blocks.upper_bound(address);
    if (found == blocks.begin()) return false;
    --found;
    return address + n <= found->first + found->second;
}

bool free_between(uint64_t begin, uint64_t end) {
    auto found = blocks.lower_bound(begin);
    if (found != blocks.end() && found->first < end) return false;
    return found == blocks.begin() || (--found)->first + found->second <= begin;
}

/* The next free addresses, so that what was freed is not used again soon; 0 when there are none. */
uint64_t room(size_t n) {
    const uint64_t base = (uint64_t)memory.base(), page = 4096;
    const uint64_t length = (n + page - 1) / page * page + page;
    for (int round = 0; round < 2; round++) {
        for (; cursor + length < Memory::SIZE; cursor += page)
            if (free_between(base + cursor, base + cursor + length)) {
                cursor += length;
                return base + cursor - length;
            }
        cursor = 0;
    }
    return 0;
}

uint64_t allocate(size_t n) {
    const uint64_t address = room(n);
    if (!address) return 0;
    blocks[address] = n;
    used += n;
    memory.mark(address, n, FRESH);
    return address;
}

}  // namespace

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

/* ---------------------------------------------------------------------------- for the tests */

API void emu_decoder(bool (*call)(const char *, Module *)) { decoder = call; }

API uint64_t emu_global(Module *, const char *data, size_t n) {
    Lock lock(door);
    const uint64_t address = allocate(n);
    memcpy((void *)address, data, n);
    memory.wrote(address, n);
    return address;
}

API void emu_kernel(Module *module, const char *name, const Instruction *code, size_t lines,
                    const char *text, const Constant *constants, size_t constant_count,
                    const Range *shared, size_t shared_count, const int32_t *numbers) {
    std::unique_ptr<Kernel> made(new Kernel);
    made->name = name;
    made->code.assign(code, code + lines);
    for (size_t i = 0; i < lines; i++, text += strlen(text) + 1) made->text.push_back(text);
    made->constants.assign(constants, constants + constant_count);
    made->shared.assign(shared, shared + shared_count);
    made->file_bytes = numbers[0], made->shared_bytes = numbers[1];
    made->param_bytes = numbers[2], made->threads = numbers[3];
    memcpy(made->special, numbers + 4, sizeof made->special);
    module->kernels[name] = std::move(made);
}

API void emu_detail(const char *text) { detail = text; }
API void emu_seed(uint32_t value) { set_seed(value); }
API void emu_capacity(size_t bytes) { capacity = bytes; }
API Counters *emu_counters() { return &counters; }

/* Says, in the order of the stream, what bytes are: of nobody, fresh, written, free to race. */
API int emu_mark(CUstream stream, uint64_t address, size_t n, int what) {
    Lock lock(door);
    return queue(stream, [=] { memory.mark(address, n, State(what)); }, true);
}

/* Forgets the error that a kernel left, and what was queued behind it. */
API void emu_forget() {
    Lock lock(door);
    if (broken) drain_all();
    broken = 0;
}

/* For the stand-in of cuBLAS: a product on a stream. */
API int emu_queue(void *stream, void (*call)(void *), void *argument) {
    Lock lock(door);
    counters.products++;
    return queue((CUstream)stream, [=] { call(argument); });
}

API bool emu_owned(const void *pointer, size_t n) {
    Lock lock(door);
    return owned((uint64_t)pointer, n);
}

API void emu_reads(const void *pointer, size_t n) { memory.read((uint64_t)pointer, n, "cublasSgemm"); }
API void emu_writes(void *pointer, size_t n) { memory.wrote((uint64_t)pointer, n); }
