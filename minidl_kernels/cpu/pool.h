/* The pool: threads that take pieces of a range beside the caller, who waits for pieces, not for
   threads.

   A job is open while its caller works on it. Threads that are awake join it. Each takes the pieces
   of its own share, then those that are left of the others': the same rows of one job after another
   are mostly worked on by the same thread, in whose cache they are. The caller then closes the job
   and waits for those who still hold a piece. A thread that sleeps, or that another process keeps
   from running, delays nobody: OpenMP's regions end when every thread of the team has been there,
   which is why this is not one of them. */
#ifndef MINIDL_POOL_H
#define MINIDL_POOL_H

#include <Python.h>
#include <pythread.h>
#include <string.h>
#include <time.h>

#ifdef _MSC_VER
#include <intrin.h>
typedef volatile long Atomic;
#define atomic_get(a) _InterlockedOr(a, 0)
#define atomic_set(a, x) _InterlockedExchange(a, x)      /* these two return what was there */
#define atomic_add(a, x) _InterlockedExchangeAdd(a, x)
#else
typedef int Atomic;
#define atomic_get(a) __atomic_load_n(a, __ATOMIC_SEQ_CST)
#define atomic_set(a, x) __atomic_exchange_n(a, x, __ATOMIC_SEQ_CST)
#define atomic_add(a, x) __atomic_fetch_add(a, x, __ATOMIC_SEQ_CST)
#endif

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define relax() _mm_pause()
#elif defined(__aarch64__) && defined(__GNUC__)
#define relax() __asm__ volatile("yield")
#else
#define relax() ((void)0)
#endif

typedef void (*Task)(void *ctx, Py_ssize_t begin, Py_ssize_t end);

enum { MOST = 255, FEW = 6 };   /* threads beside the caller; light pieces that wake nobody */
static const double POLL = 0.02, SPIN = 1e-3, PATIENCE = 300e-6, BRIEF = 200e-6,
                    ALONE = 5e-3, LONG_ALONE = 0.4, LOST = 0.1;

/* The piece of a share to take next. */
typedef struct {
    Atomic next;
    char apart[64];            /* no two in one cache line */
} Share;

/* A thread that spins for a while, then waits for its bell. */
typedef struct {
    PyThread_type_lock bell;   /* held; released by who wakes the thread */
    Atomic asleep;
    char apart[64];
} Sleeper;

static struct {
    Task task;                 /* the job: written while closed and nobody is inside */
    void *ctx;
    Py_ssize_t n, grain;
    int pieces, shares;
    unsigned long owner;       /* the thread whose job is in the pool, or 0 */
    double alone, alone_until;
    double undisturbed;        /* seconds of jobs since a thread was last kept from running */
    char a[64];
    Atomic open, helpers;      /* the number of the open job, 0 when closed; threads it may have */
    char b[64];
    Atomic inside;             /* threads that may hold a piece */
    char c[64];
    Atomic taken;              /* 1 while a caller has the pool */
    int number, started;
    Sleeper caller, thread[MOST];
    Share share[MOST + 1];     /* the caller's and those of the threads */
} pool;

