/* The memory of the device and of a block, reserved once and taken page by page. */
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "machine.h"
#include "shadow.h"

Memory memory;

static void *reserve(size_t n) {
    void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw Fault{2, "the emulator cannot reserve address space"};
    return p;
}

Shadow &device() {
    static Shadow s = {(char *)reserve(Memory::SIZE), Memory::SIZE,
                       (uint8_t *)reserve(Memory::SIZE),
                       (Cell *)reserve(Memory::SIZE * sizeof(Cell))};
    return s;
}

Shadow &shared_memory() {
    const size_t n = 1 << 18;
    static Shadow s = {(char *)reserve(n), 0, (uint8_t *)reserve(n),
                       (Cell *)reserve(n * sizeof(Cell))};
    return s;
}

char *Memory::base() { return device().base; }

bool Memory::inside(uint64_t address, size_t n) {
    const u64 at = address - (u64)device().base;
    if (at > SIZE || n > SIZE - at) return false;
    return !n || !memchr(device().state + at, NONE, n);
}

void Memory::mark(uint64_t address, size_t n, State state) {
    memset(device().state + (address - (u64)device().base), state, n);
}

void Memory::read(uint64_t address, size_t n, const char *what) {
    if (!inside(address, n)) throw Fault{700, std::string(what) + ": out of bounds: read"};
    if (memchr(device().state + (address - (u64)device().base), FRESH, n))
        throw Fault{700, std::string(what) + ": uninitialised memory is read"};
}

void Memory::wrote(uint64_t address, size_t n) {
    if (!inside(address, n)) throw Fault{700, "out of bounds: write"};
    uint8_t *state = device().state + (address - (u64)device().base);
    for (size_t i = 0; i < n; i++) state[i] = std::max<uint8_t>(state[i], WRITTEN);
}

void Memory::move(uint64_t to, uint64_t from, size_t n) {
    if (!inside(to, n) || !inside(from, n)) throw Fault{700, "copy out of bounds"};
    memmove((void *)to, (void *)from, n);
    uint8_t *state = device().state;
    const u64 base = (u64)device().base;
    memmove(state + (to - base), state + (from - base), n);
}
