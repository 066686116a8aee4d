#include "state.h"

std::recursive_mutex door;
Counters counters;
std::map<uint64_t, size_t> blocks;
std::set<Stream *> streams;
size_t capacity = size_t(512) << 20, used = 0;
int broken = 0;
std::string detail;
bool (*decoder)(const char *, Module *);
static Stream default_stream;
static uint64_t cursor = 0;

static void run(const Work &work) {
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
CUresult queue(CUstream handle, std::function<void()> work, bool always) {
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

static bool free_between(uint64_t begin, uint64_t end) {
    auto found = blocks.lower_bound(begin);
    if (found != blocks.end() && found->first < end) return false;
    return found == blocks.begin() || (--found)->first + found->second <= begin;
}

/* The next free addresses, so that what was freed is not used again soon; 0 when there are none. */
static uint64_t room(size_t n) {
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
