/* What every access to memory must satisfy, and the calls of clang's sanitizers that tell of them.
 * Part of engine.cpp, which defines the current thread, its threadgroup and how to fail. */

namespace {

/* What a word of memory has seen: who wrote and who read it last, in which launch (of device
 * memory) or threadgroup (of threadgroup memory), after how many barriers. */
struct Word {
    uint32_t written_in, writer, read_in, reader;
    uint32_t write_epoch, read_epoch;
    uint8_t bytes;   /* of the word, written last */
    uint8_t readers; /* since that write: ONE, or several THREADS or THREADGROUPS */
};

struct Region {
    const char *name;
    uintptr_t begin, end;
    uintptr_t unchecked_begin, unchecked_end; /* where threads may meet on purpose */
    Word *words; /* null for a value, which is only read */
    uint32_t threadgroup;
};

std::vector<Region> regions; /* of the current launch */

enum Readers : uint8_t { ONE, THREADS, THREADGROUPS };
[[noreturn]] void race(const Region &region, uintptr_t at, const char *what, uint32_t other,
                       const char *did) {
    fail("%s byte %zu of %s, which thread %u of threadgroup %u %s without a barrier between", what,
         (size_t)(at - region.begin), region.name, other % count, other / count, did);
}

/* Several threads may write the same value to a place. What a write puts there is seen after it. */
struct {
    const Region *region;
    uintptr_t at;
    size_t size;
    uint32_t writer;
    uint8_t value[16];
} twice;

void settle() {
    const Region *region = twice.region;
    twice.region = nullptr;
    if (region && memcmp((void *)twice.at, twice.value, twice.size))
        race(*region, twice.at, "writes", twice.writer, "wrote");
}

/* Whether thread `other` was there before a barrier that the current thread has passed. */
bool ordered(uint32_t other, uint32_t other_epoch, uint32_t now) {
    return other / count == block && other_epoch < now;
}

void note_read(Word &word, uint32_t serial, uint32_t self, uint32_t now) {
    if (word.read_in == serial && word.readers != THREADGROUPS) {
        if (word.reader / count != block) word.readers = THREADGROUPS;
        else if (word.read_epoch != now) word.readers = ONE;
        else if (word.reader != self) word.readers = THREADS;
    } else if (word.read_in != serial) {
        word.readers = ONE;
    }
    word.read_in = serial, word.reader = self, word.read_epoch = now;
}

void note_write(Word &word, uint32_t serial, uint32_t self, uint32_t now, uint8_t bytes) {
    const bool mine = word.written_in == serial && word.writer == self;
    word.bytes = mine ? word.bytes | bytes : bytes;
    word.written_in = serial, word.writer = self, word.write_epoch = now;
    word.read_in = 0;
}

/* One word of a region is about to be read or written, or some bytes of it. */
void look(Region &region, uintptr_t at, uint32_t size, bool write) {
    const uint8_t bytes = (uint8_t)(((1u << size) - 1) << (at & 3));
    Word &word = region.words[(at - region.begin) / 4];
    const uint32_t serial = region.threadgroup ? block_serial : launch_serial;
    const uint32_t now = region.threadgroup ? epoch : device_epoch;
    const uint32_t self = block * count + current->ids[0];
    const bool written = word.written_in == serial;
    if (!write && !written && region.threadgroup)
        fail("reads byte %zu of %s, which no thread has written", (size_t)(at - region.begin),
             region.name);
    if (written && word.writer != self && word.bytes & bytes
        && !ordered(word.writer, word.write_epoch, now)) {
        if (!write) race(region, at, "reads", word.writer, "wrote");
        twice.region = &region, twice.writer = word.writer;
    }
    if (!write) {
        note_read(word, serial, self, now);
        return;
    }
    if (word.read_in == serial && (word.readers != ONE || word.reader != self)
        && (word.readers == THREADGROUPS || !ordered(word.reader, word.read_epoch, now)))
        race(region, at, "writes", word.reader, "read");
    note_write(word, serial, self, now, bytes);
}

void access(void *address, size_t size, bool write) {
    if (!running) return;
    settle();
    const uintptr_t at = (uintptr_t)address;
    if (at - (uintptr_t)current->stack < STACK) return;
    for (Region &region : regions) {
        if (at < region.begin || at >= region.end) continue;
        if (at + size > region.end) break;
        if (!region.words && write) fail("writes to %s, which is a value", region.name);
        if (!region.words || (at >= region.unchecked_begin && at < region.unchecked_end)) return;
        for (uintptr_t p = at, next; p < at + size; p = next) {
            next = (p & ~(uintptr_t)3) + 4;
            look(region, p, (uint32_t)((next < at + size ? next : at + size) - p), write);
        }
        twice.at = at, twice.size = size < sizeof twice.value ? size : sizeof twice.value;
        if (twice.region) memcpy(twice.value, address, twice.size);
        return;
    }
    const Region *below = nullptr;
    for (Region &region : regions)
        if (region.begin <= at && (!below || region.begin > below->begin)) below = &region;
    if (below)
        fail("%s %zu bytes at byte %zu of %s, which has %zu", write ? "writes" : "reads", size,
             (size_t)(at - below->begin), below->name, (size_t)(below->end - below->begin));
    fail("%s %zu bytes that belong to no argument", write ? "writes" : "reads", size);
}

} // namespace

#define ACCESS(bytes) \
    extern "C" void __tsan_read##bytes(void *p) { access(p, bytes, false); } \
    extern "C" void __tsan_write##bytes(void *p) { access(p, bytes, true); } \
    extern "C" void __tsan_unaligned_read##bytes(void *p) { access(p, bytes, false); } \
    extern "C" void __tsan_unaligned_write##bytes(void *p) { access(p, bytes, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void *__tsan_memcpy(void *to, const void *from, size_t n) {
    access((void *)from, n, false);
    access(to, n, true);
    return memcpy(to, from, n);
}
extern "C" void *__tsan_memset(void *to, int value, size_t n) {
    access(to, n, true);
    return memset(to, value, n);
}
extern "C" void __ubsan_handle_out_of_bounds(void *, uintptr_t index) {
    fail("index %zd is outside its array", (intptr_t)index);
}
extern "C" void __ubsan_handle_divrem_overflow(void *, uintptr_t, uintptr_t) {
    fail("an integer is divided by zero");
}
