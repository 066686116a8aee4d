/* The only OpenMP region of minidl: pieces of a range handed to the pool, Ctrl-C polled between. */
#ifndef MINIDL_POOL_H
#define MINIDL_POOL_H

#include <Python.h>
#include <stddef.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef void (*Task)(void *ctx, Py_ssize_t begin, Py_ssize_t end);

/* Monotonic enough to space the polls: seconds as the C library counts them. */
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

/* When the last region ended. A race costs a wrong guess about the pool, nothing else. */
static volatile double pool_ended;

/* task over [0, n) in pieces of `grain` on `threads` threads; 1 when interrupted by a signal.
   A few light pieces do not go to a pool that has fallen asleep: a region ends when all its threads
   have been there, and waking one takes longer than the pieces do. */
static int pool_run(Task task, void *ctx, Py_ssize_t n, Py_ssize_t grain, int threads, int light)
{
    const double poll_every = 0.02, awake = 10e-6;
    const Py_ssize_t few = 6;
    Py_ssize_t pieces = n / grain + (n % grain != 0);
    double polled = pool_clock();
    volatile int stop = 0;
    if (pieces < threads) threads = (int)pieces;
    if (light && pieces <= few && polled - pool_ended > awake) threads = 1;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) if (threads > 1)
#endif
    {
        int caller = 1;
        Py_ssize_t i;
#ifdef _OPENMP
        caller = omp_get_thread_num() == 0;
#pragma omp for schedule(dynamic, 1)
#endif
        for (i = 0; i < pieces; i++) {
            if (stop) continue;
            task(ctx, i * grain, i + 1 == pieces ? n : (i + 1) * grain);
            if (caller && pool_clock() - polled > poll_every) {
                if (pool_signals()) stop = 1;
                polled = pool_clock();
            }
        }
    }
    if (threads > 1) pool_ended = pool_clock();
    return stop;
}

/* Before fork: give the pool of this thread back, so that the child may start its own. */
static void pool_pause(void)
{
#if defined(_OPENMP) && !defined(_MSC_VER) && (defined(__clang__) || __GNUC__ >= 9)
    omp_pause_resource_all(omp_pause_hard);
#endif
}

static int pool_has_openmp(void)
{
#ifdef _OPENMP
    return _OPENMP;
#else
    return 0;
#endif
}

#endif
