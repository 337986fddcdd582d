/* Waiting, arrival and the watch over peers.  The contract is in runtime.h.
 *
 * seq of a rank counts the arrivals and barriers it has reached, so all waiting is for
 * `peer.seq >= mine`.  Slots, and the inboxes in which peers read small arguments,
 * alternate by the parity of the epoch.  A rank overwrites those of call e when it begins call e + 2, so after its arrival in e + 1 ended.  That
 * arrival ended in one of two ways.  Either every peer had arrived in e + 1, and so was
 * done with the slots of e; or the abort word was set, and then no rank begins a call.
 *
 * A rank gives up an arrival only after it set the abort word and then, behind a fence,
 * saw that a peer had not arrived.  Who arrives later sees the word behind its own fence.
 * So such a call ran on no rank and wrote nothing; `torn` marks the other case.
 */
#include "private.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { YIELDS = 16, DOZE_NS = 10 * 1000 * 1000 };

/* Functions of Python's C API, by address: this library links to nothing of Python. */
typedef struct {
  int (*take_gil)(void);
  void (*drop_gil)(int);
  int (*handle_signals)(void);
  void (*fetch_error)(void **type, void **value, void **trace);
} cc_python;

static cc_python python;

typedef struct {
  cc_pool *pool;
  void *interrupt[3];       /* type, value and trace of what a signal's handler raised */
  pthread_t thread;
  int watching;             /* the thread runs */
  int stop;                 /* eventfd that ends it */
  uint32_t spins;           /* pauses before a waiter yields */
  uint64_t text_version[2]; /* of the text in each of my slots */
  uint64_t segment_bytes[CC_MAX_RANKS];
  int pidfd[CC_MAX_RANKS];
} supervisor;

/* What Python reads about one rank and about the last fault; see library.py. */
typedef struct {
  uint64_t fingerprint[4];
  int64_t scalars[CC_MAX_SCALARS];
  uint64_t calls;
  uint32_t status, num_scalars, life, where;
  char text[CC_TEXT_BYTES];
  char farewell[CC_FAREWELL_BYTES];
} cc_report;

typedef struct {
  uint64_t abort;
  uint64_t missing; /* bit q: rank q has not reached the point this rank is at */
  int32_t rank;
  uint32_t where, torn;
} cc_fault;

static inline void fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

