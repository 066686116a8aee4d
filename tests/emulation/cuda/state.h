/* What the stand-in driver remembers: streams, allocations, the error that a kernel left. */
#pragma once
#include <cuda.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "machine.h"

#define API extern "C" __attribute__((visibility("default")))

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
};

extern std::recursive_mutex door;
typedef std::lock_guard<std::recursive_mutex> Lock;
extern Counters counters;
extern std::map<uint64_t, size_t> blocks;  /* address and size of what is allocated */
extern std::set<Stream *> streams;
extern size_t capacity, used;
extern int broken;  /* the error that a kernel left; the context is lost with it */
extern std::string detail;
extern bool (*decoder)(const char *, Module *);

void drain(Stream &stream);
void drain_all();
CUresult refuse(CUresult code, const std::string &why);
CUresult state();
CUresult queue(CUstream handle, std::function<void()> work, bool always = false);
bool owned(uint64_t address, size_t n);
uint64_t allocate(size_t n);  /* 0 when there is no room */
