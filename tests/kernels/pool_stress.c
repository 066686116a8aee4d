/* Callers that share one pool, for ThreadSanitizer: each job marks its pieces once, all are checked.
   Built and run by tests/sanitize.sh. */
#include "pool.h"
#include <stdio.h>

enum { CALLERS = 3, JOBS = 20000, MOST_PIECES = 40 };

typedef struct { int marks[MOST_PIECES]; } Marks;

static void mark(void *ctx, Py_ssize_t begin, Py_ssize_t end)
{
    for (; begin < end; begin++) ((Marks *)ctx)->marks[begin]++;
}

static Atomic done, wrong;

static void caller(void *arg)
{
    unsigned seed = (unsigned)(size_t)arg + 1;
    int job, i;
    for (job = 0; job < JOBS; job++) {
        Marks m = {{0}};
        int n = 1 + (int)((seed = seed * 1664525u + 1013904223u) >> 16) % MOST_PIECES;
        pool_run(mark, &m, n, 1 + n % 3, 1 + job % 5, job & 1);
        for (i = 0; i < MOST_PIECES; i++)
            if (m.marks[i] != (i < n)) atomic_add(&wrong, 1);
    }
    atomic_add(&done, 1);
}

int main(void)
{
    size_t i;
    PyThread_type_lock pause;
    Py_InitializeEx(0);                      /* pieces may take the GIL to look for signals */
    PyEval_SaveThread();
    pause = PyThread_allocate_lock();
    for (i = 1; i < CALLERS; i++) PyThread_start_new_thread(caller, (void *)i);
    caller(NULL);
    PyThread_acquire_lock(pause, WAIT_LOCK);
    while (atomic_get(&done) < CALLERS) PyThread_acquire_lock_timed(pause, 1000, 0);
    printf("%d jobs, %ld wrong\n", CALLERS * JOBS, (long)atomic_get(&wrong));
    return wrong != 0;
}
