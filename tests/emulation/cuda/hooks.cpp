/* What the tests use beside the driver's own functions (emulated.py), and what cublas.cpp needs. */
#include <cstring>

#include "state.h"

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
