/* Runs a compiled Metal kernel on the CPU: one fibre a GPU thread, one threadgroup after the other.
 *
 * Kernels are compiled with -fsanitize=thread,bounds, whose calls are answered here instead of by
 * the sanitizers' own libraries. So every access to memory is looked at before it happens: it must
 * lie in a buffer of the launch or an array of the kernel, must not read threadgroup memory that
 * nobody wrote, and must not touch what another thread writes or reads without a barrier between
 * the two. threadgroup_barrier and simd_shuffle_xor switch fibres: a thread really waits for the
 * others there.
 */
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace {

enum State : uint8_t { READY, AT_BARRIER, AT_SHUFFLE, DONE };

const size_t STACK = 128 << 10;
const uint32_t SIMD = 32;

struct Fibre {
    jmp_buf at;
    char *stack;
    State state;
    bool started;
    bool device_memory; /* the barrier it waits at orders device memory too */
    uint32_t ids[9];    /* thread in threadgroup, threadgroup in grid, threadgroups: x, y, z each */
    float given[2];     /* to the last shuffles: one may be read while the next is given */
    uint32_t lanes, shuffles;
};

typedef void (*Kernel)(const uint64_t *arguments, const uint32_t *ids);

std::vector<Fibre> fibres;
Fibre *current;
ucontext_t fibre_context;
jmp_buf scheduler, failure;
Kernel kernel;
const uint64_t *arguments;
uint32_t count, block, launch_serial, block_serial, epoch, device_epoch;
bool running;
char message[512];

[[noreturn]] void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = snprintf(message, sizeof message, "thread %u of threadgroup (%u, %u, %u): ",
                     current->ids[0], current->ids[3], current->ids[4], current->ids[5]);
    vsnprintf(message + n, sizeof message - n, format, list);
    va_end(list);
    longjmp(failure, 1);
}

void settle(); /* what this thread wrote last; in accesses.h */

/* ------------------------------------------------------------------------------------- fibres */

void pause() {
    settle();
    if (!_setjmp(current->at)) _longjmp(scheduler, 1);
}

void body() {
    kernel(arguments, current->ids);
    settle();
    current->state = DONE;
    _longjmp(scheduler, 1);
}

void resume(Fibre &fibre) {
    current = &fibre;
    if (_setjmp(scheduler)) return;
    if (fibre.started) _longjmp(fibre.at, 1);
    fibre.started = true;
    getcontext(&fibre_context);
    fibre_context.uc_stack.ss_sp = fibre.stack;
    fibre_context.uc_stack.ss_size = STACK;
    fibre_context.uc_link = nullptr;
    makecontext(&fibre_context, body, 0);
    setcontext(&fibre_context);
}

/* Let the threads of every simdgroup go on whose threads all came to a shuffle. */
bool release_shuffles() {
    bool any = false;
    for (uint32_t first = 0; first < count; first += SIMD) {
        const uint32_t end = first + SIMD < count ? first + SIMD : count;
        uint32_t waiting = 0, finished = 0;
        for (uint32_t i = first; i < end; i++) {
            waiting += fibres[i].state == AT_SHUFFLE;
            finished += fibres[i].state == DONE;
        }
        if (!waiting) continue;
        current = &fibres[first];
        if (waiting != end - first)
            fail("%u of the %u threads of its simdgroup are at a shuffle (%u have ended)", waiting,
                 end - first, finished);
        for (uint32_t i = first; i < end; i++) {
            const uint32_t partner = first + ((i - first) ^ fibres[i].lanes);
            if (fibres[i].lanes != fibres[first].lanes) fail("a shuffle by different lanes");
            if (partner >= end) fail("a shuffle with lane %u of %u", partner - first, end - first);
        }
        for (uint32_t i = first; i < end; i++) fibres[i].state = READY;
        any = true;
    }
    return any;
}

/* All threads wait or have ended: open the barrier if all of them are at it. */
void release_barrier() {
    uint32_t waiting = 0;
    for (Fibre &fibre : fibres) waiting += fibre.state == AT_BARRIER;
    for (Fibre &fibre : fibres)
        if (fibre.state == AT_BARRIER && waiting != count) {
            current = &fibre;
            fail("is at a barrier that %u of %u threads do not reach", count - waiting, count);
        }
    epoch++;
    device_epoch += fibres[0].device_memory;
    for (Fibre &fibre : fibres) fibre.state = READY;
}