static void wake(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void wake_all(const cc_world *w) {
  for (int q = 0; q < w->size; q++) wake(&w->header[q]->seq);
}

static inline uint64_t abort_word(const cc_world *w) {
  return __atomic_load_n(&w->header[0]->abort, __ATOMIC_ACQUIRE);
}

/* Name the cause of the run's end, unless there is one already. */
static void abort_run(cc_world *w, int rank, uint32_t reason) {
  uint64_t none = 0;
  const uint64_t cause = (uint64_t)reason << 32 | (uint32_t)(rank + 1);
  if (__atomic_compare_exchange_n(&w->header[0]->abort, &none, cause, 0,
                                  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    wake_all(w);
}

static int32_t fail(cc_world *w, uint32_t where, uint32_t torn) {
  const uint64_t cause = abort_word(w);
  w->fault_rank = (int32_t)(uint32_t)cause - 1;
  w->fault_where = where;
  w->torn = torn;
  return cause >> 32 == CC_LATE ? CC_TIMEOUT : CC_ABORTED;
}

/* ---- waiting ---- */

static inline int has_reached(const cc_world *w, int q) {
  const uint32_t seq = __atomic_load_n(&w->header[q]->seq, __ATOMIC_ACQUIRE);
  return (int32_t)(seq - w->seq) >= 0;
}

static int all_have_reached(const cc_world *w) {
  for (int q = 0; q < w->size; q++)
    if (!has_reached(w, q)) return 0;
  return 1;
}

/* Reach the next point.  The fence pairs with the one in doze: either the waiter's count
 * is seen here, or the new seq is seen by its futex call. */
static inline void reach(cc_world *w) {
  cc_header *own = w->header[w->rank];
  __atomic_store_n(&own->seq, ++w->seq, __ATOMIC_RELEASE);
  fence();
  if (__atomic_load_n(&own->waiters, __ATOMIC_RELAXED)) wake(&own->seq);
}

static void doze(cc_header *peer, uint32_t seen) {
  const struct timespec slice = {0, DOZE_NS};
  __atomic_fetch_add(&peer->waiters, 1, __ATOMIC_SEQ_CST);
  fence();
  syscall(SYS_futex, &peer->seq, FUTEX_WAIT, seen, &slice, NULL, 0);
  __atomic_fetch_sub(&peer->waiters, 1, __ATOMIC_SEQ_CST);
}

typedef struct {
  uint64_t deadline_ns;  /* 0: not waiting yet */
  uint64_t slice_end_ns; /* 0: likewise */
  uint64_t slice_ns;
  uint32_t where;
} limits;

/* The slow half of await: the peer is late.  Nothing else waits on shared words. */
static int32_t await_late(cc_world *w, int q, limits *t) {
  cc_header *peer = w->header[q];
  uint64_t now = now_ns();
  if (t->deadline_ns == 0) t->deadline_ns = now + w->timeout_ns;
  if (t->slice_end_ns == 0) t->slice_end_ns = now + t->slice_ns;
  for (uint32_t tries = 0;; tries++, now = now_ns()) {
    const uint32_t seen = __atomic_load_n(&peer->seq, __ATOMIC_ACQUIRE);
    if ((int32_t)(seen - w->seq) >= 0) return CC_DONE;
    if (__atomic_load_n(&peer->life, __ATOMIC_ACQUIRE) == CC_FINISHED &&
        !has_reached(w, q))
      abort_run(w, q, CC_LEFT);
    if (now >= t->deadline_ns) abort_run(w, q, CC_LATE);
    if (abort_word(w)) {
      fence();
      return has_reached(w, q) ? CC_DONE : CC_ABORTED;
    }
    if (now >= t->slice_end_ns) return CC_AGAIN;
    if (tries < YIELDS)
      sched_yield();
    else
      doze(peer, seen);
  }
}

/* Wait until every rank has reached the point this one is at. */
static int32_t await(cc_world *w, limits *t) {
  const supervisor *s = w->supervisor;
  cc_header *own = w->header[w->rank];
  for (int q = 0; q < w->size; q++) {
    uint32_t n = s->spins;
    while (!has_reached(w, q) && --n) pause_core();
    if (n) continue;
    __atomic_store_n(&own->where, t->where, __ATOMIC_RELAXED);
    const int32_t rc = await_late(w, q, t);
    __atomic_store_n(&own->where, 0, __ATOMIC_RELAXED);
    if (rc != CC_DONE) return rc;
  }
  return CC_DONE;
}

static void end_run(cc_world *w, const char *text) {
  strncpy(w->header[w->rank]->farewell, text, CC_FAREWELL_BYTES - 1);
  abort_run(w, w->rank, CC_RAISED);
}

/* Let Python run the handlers of signals that came while its main thread is in here.
 * The run ends if one of them raises; Python raises that once the kernel returned. */
void handle_signals(cc_world *w) {
  supervisor *s = w->supervisor;
  if (syscall(SYS_gettid) != getpid()) return;
  const int gil = python.take_gil();
  if (python.handle_signals()) {
    python.fetch_error(&s->interrupt[0], &s->interrupt[1], &s->interrupt[2]);
    end_run(w, "interrupted by a signal");
  }
  python.drop_gil(gil);
}

static int32_t barrier(cc_args *a, uint32_t where) {
  cc_world *w = a->world;
  if (w->size == 1) return CC_DONE;
  limits t = {.slice_ns = w->slice_ns, .where = where};
  reach(w);
  int32_t rc;
  while ((rc = await(w, &t)) == CC_AGAIN) {
    t.slice_end_ns = 0;
    handle_signals(w);
    if (abort_word(w)) break;
  }
  return rc == CC_DONE ? rc : fail(w, where, 1);
}

static void run(cc_args *a, cc_part *part, const int64_t *w) {
  const supervisor *s = a->world->supervisor;
  pool_run(s->pool, a, part, w);
}

/* ---- arrival ---- */

static inline cc_slot *slot_of(const cc_world *w, int q) {
  return &w->header[q]->slot[w->epoch & 1];
}

static void fill_inbox(const cc_world *w, const cc_args *a) {
  char *inbox = w->header[w->rank]->inbox[w->epoch & 1];
  for (int64_t n = 0; n < a->num_inboxed; n++) {
    const cc_inboxed *in = &a->inboxed[n];
    const char *own = a->pointers[(size_t)in->buffer * w->size + w->rank];
    memcpy(inbox + in->offset, own, (size_t)in->bytes);
  }
}

static void publish(cc_world *w, cc_args *a) {
  supervisor *s = w->supervisor;
  cc_header *own = w->header[w->rank];
  const uint32_t parity = ++w->epoch & 1;
  cc_slot *slot = &own->slot[parity];
  memcpy(slot->fingerprint, a->fingerprint, sizeof slot->fingerprint);
  slot->status = a->status;
  slot->num_scalars = a->num_scalars;
  slot->table = a->table;
  memcpy(slot->scalars, a->scalars, a->num_scalars * sizeof *slot->scalars);
  if (s->text_version[parity] != a->text_version) {
    strncpy(slot->text, a->text, CC_TEXT_BYTES - 1);
    s->text_version[parity] = a->text_version;
  }
  fill_inbox(w, a);
  __atomic_store_n(&own->calls, own->calls + 1, __ATOMIC_RELAXED);
  a->deadline_ns = 0;
  a->arrived = 1;
  reach(w);
}

static int is_equal(const cc_slot *x, const cc_slot *y) {
  return memcmp(x->fingerprint, y->fingerprint, sizeof x->fingerprint) == 0 &&
         x->num_scalars == y->num_scalars &&
         memcmp(x->scalars, y->scalars, x->num_scalars * sizeof *x->scalars) == 0;
}

/* Every rank names the same culprit: the first that refused, else the first that differs
 * from rank 0. */
static int32_t accuse(cc_world *w) {
  w->fault_where = 0;
  w->torn = 0;
  for (w->fault_rank = 0; w->fault_rank < w->size; w->fault_rank++)
    if (slot_of(w, w->fault_rank)->status != CC_DONE) return CC_BAD;
  w->fault_rank = 1;
  while (is_equal(slot_of(w, 0), slot_of(w, w->fault_rank))) w->fault_rank++;
  return CC_DISAGREE;
}

static int32_t compare(cc_world *w) {
  const cc_slot *mine = slot_of(w, w->rank);
  for (int q = 0; q < w->size; q++) {
    const cc_slot *other = slot_of(w, q);
    if (other->status != CC_DONE || !is_equal(mine, other)) return accuse(w);
  }
  return CC_DONE;
}

/* A peer whose call goes by inboxes may return before this rank is here, and free its
 * table: it is not read, for nothing but the inboxes is used. */
static void point_to_inbox(const cc_world *w, cc_args *a, int q) {
  char *inbox = w->header[q]->inbox[w->epoch & 1];
  for (int64_t n = 0; n < a->num_inboxed; n++) {
    const cc_inboxed *in = &a->inboxed[n];
    a->pointers[(size_t)in->buffer * w->size + q] = inbox + in->offset;
  }
}

/* Any other peer returns only behind a wait for all, or if nobody uses its memory: then
 * it may rewrite its table at once, and what is read late is unused. */
static void fill_pointers(const cc_world *w, cc_args *a) {
  for (int q = 0; q < w->size; q++) {
    if (q == w->rank) continue;
    if (a->num_inboxed) {
      point_to_inbox(w, a, q);
      continue;
    }
    const int64_t *table = (const int64_t *)(w->base[q] + slot_of(w, q)->table);
    for (uint32_t b = 0; b < a->num_buffers; b++) {
      const size_t place = (size_t)b * w->size + q;
      const int64_t offset = table[b];
      a->pointers[place] = offset < 0 ? NULL : w->base[q] + offset;
      a->slots[place] = offset < -1 ? w->base[q] + (-1 - offset) : NULL;
    }
  }
}

static int32_t arrive(cc_args *a) {
  cc_world *w = a->world;
  if (w->size == 1) return (int32_t)a->status;
  if (!a->arrived) {
    if (abort_word(w)) return fail(w, 0, 0);
    publish(w, a);
  }
  limits t = {.deadline_ns = a->deadline_ns, .slice_ns = w->slice_ns};
  if (await(w, &t) == CC_AGAIN) {
    a->deadline_ns = t.deadline_ns;
    return CC_AGAIN;
  }
  a->arrived = 0;
  fence();
  const int complete = all_have_reached(w);
  const int32_t rc = complete ? compare(w) : CC_DONE;
  if (rc != CC_DONE) return rc;
  if (abort_word(w)) return fail(w, 0, complete);
  fill_pointers(w, a);
  return CC_DONE;
}

/* ---- the watch over peers ---- */

static void *watch(void *argument) {
  cc_world *w = argument;
  supervisor *s = w->supervisor;
  struct pollfd polled[CC_MAX_RANKS + 1];
  for (int q = 0; q < w->size; q++)
    polled[q] = (struct pollfd){.fd = q == w->rank ? -1 : s->pidfd[q], .events = POLLIN};
  polled[w->size] = (struct pollfd){.fd = s->stop, .events = POLLIN};
  for (;;) {
    if (poll(polled, (nfds_t)w->size + 1, -1) < 0) continue;
    if (polled[w->size].revents) return NULL;
    for (int q = 0; q < w->size; q++) {
      if (!polled[q].revents) continue;
      polled[q].fd = -1;
      if (__atomic_load_n(&w->header[q]->life, __ATOMIC_ACQUIRE) != CC_FINISHED)
        abort_run(w, q, CC_DIED);
    }
  }
}

static int start_watch(cc_world *w) {
  supervisor *s = w->supervisor;
  s->stop = eventfd(0, EFD_CLOEXEC);
  if (s->stop < 0) return errno;
  const int error = start_thread(&s->thread, watch, w, "coconet-watch");
  s->watching = error == 0;
  return error;
}

static void stop_watch(supervisor *s) {
  if (s->watching && eventfd_write(s->stop, 1) == 0) pthread_join(s->thread, NULL);
  s->watching = 0;
  if (s->stop >= 0) close(s->stop);
  s->stop = -1;
}

/* ---- what Python calls ---- */

uint32_t cc_abi(void) { return CC_ABI; }
uint64_t cc_header_bytes(void) { return sizeof(cc_header); }
uint64_t cc_args_bytes(void) { return sizeof(cc_args); }
void cc_use_python(const cc_python *functions) { python = *functions; }

/* Map a segment for good: what lies past its end today is there once its owner grew it. */
void *cc_map(int fd, uint64_t nbytes) {
  void *base = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return base == MAP_FAILED ? NULL : base;
}

void cc_unmap(void *base, uint64_t nbytes) { munmap(base, nbytes); }

/* Nobody who waits for this rank waits in vain from now on. */
void cc_world_leave(cc_world *w) {
  cc_header *own = w->header[w->rank];
  __atomic_store_n(&own->life, CC_FINISHED, __ATOMIC_RELEASE);
  wake(&own->seq);
  stop_watch(w->supervisor);
}

/* Free all but the rank's own segment, in which arrays may live on. */
void cc_world_destroy(cc_world *w) {
  supervisor *s = w->supervisor;
  stop_watch(s);
  for (int q = 0; q < w->size; q++)
    if (q != w->rank && w->base[q]) munmap(w->base[q], s->segment_bytes[q]);
  pool_destroy(s->pool);
  free(s);
  free(w);
}

/* Returns NULL with errno set if a segment cannot be mapped or no thread started. */
cc_world *cc_world_create(int32_t rank, int32_t size, void *own_base, const int *segments,
                          const uint64_t *segment_bytes, const int *pidfds,
                          uint64_t timeout_ns, uint64_t slice_ns, uint32_t spins) {
  cc_world *w = calloc(1, sizeof *w);
  supervisor *s = calloc(1, sizeof *s);
  cc_pool *pool = pool_create();
  if (!w || !s || !pool) abort();
  *w = (cc_world){.rank = rank, .size = size, .timeout_ns = timeout_ns,
                  .slice_ns = slice_ns, .fault_rank = -1, .arrive = arrive,
                  .barrier = barrier, .run = run, .run_tile = run_tile,
                  .supervisor = s};
  *s = (supervisor){.pool = pool, .stop = -1, .spins = spins};
  memcpy(s->segment_bytes, segment_bytes, (size_t)size * sizeof *segment_bytes);
  memcpy(s->pidfd, pidfds, (size_t)size * sizeof *pidfds);
  int error = 0;
  for (int q = 0; q < size && !error; q++) {
    w->base[q] = q == rank ? own_base : cc_map(segments[q], segment_bytes[q]);
    w->header[q] = (cc_header *)w->base[q];
    if (!w->base[q]) error = errno;
  }
  if (!error && size > 1) error = start_watch(w);
  if (error) {
    cc_world_destroy(w);
    errno = error;
    return NULL;
  }
  w->header[rank]->pid = (int32_t)getpid();
  __atomic_store_n(&w->header[rank]->life, CC_RUNNING, __ATOMIC_RELEASE);
  return w;
}

/* Where rank q's segment is mapped here. */
void *cc_world_base(const cc_world *w, int32_t q) { return w->base[q]; }

/* Arrive without a kernel: for a rank whose own check of its call failed. */
int32_t cc_world_arrive(cc_args *a) { return arrive(a); }

/* End the run because this rank raised; text says what, for the other ranks. */
void cc_world_raised(cc_world *w, const char *text) { end_run(w, text); }

/* Hand over what a signal's handler raised in a barrier; 0 if none did. */
int32_t cc_world_interrupt(cc_world *w, void **out) {
  supervisor *s = w->supervisor;
  memcpy(out, s->interrupt, sizeof s->interrupt);
  memset(s->interrupt, 0, sizeof s->interrupt);
  return out[0] != NULL;
}

/* Have at least this many threads; returns an errno if the system refuses one. */
int32_t cc_world_threads(cc_world *w, int32_t threads) {
  const supervisor *s = w->supervisor;
  return pool_grow(s->pool, threads);
}

void cc_world_fault(const cc_world *w, cc_fault *out) {
  *out = (cc_fault){.abort = abort_word(w), .rank = w->fault_rank,
                    .where = w->fault_where, .torn = w->torn};
  fence();
  for (int q = 0; q < w->size; q++)
    if (!has_reached(w, q)) out->missing |= (uint64_t)1 << q;
}

/* What rank q said in the call this rank is in, and how it fares. */
void cc_world_report(const cc_world *w, int32_t q, cc_report *out) {
  const cc_header *h = w->header[q];
  const cc_slot *slot = slot_of(w, q);
  memcpy(out->fingerprint, slot->fingerprint, sizeof out->fingerprint);
  memcpy(out->scalars, slot->scalars, sizeof out->scalars);
  memcpy(out->text, slot->text, sizeof out->text);
  memcpy(out->farewell, h->farewell, sizeof out->farewell);
  out->status = slot->status;
  out->num_scalars = slot->num_scalars;
  out->calls = __atomic_load_n(&h->calls, __ATOMIC_RELAXED);
  out->life = __atomic_load_n(&h->life, __ATOMIC_ACQUIRE);
  out->where = __atomic_load_n(&h->where, __ATOMIC_RELAXED);
}
