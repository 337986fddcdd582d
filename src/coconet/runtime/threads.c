/* Threads that do the parts of a tile beside the one that calls.
 *
 * The caller writes the job, then raises the count `given` of each worker that takes
 * part; a worker does its part and raises `done` to that count. Only workers that take
 * part read the job, and the caller writes the next one when all of them are done.
 * Workers wait for nothing but their caller, so no fault of a peer can hold them up.
 */
#include "private.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAUSES = 200, PATIENCE_NS = 50 * 1000 };

/* A number that one thread counts up and one other waits for. */
typedef struct {
  uint32_t value __attribute__((aligned(CC_LINE)));
  uint32_t asleep;
} counter;

typedef struct {
  counter given, done; /* jobs */
  cc_pool *pool;
  int64_t part;
  pthread_t thread;
} worker;

struct cc_pool {
  cc_args *args;
  cc_part *part; /* NULL ends the workers */
  const int64_t *words;
  int64_t parts;
  pthread_mutex_t growing;
  int32_t threads; /* that there are, the calling one included */
  worker workers[CC_MAX_THREADS]; /* by part; part 0 is the caller's */
};

/* The store and the load here, and those in await, are in one order: either the waiter
 * is seen asleep, or it sees the new value before it sleeps. */
static void count(counter *c) {
  __atomic_store_n(&c->value, c->value + 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&c->asleep, __ATOMIC_SEQ_CST))
    syscall(SYS_futex, &c->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline int has_come_to(const counter *c, uint32_t value) {
  return __atomic_load_n(&c->value, __ATOMIC_SEQ_CST) == value;
}

static void await(counter *c, uint32_t value) {
  for (uint32_t n = 0; n < PAUSES; n++, pause_core())
    if (has_come_to(c, value)) return;
  for (const uint64_t end = now_ns() + PATIENCE_NS; now_ns() < end; sched_yield())
    if (has_come_to(c, value)) return;
  __atomic_store_n(&c->asleep, 1, __ATOMIC_SEQ_CST);
  while (!has_come_to(c, value))
    syscall(SYS_futex, &c->value, FUTEX_WAIT_PRIVATE, value - 1, NULL, NULL, 0);
  __atomic_store_n(&c->asleep, 0, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
  worker *me = argument;
  const cc_pool *p = me->pool;
  (void)cc_enter(); /* for good: the thread is ours */
  for (uint32_t job = 1;; job++) {
    await(&me->given, job);
    if (p->part == NULL) return NULL;
    p->part(p->args, p->words, me->part, p->parts);
    cc_fence_stores();
    count(&me->done);
  }
}

/* Start a thread that takes no signals but those of its own faults. */
int start_thread(pthread_t *thread, void *(*body)(void *), void *argument,
                 const char *name) {
  const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  sigset_t blocked, saved;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&blocked, own[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &saved);
  const int error = pthread_create(thread, NULL, body, argument);
  pthread_sigmask(SIG_SETMASK, &saved, NULL);
  if (!error) pthread_setname_np(*thread, name);
  return error;
}

/* Returns NULL if there is no memory. */
cc_pool *pool_create(void) {
  cc_pool *p = aligned_alloc(CC_LINE, sizeof *p);
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->growing, NULL);
  p->threads = 1;
  return p;
}

/* Have at least this many threads; returns an errno if the system refuses one. */
int pool_grow(cc_pool *p, int32_t threads) {
  int error = 0;
  pthread_mutex_lock(&p->growing);
  while (p->threads < threads && !error) {
    worker *new = &p->workers[p->threads];
    char name[24];
    *new = (worker){.pool = p, .part = p->threads};
    snprintf(name, sizeof name, "coconet-%d", p->threads);
    error = start_thread(&new->thread, work, new, name);
    p->threads += !error;
  }
  pthread_mutex_unlock(&p->growing);
  return error;
}

static void hand_out(cc_pool *p, cc_args *a, cc_part *part, const int64_t *w,
                     int32_t parts) {
  p->args = a;
  p->part = part;
  p->words = w;
  p->parts = parts;
  for (int32_t n = 1; n < parts; n++) count(&p->workers[n].given);
}

void pool_run(cc_pool *p, cc_args *a, cc_part *part, const int64_t *w) {
  const int32_t parts = a->threads;
  if (parts > 1) hand_out(p, a, part, w, parts);
  part(a, w, 0, parts);
  for (int32_t n = 1; n < parts; n++)
    await(&p->workers[n].done, p->workers[n].given.value);
}

/* End the threads; none of them may be at work. */
void pool_destroy(cc_pool *p) {
  hand_out(p, NULL, NULL, NULL, p->threads);
  for (int32_t n = 1; n < p->threads; n++) pthread_join(p->workers[n].thread, NULL);
  pthread_mutex_destroy(&p->growing);
  free(p);
}
