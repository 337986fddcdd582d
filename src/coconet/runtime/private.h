/* What the files of the runtime share; a kernel sees runtime.h only. */
#ifndef COCONET_PRIVATE_H
#define COCONET_PRIVATE_H

#include "runtime.h"

#include <pthread.h>
#include <time.h>

/* The threads of a rank beside the one that calls; see threads.c. */
typedef struct cc_pool cc_pool;

cc_pool *pool_create(void);
void pool_destroy(cc_pool *p);
int pool_grow(cc_pool *p, int32_t threads);
void pool_run(cc_pool *p, cc_args *a, cc_part *part, const int64_t *w);

void handle_signals(cc_world *w);
int32_t run_tile(cc_args *a, const cc_tile *t, const int64_t *w);

int start_thread(pthread_t *thread, void *(*body)(void *), void *argument,
                 const char *name);

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void pause_core(void) {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

#endif
