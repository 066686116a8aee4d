#include "machine.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "shadow.h"

namespace {

const u32 SEVERAL = ~0u;  /* in place of a thread's number */
u32 epoch = 1, seed = 0;
std::mt19937 random_bits;

struct Warp {
    u32 live, barrier, shuffle;  /* lanes that have not returned, that wait at a BAR, a SHFL */
    u32 pc[32];
    std::vector<char> file;
};

/* One block of a grid, from its start to the return of its last thread. */
class Block {
public:
    Block(const Kernel &kernel, const uint32_t *grid, u32 threads, const char *params)
        : kernel(kernel), grid(grid), threads(threads), params(params), warps((threads + 31) / 32) {}

    void run(u32 x, u32 y, u32 z, u32 first_epoch_of_launch) {
        place[0] = x, place[1] = y, place[2] = z;
        launch_epoch = first_epoch_of_launch;
        start();
        std::vector<u32> order(warps.size());
        std::iota(order.begin(), order.end(), 0);
        for (;;) {
            if (seed) std::shuffle(order.begin(), order.end(), random_bits);
            bool moved = false;
            for (u32 w : order) {
                /* with a seed a warp may be stopped anywhere, as on a GPU */
                long budget = seed ? 1 + random_bits() % 400 : std::numeric_limits<long>::max();
                while (budget > 0 && group(w, budget)) moved = true;
            }
            if (moved) continue;
            bool live = false;
            for (Warp &w : warps) live |= w.live != 0;
            if (!live) return;
            pass_barrier();
        }
    }

private:
    const Kernel &kernel;
    const uint32_t *grid;
    const u32 threads;
    const char *params;
    std::vector<Warp> warps;
    u32 place[3], launch_epoch, block_epoch;
    u32 thread = 0, pc = 0;  /* of the lane being executed, for messages */

    [[noreturn]] void fail(int code, const std::string &what) {
        throw Fault{code, kernel.name + ": " + what + " by thread " + std::to_string(thread) +
                    " of block (" + std::to_string(place[0]) + ", " + std::to_string(place[1]) +
                    ", " + std::to_string(place[2]) + ") in `" + kernel.text[pc] + "`"};
    }

    void start() {
        block_epoch = ++epoch;
        Shadow &shared = shared_memory();
        shared.size = kernel.shared_bytes;
        memset(shared.state, NONE, kernel.shared_bytes);
        for (const Range &r : kernel.shared) memset(shared.state + r.begin, FRESH, r.end - r.begin);
        for (size_t i = 0; i < warps.size(); i++) {
            Warp &w = warps[i];
            const u32 n = std::min<u32>(32, threads - 32 * i);
            w.live = n == 32 ? ~0u : (1u << n) - 1;
            w.barrier = w.shuffle = 0;
            std::fill(w.pc, w.pc + 32, 0);
            w.file.assign(kernel.file_bytes, 0);
            for (const Constant &c : kernel.constants)
                for (int l = 0; l < 32; l++) memcpy(&w.file[c.place + l * c.bytes], &c.value, c.bytes);
            const u32 values[7] = {0, place[0], place[1], place[2], grid[0], grid[1], grid[2]};
            for (int s = 0; s < 7; s++)
                for (u32 l = 0; l < 32 && kernel.special[s] >= 0; l++)
                    ((u32 *)&w.file[kernel.special[s]])[l] = s ? values[s] : 32 * i + l;
        }
    }

    void pass_barrier() {
        u32 at = ~0u;
        for (size_t i = 0; i < warps.size(); i++)
            if (warps[i].shuffle) {
                thread = 32 * i + __builtin_ctz(warps[i].shuffle);
                pc = warps[i].pc[thread % 32];
                fail(719, "a shuffle waits for lanes that do not come");
            }
        for (size_t i = 0; i < warps.size(); i++) {
            const u32 n = std::min<u32>(32, threads - 32 * i), all = n == 32 ? ~0u : (1u << n) - 1;
            for (u32 l = 0; l < n; l++) {
                if (!(warps[i].barrier >> l & 1)) continue;
                if (at == ~0u) at = warps[i].pc[l];
                thread = 32 * i + l, pc = warps[i].pc[l];
                if (pc != at) fail(719, "threads wait at different barriers");
            }
            if (warps[i].barrier != all) {
                thread = 32 * i + __builtin_ctz(~warps[i].barrier), pc = at == ~0u ? 0 : at;
                fail(719, "a barrier is not reached");
            }
        }
        epoch++;
        for (Warp &w : warps) {
            for (int l = 0; l < 32; l++) w.pc[l]++;
            w.barrier = 0;
        }
    }