/* Seconds, monotonic enough to space what is rare. */
static double pool_clock(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Take the GIL for a moment and run pending signal handlers: 1 when one raised. */
static int pool_signals(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int raised = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return raised;
}

static void pool_wake(Sleeper *s)
{
    if (atomic_set(&s->asleep, 0)) PyThread_release_lock(s->bell);
}

/* A job that thread `me` may join and has not been in, else 0. */
static int pool_job(int me, int last)
{
    int job = (int)atomic_get(&pool.open);
    return job != last && me < atomic_get(&pool.helpers) ? job : 0;
}

/* Wait for a job: spin, for the next one mostly comes soon, then sleep. */
static int pool_wait(int me, int last)
{
    Sleeper *self = &pool.thread[me];
    double since = pool_clock();
    for (;;) {
        int job, i;
        for (i = 0; i < 64; i++) {
            job = pool_job(me, last);
            if (job) return job;
            relax();
        }
        if (pool_clock() - since < SPIN) continue;
        atomic_set(&self->asleep, 1);
        job = pool_job(me, last);
        if (!job || !atomic_set(&self->asleep, 0))      /* nothing yet, or the bell has rung */
            PyThread_acquire_lock(self->bell, WAIT_LOCK);
        if (job) return job;
        since = pool_clock();
    }
}

static int pool_first(int share)
{
    return (int)((long long)pool.pieces * share / pool.shares);
}

/* The next piece for whoever owns a share: one of that share, else one of another's, else -1. */
static int pool_next(int own)
{
    int i, k, share, end;
    for (k = 0; k < pool.shares; k++) {
        share = (own + k) % pool.shares;
        end = pool_first(share + 1);
        if (atomic_get(&pool.share[share].next) < end
            && (i = (int)atomic_add(&pool.share[share].next, 1)) < end)
            return i;
    }
    return -1;
}

static void pool_piece(int i)
{
    Py_ssize_t begin = i * pool.grain;
    pool.task(pool.ctx, begin, i + 1 == pool.pieces ? pool.n : begin + pool.grain);
}

static void pool_thread(void *arg)
{
    const int me = (int)(Py_ssize_t)arg;
    int job = 0, i;
    for (;;) {
        job = pool_wait(me, job);
        atomic_add(&pool.inside, 1);
        while (atomic_get(&pool.open) == job && (i = pool_next(me + 1)) >= 0)
            pool_piece(i);
        if (atomic_add(&pool.inside, -1) == 1) pool_wake(&pool.caller);
    }
}

static int pool_bell(Sleeper *s)
{
    if (!s->bell && (s->bell = PyThread_allocate_lock())) PyThread_acquire_lock(s->bell, WAIT_LOCK);
    return s->bell != NULL;
}

/* As many of `wanted` threads beside the caller as there are or can be started. */
static int pool_start(int wanted)
{
    if (!pool_bell(&pool.caller)) return 0;
    for (; pool.started < wanted; pool.started++)
        if (!pool_bell(&pool.thread[pool.started])
            || PyThread_start_new_thread(pool_thread, (void *)(Py_ssize_t)pool.started)
                   == PYTHREAD_INVALID_THREAD_ID)
            break;
    return pool.started < wanted ? pool.started : wanted;
}

/* Close the job and wait until nobody is inside: the seconds that took if more than `patience`. */
static double pool_close(double patience)
{
    double since = pool_clock(), waited;
    int i;
    atomic_set(&pool.open, 0);
    for (;;) {
        for (i = 0; i < 16; i++) {
            if (!atomic_get(&pool.inside)) return 0;
            relax();
        }
        waited = pool_clock() - since;
        if (waited > patience) break;
    }
    for (;;) {                              /* let others, the thread perhaps, have the core */
        atomic_set(&pool.caller.asleep, 1);
        if (atomic_get(&pool.inside) || !atomic_set(&pool.caller.asleep, 0))
            PyThread_acquire_lock(pool.caller.bell, WAIT_LOCK);
        if (!atomic_get(&pool.inside)) return pool_clock() - since;
    }
}

/* A thread was kept from running, and the caller waited for it. Where that cost little beside the
   time of the jobs since it last happened (a virtual machine pauses now and then), threads still
   pay. Else other processes want the cores: compute alone for a time, longer each time that the
   next attempt fails too. The time of jobs counts, not that of the clock: a program that pauses,
   or computes in bursts, has not seen the other process go. */
static void pool_late(double now, double waited)
{
    if (waited < LOST * pool.undisturbed) {
        pool.alone = 0;
    } else {
        pool.alone *= 4;
        if (pool.alone < ALONE) pool.alone = ALONE;
        if (pool.alone > LONG_ALONE) pool.alone = LONG_ALONE;
        pool.alone_until = now + pool.alone;
    }
    pool.undisturbed = 0;
}

/* Take the pool: how many threads are to help, 0 when the caller is better off alone. */
static int pool_take(int helpers, int wake, double now)
{
    int i, ready = 0;
    if (helpers < 1 || atomic_set(&pool.taken, 1)) return 0;
    helpers = now < pool.alone_until ? 0 : pool_start(helpers < MOST ? helpers : MOST);
    for (i = 0; i < helpers; i++) ready += wake || !atomic_get(&pool.thread[i].asleep);
    if (!ready) atomic_set(&pool.taken, 0);
    else pool.owner = PyThread_get_thread_ident();
    return ready ? helpers : 0;
}

/* All pieces on the caller, more of them at a time as long as they are short: a loop that starts
   anew every few microseconds is slower. */
static int pool_alone(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain, double polled)
{
    Py_ssize_t begin = 0, end, span = grain;
    double before = polled, now;
    for (; begin < n; begin = end) {
        end = n - begin < span ? n : begin + span;
        task(ctx, begin, end);
        now = pool_clock();
        if (now - before < BRIEF && span < n) span *= 2;
        before = now;
        if (now - polled < POLL) continue;
        if (pool_signals()) return 1;
        polled = before = pool_clock();
    }
    return 0;
}

/* task over [0, n) in pieces of `grain` on `threads` threads; 1 when interrupted by a signal.
   A few light pieces go to threads that are awake, but wake none: that takes as long as they do. */
static int pool_run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain, int threads, int light)
{
    Py_ssize_t pieces = n / grain + (n % grain != 0);
    double now = pool_clock(), polled = now, began = now, longest = 0, start = now, waited;
    int wake = !light || pieces > FEW, stop = 0, helpers = 0, i;
    if (pieces < INT_MAX - 2 * MOST)        /* each thread counts one piece too many */
        helpers = pool_take((pieces < threads ? (int)pieces : threads) - 1, wake, now);
    if (!helpers) return pool_alone(task, ctx, n, grain, polled);
    pool.task = task, pool.ctx = ctx, pool.n = n, pool.grain = grain, pool.pieces = (int)pieces;
    pool.number = pool.number == INT_MAX ? 1 : pool.number + 1;
    pool.shares = helpers + 1;
    for (i = 0; i <= helpers; i++) atomic_set(&pool.share[i].next, pool_first(i));
    atomic_set(&pool.helpers, helpers);
    atomic_set(&pool.open, pool.number);
    for (i = 0; wake && i < helpers; i++) pool_wake(&pool.thread[i]);
    while (!stop && (i = pool_next(0)) >= 0) {
        pool_piece(i);
        now = pool_clock();
        if (now - began > longest) longest = now - began;
        if (now - polled > POLL) {
            stop = pool_signals();
            polled = now = pool_clock();
        }
        began = now;
    }
    pool.undisturbed += began - start;
    waited = pool_close(2 * longest + PATIENCE);
    if (waited > 0) pool_late(pool_clock(), waited);
    pool.owner = 0;
    atomic_set(&pool.taken, 0);
    return stop;
}

/* Before fork, without the GIL: no thread is at a piece while memory is copied. */
static void pool_hold(void)
{
    if (atomic_get(&pool.taken) && pool.owner == PyThread_get_thread_ident())
        pool_close(PATIENCE);               /* forked by a signal handler between two pieces */
    else
        while (atomic_set(&pool.taken, 1)) relax();
}

static void pool_let_go(void)
{
    if (!pool.owner) atomic_set(&pool.taken, 0);
}

/* In the child: the threads stayed behind, and what they waited for with them. */
static void pool_forget(void)
{
    pool.started = 0;
    atomic_set(&pool.inside, 0);
    memset(&pool.caller, 0, sizeof pool.caller);
    memset(pool.thread, 0, sizeof pool.thread);
    pool_let_go();
}

#endif
