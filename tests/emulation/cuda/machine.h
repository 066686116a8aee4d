/* A machine that runs decoded PTX on the CPU and looks at every access to memory.
 *
 * A warp of 32 lanes executes one instruction at a time for the lanes that stand at it. Registers,
 * constants and special registers of a warp lie in one file of bytes, 32 values beside each other,
 * so an operand is a place in that file. Every byte of device and shared memory has a state, and
 * every word remembers who wrote and who read it last since the last barrier: that finds what a GPU
 * would do wrong silently, whatever the order in which threads happened to run. */
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

enum Opcode : uint32_t {
    BRA, BRA_IF, BRA_UNLESS, RET, BAR, SHFL_BFLY, LD, ST,
#define OP1(name, ...) OP_##name,
#define OP2(name, ...) OP_##name,
#define OP3(name, ...) OP_##name,
#define OP4(name, ...) OP_##name,
#include "ops.h"
#undef OP1
#undef OP2
#undef OP3
#undef OP4
};

enum Space { PARAM, SHARED, GLOBAL, GLOBAL_NC };

/* Operands are places in the register file. LD and ST: d value, a address, b what is added to it,
 * c = space | bytes << 4 | sign-extended << 8 | bytes of the register << 12. BRA: d target, a
 * predicate. SHFL_BFLY: d, predicate e, source a, lane mask b, bounds c, members f. */
struct Instruction {
    uint32_t op;
    int32_t d, a, b, c, e, f;
};

struct Constant {  /* a number that lies in the register file, the same for all lanes */
    int32_t place, bytes;
    uint64_t value;
};

struct Range {
    int32_t begin, end;
};

struct Kernel {
    std::string name;
    std::vector<Instruction> code;
    std::vector<std::string> text;  /* the PTX of each instruction, for messages */
    std::vector<Constant> constants;
    std::vector<Range> shared;  /* the variables in shared memory, with gaps between them */
    int32_t file_bytes, shared_bytes, param_bytes, threads;
    int32_t special[7];  /* where %tid.x, %ctaid.xyz, %nctaid.xyz lie, -1 where not used */
};

struct Fault {
    int code;  /* a CUresult */
    std::string message;
};

/* What a byte of memory is: of nobody, not written yet, written, written and free to race. */
enum State : uint8_t { NONE = 0, FRESH = 1, WRITTEN = 2, RACY = 3 };

struct Memory {
    static constexpr size_t SIZE = size_t(1) << 30;  /* reserved, taken page by page when used */
    char *base();
    bool inside(uint64_t address, size_t n);  /* all of it belongs to somebody */
    void mark(uint64_t address, size_t n, State state);
    void read(uint64_t address, size_t n, const char *what);  /* throws unless written */
    void wrote(uint64_t address, size_t n);
    void move(uint64_t to, uint64_t from, size_t n);  /* bytes and their states */
};

extern Memory memory;
void set_seed(uint32_t seed);  /* 0: threads in order; else blocks, warps and lanes shuffled */
/* Runs a grid of blocks; throws a Fault. */
void launch(const Kernel &kernel, const uint32_t grid[3], uint32_t threads, const char *params);