    /* The bytes of an access, after all that can be wrong with it. `value` is what is written,
     * nullptr for a read. */
    char *access(Shadow &in, u64 address, int n, const char *value, bool constant) {
        const bool write = value != nullptr;
        const u64 at = address - (u64)(&in == &device() ? in.base : nullptr);
        if (at % n) fail(716, "misaligned access of " + std::to_string(n) + " bytes");
        if (at > in.size - n || in.size < (u64)n) fail(700, "out of bounds");
        bool racy = false;
        for (int i = 0; i < n; i++) {
            const uint8_t state = in.state[at + i];
            if (state == NONE) fail(700, write ? "out of bounds: write" : "out of bounds: read");
            if (state == FRESH && !write) fail(700, "uninitialised memory is read");
            racy |= state == RACY;
        }
        if (racy) return in.base + at;
        /* threads may write the same value at the same time: a flag that any of them raises */
        const bool same = write && in.state[at] == WRITTEN && !memcmp(in.base + at, value, n);
        if (write) memset(in.state + at, WRITTEN, n);
        /* words of larger accesses, bytes of smaller ones: kernels do not mix them in one array */
        for (int i = 0; i < n; i += n < 4 ? n : 4) file(in.cells[at + i], write, same, constant);
        return in.base + at;
    }

    void file(Cell &c, bool write, bool same, bool constant) {
        if (c.write_epoch >= launch_epoch && !same) {
            if (constant) fail(700, "ld.global.nc of what this launch has written");
            if (c.write_epoch < block_epoch) fail(700, "race with a write of another block");
            if (c.write_epoch == epoch && c.writer != thread)
                fail(700, "missing barrier after a write of " +
                     (c.writer == SEVERAL ? "others" : "thread " + std::to_string(c.writer)));
        }
        if (!write) {
            c.reader = c.read_epoch == epoch && c.reader != thread ? SEVERAL : thread;
            c.read_epoch = epoch;
            return;
        }
        if (c.read_epoch >= launch_epoch && c.read_epoch < block_epoch)
            fail(700, "race with a read of another block");
        if (c.read_epoch == epoch && c.reader != thread) fail(700, "missing barrier after a read");
        c.writer = c.write_epoch == epoch && c.writer != thread ? SEVERAL : thread;
        c.write_epoch = epoch;
    }

    char *resolve(Space space, u64 address, int n, const char *value) {
        if (space == PARAM) {
            if (address + n > (u64)kernel.param_bytes) fail(700, "parameter out of bounds");
            return const_cast<char *>(params) + address;
        }
        /* what an earlier block had in shared memory does not matter */
        if (space != SHARED) return access(device(), address, n, value, space == GLOBAL_NC);
        const u32 kept = launch_epoch;
        launch_epoch = block_epoch;
        char *p = access(shared_memory(), address, n, value, false);
        launch_epoch = kept;
        return p;
    }

    void load_store(const Instruction &i, char *regs, u32 mask, u32 first) {
        const Space space = Space(i.c & 15);
        const int n = i.c >> 4 & 15, sign = i.c >> 8 & 1, wide = i.c >> 12;
        const bool store = i.op == ST;
        for (int k = 0; k < 32; k++) {
            /* who is last to write the same place is anybody's luck */
            const int l = seed & 1 ? 31 - k : k;
            if (!(mask >> l & 1)) continue;
            thread = first + l;
            char *value = regs + i.d + l * wide;
            char *p = resolve(space, ((u64 *)(regs + i.a))[l] + (s64)i.b, n, store ? value : nullptr);
            if (store) {
                memcpy(p, value, n);
            } else {
                u64 v = 0;
                memcpy(&v, p, n);
                if (sign) v = (u64)((s64)(v << (64 - 8 * n)) >> (64 - 8 * n));
                memcpy(value, &v, wide);
            }
        }
    }

    void shuffle(const Instruction &i, char *regs, u32 members) {
        u32 source[32];
        memcpy(source, regs + i.a, sizeof source);
        for (u32 l = 0; l < 32; l++) {
            if (!(members >> l & 1)) continue;
            const u32 bounds = ((u32 *)(regs + i.c))[l], segment = bounds >> 8 & 31;
            const u32 last = (l & segment) | (bounds & 31 & ~segment);
            const u32 from = l ^ (((u32 *)(regs + i.b))[l] & 31);
            const bool inside = from <= last;
            if (inside && !(members >> from & 1)) fail(719, "a shuffle reads a lane that is not in it");
            ((u32 *)(regs + i.d))[l] = source[inside ? from : l];
            if (i.e >= 0) ((pred *)(regs + i.e))[l] = inside;
        }
    }

    u32 choose(const Warp &w, u32 ready) {
        if (seed && random_bits() % 4 == 0) {
            u32 nth = random_bits() % __builtin_popcount(ready);
            while (nth--) ready &= ready - 1;
            return w.pc[__builtin_ctz(ready)];
        }
        u32 lowest = ~0u;  /* those behind go first: paths that part meet again */
        for (u32 m = ready; m; m &= m - 1) lowest = std::min(lowest, w.pc[__builtin_ctz(m)]);
        return lowest;
    }