void run_threadgroup(const uint32_t position[3], const uint32_t grid[3]) {
    block_serial++;
    epoch = device_epoch = 0;
    for (uint32_t i = 0; i < count; i++) {
        Fibre &fibre = fibres[i];
        const uint32_t ids[9] = {i, 0, 0, position[0], position[1], position[2],
                                 grid[0], grid[1], grid[2]};
        memcpy(fibre.ids, ids, sizeof ids);
        fibre.state = READY;
        fibre.started = false;
        fibre.shuffles = 0;
    }
    for (uint32_t round = 0, left = count; left; round++) {
        for (uint32_t i = 0; i < count; i++) { /* forwards, then backwards: order must not matter */
            Fibre &fibre = fibres[round & 1 ? count - 1 - i : i];
            if (fibre.state != READY) continue;
            resume(fibre);
            left -= fibre.state == DONE;
        }
        if (left && !release_shuffles()) release_barrier();
    }
}

} // namespace

#include "accesses.h"

/* -------------------------------------------------------------------------- called from Python */

extern "C" const char *error() { return message; }

/* Run `threads` threads in each of the grid's threadgroups; 0, or 1 and error(). */
extern "C" int launch(Kernel function, const uint64_t *values, const uint32_t *grid,
                      uint32_t threads, const Region *first, uint32_t region_count) {
    while (fibres.size() < threads) {
        Fibre fibre = {};
        fibre.stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        fibres.push_back(fibre);
    }
    while (fibres.size() > threads) {
        munmap(fibres.back().stack, STACK);
        fibres.pop_back();
    }
    kernel = function, arguments = values, count = threads;
    regions.assign(first, first + region_count);
    launch_serial++;
    running = true;
    twice.region = nullptr;
    const int failed = _setjmp(failure);
    if (!failed) {
        block = 0;
        for (uint32_t z = 0; z < grid[2]; z++)
            for (uint32_t y = 0; y < grid[1]; y++)
                for (uint32_t x = 0; x < grid[0]; x++, block++) {
                    for (Region &region : regions) /* garbage is NaN */
                        if (region.threadgroup)
                            memset((void *)region.begin, 0xff, region.end - region.begin);
                    const uint32_t position[3] = {x, y, z};
                    run_threadgroup(position, grid);
                }
    }
    running = false;
    return failed;
}

/* A record of every word of so many bytes; pages that are never looked at take no memory. */
extern "C" void *words(size_t bytes) {
    void *made = mmap(nullptr, (bytes + 3) / 4 * sizeof(Word), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return made == MAP_FAILED ? nullptr : made;
}

extern "C" void forget(void *made, size_t bytes) { munmap(made, (bytes + 3) / 4 * sizeof(Word)); }

/* ------------------------------------------------------------------ what kernels are linked to */

namespace metal {
enum class mem_flags { mem_none, mem_device, mem_threadgroup };

void threadgroup_barrier(mem_flags flags) {
    current->state = AT_BARRIER;
    current->device_memory = flags == mem_flags::mem_device;
    pause();
}

float simd_shuffle_xor(float value, uint16_t lanes) {
    const uint32_t turn = current->shuffles++ & 1, self = current->ids[0];
    current->given[turn] = value;
    current->lanes = lanes;
    current->state = AT_SHUFFLE;
    pause();
    return fibres[self - self % SIMD + (self % SIMD ^ lanes)].given[turn];
}

float fabs(float x) { return std::fabs(x); }
float sqrt(float x) { return std::sqrt(x); }
float rint(float x) { return std::rint(x); }
float floor(float x) { return std::floor(x); }
float ceil(float x) { return std::ceil(x); }
float trunc(float x) { return std::trunc(x); }
float fmod(float x, float y) { return std::fmod(x, y); }
float pow(float x, float y) { return std::pow(x, y); }
float copysign(float x, float y) { return std::copysign(x, y); }
float fma(float x, float y, float z) { return std::fma(x, y, z); }
uint32_t mulhi(uint32_t x, uint32_t y) { return (uint32_t)((uint64_t)x * y >> 32); }
} // namespace metal