    bool group(u32 number, long &budget);
};

/* Executes lanes of a warp that stand at the same instruction until they part, wait or meet others.
 * False when no lane can go on. */
bool Block::group(u32 number, long &budget) {
    Warp &w = warps[number];
    const u32 ready = w.live & ~w.barrier & ~w.shuffle;
    if (!ready) return false;
    u32 mask = 0, at = choose(w, ready), meet = ~0u;
    for (u32 m = ready; m; m &= m - 1) {
        const u32 l = __builtin_ctz(m);
        if (w.pc[l] == at) mask |= 1u << l;
        else if (w.pc[l] > at) meet = std::min(meet, w.pc[l]);
    }
    const u32 first = 32 * number;
    char *const regs = w.file.data();
    auto go = [&](u32 lanes, u32 to) {
        for (u32 m = lanes; m; m &= m - 1) w.pc[__builtin_ctz(m)] = to;
    };
    for (; at != meet && budget > 0; budget--) {
        const Instruction &i = kernel.code[pc = at];
        switch (i.op) {
        case BRA: case BRA_IF: case BRA_UNLESS: {
            u32 taken = mask;
            if (i.op != BRA) {
                taken = 0;
                for (u32 l = 0; l < 32; l++) taken |= (((pred *)(regs + i.a))[l] & 1u) << l;
                taken = (i.op == BRA_IF ? taken : ~taken) & mask;
            }
            if (taken == mask && mask == ready) {
                at = i.d;
                continue;
            }
            go(taken, i.d);
            go(mask & ~taken, at + 1);
            budget--;
            return true;
        }
        case RET:
            w.live &= ~mask;
            return true;
        case BAR:
            go(mask, at);
            w.barrier |= mask;
            return true;
        case SHFL_BFLY: {
            go(mask, at);
            w.shuffle |= mask;
            const u32 members = ((u32 *)(regs + i.f))[__builtin_ctz(mask)];
            u32 here = 0;
            for (u32 l = 0; l < 32; l++)
                if (w.shuffle >> l & 1 && w.pc[l] == at) here |= 1u << l;
            thread = first + __builtin_ctz(mask);
            if (members & ~w.live) fail(719, "a shuffle names lanes that have returned");
            if (here == members) {
                shuffle(i, regs, members);
                go(members, at + 1);
                w.shuffle &= ~members;
            }
            return true;
        }
        case LD: case ST:
            load_store(i, regs, mask, first);
            break;
#define EACH(statement) \
    if (mask == ~0u) { \
        _Pragma("GCC ivdep") for (int l = 0; l < 32; l++) { statement } \
    } else { \
        for (u32 m = mask; m; m &= m - 1) { \
            const int l = __builtin_ctz(m); \
            statement \
        } \
    } \
    break;
#define OP1(name, D, X, formula) \
    case OP_##name: EACH(const X x = ((X *)(regs + i.a))[l]; ((D *)(regs + i.d))[l] = (D)(formula);)
#define OP2(name, D, X, Y, formula) \
    case OP_##name: EACH(const X x = ((X *)(regs + i.a))[l]; const Y y = ((Y *)(regs + i.b))[l]; \
                         ((D *)(regs + i.d))[l] = (D)(formula);)
#define OP3(name, D, X, Y, Z, formula) \
    case OP_##name: EACH(const X x = ((X *)(regs + i.a))[l]; const Y y = ((Y *)(regs + i.b))[l]; \
                         const Z z = ((Z *)(regs + i.c))[l]; ((D *)(regs + i.d))[l] = (D)(formula);)
#define OP4(name, D, X, Y, Z, W, formula) \
    case OP_##name: EACH(const X x = ((X *)(regs + i.a))[l]; const Y y = ((Y *)(regs + i.b))[l]; \
                         const Z z = ((Z *)(regs + i.c))[l]; const W w = ((W *)(regs + i.e))[l]; \
                         ((D *)(regs + i.d))[l] = (D)(formula);)
#include "ops.h"
        default:
            fail(718, "unknown instruction");
        }
        at++;
    }
    go(mask, at);
    return true;
}

}  // namespace

/* ------------------------------------------------------------------------- from outside */

void set_seed(uint32_t value) {
    seed = value;
    random_bits.seed(value);
}

void launch(const Kernel &kernel, const uint32_t grid[3], uint32_t threads, const char *params) {
    const u32 first = ++epoch;
    std::vector<u64> order(u64(grid[0]) * grid[1] * grid[2]);
    std::iota(order.begin(), order.end(), 0);
    if (seed) std::shuffle(order.begin(), order.end(), random_bits);
    Block block(kernel, grid, threads, params);
    for (u64 b : order)
        block.run(b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1], first);
}
