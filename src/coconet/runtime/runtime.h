/* The contract between a generated kernel, the runtime (runtime.c) and Python.
 *
 * A rank's segment is shared memory that it owns and that every peer maps. Offset 0
 * of a segment holds its cc_header. Only the owner writes its header, except for
 * `waiters` and the abort word. A kernel is one function `int32_t cc_kernel(cc_args *)`.
 * All waiting happens behind the function pointers in cc_world, so a kernel's shared
 * object links to nothing of ours.
 */
#ifndef COCONET_RUNTIME_H
#define COCONET_RUNTIME_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CC_ABI 3            /* raised with every change of this file's structs */
#define CC_MAX_RANKS 64
#define CC_MAX_THREADS 64   /* of one rank, the calling one included */
#define CC_MAX_SCALARS 32   /* scalar arguments of one program */
#define CC_TEXT_BYTES 4096  /* what a rank says about its call, for error messages */
#define CC_FAREWELL_BYTES 512
#define CC_LINE 64
#define CC_INBOX_BYTES (1 << 16) /* that peers read in one call */

/* What cc_kernel, arrive and barrier return. */
enum {
  CC_DONE = 0,
  CC_AGAIN = 1,    /* arrival: 50 ms passed; check for signals, then call again */
  CC_DISAGREE = 2, /* arrival: a peer's fingerprint or scalars differ; nothing written */
  CC_BAD = 3,      /* arrival: a rank's own check failed; its text says why */
  CC_TIMEOUT = 4,  /* the deadline passed; fault_rank is missing */
  CC_ABORTED = 5   /* a peer died or left; the abort word says which */
};

/* Life of a rank, in its header. */
enum { CC_STARTING = 0, CC_RUNNING = 1, CC_FINISHED = 2 };

/* Why a run ended, in the abort word. */
enum { CC_DIED = 1, CC_LEFT = 2, CC_RAISED = 3, CC_LATE = 4 };

typedef struct {
  uint64_t fingerprint[4]; /* program and kernel, shapes, argument spaces, reserved */
  uint32_t status;         /* CC_DONE or CC_BAD */
  uint32_t num_scalars;
  int64_t table;           /* offset in this segment of int64_t offsets[num_buffers] */
  int64_t scalars[CC_MAX_SCALARS]; /* bits of the scalar arguments */
  char text[CC_TEXT_BYTES];        /* NUL-terminated */
} cc_slot;

typedef struct {
  /* seq advances by one at each arrival and each barrier; it is the futex word */
  uint32_t seq __attribute__((aligned(CC_LINE)));
  uint32_t waiters __attribute__((aligned(CC_LINE)));
  uint32_t life __attribute__((aligned(CC_LINE)));
  int32_t pid;
  uint32_t where;       /* the plan's wait this rank is in, 0 outside calls */
  uint64_t calls;       /* calls begun */
  /* first cause of the run's end, written once by compare-and-swap; rank 0's counts:
   * 0 none, else (reason << 32 | rank + 1).  Sticky: no rank arrives after it. */
  uint64_t abort __attribute__((aligned(CC_LINE)));
  char farewell[CC_FAREWELL_BYTES]; /* what this rank raised, NUL-terminated */
  cc_slot slot[2] __attribute__((aligned(CC_LINE))); /* by parity of the call's epoch */
  char inbox[2][CC_INBOX_BYTES] __attribute__((aligned(CC_LINE))); /* likewise */
} cc_header;

struct cc_args;

/* One of `parts` equal shares of a tile, whose words are w.  A part waits for nothing. */
typedef void cc_part(struct cc_args *a, const int64_t *w, int64_t part, int64_t parts);

/* A buffer that peers reach in rounds where it is private. */
typedef struct {
  int32_t buffer, itemsize;
  int32_t stores; /* whether peers write it; else they read it */
} cc_staged;

/* A tile that can go in rounds; see rounds.c. */
typedef struct {
  cc_part *part;
  const cc_staged *staged;
  int32_t count;    /* of staged buffers */
  int32_t is_whole; /* each rank runs over all elements */
  int32_t borders;  /* where, in w, each rank's first element and end are; before them,
                     * the elements of a chunk */
  int32_t stream;   /* where, in w, is whether large copies bypass the caches */
  uint32_t where;   /* in the plan's waits */
} cc_tile;

/* An argument that peers read in its owner's inbox. */
typedef struct {
  int32_t buffer, offset;
  int64_t bytes;
} cc_inboxed;

/* Of a rank's elements of a tile, those of one round. */
typedef struct {
  int64_t begin, end;
  const uint64_t *slots; /* by staged buffer; bit q: a pointer to rank q's is to slots */
} cc_round;

typedef struct cc_world {
  int32_t rank, size;
  cc_header *header[CC_MAX_RANKS];
  char *base[CC_MAX_RANKS];   /* where each rank's segment is mapped here */
  uint32_t epoch;             /* calls begun by this rank */
  uint32_t seq;               /* arrivals and barriers passed by this rank */
  uint64_t timeout_ns;
  uint64_t slice_ns;          /* how long an arrival waits before CC_AGAIN */
  int32_t fault_rank;         /* after a failure: who; -1 unknown */
  uint32_t fault_where;       /* and in which wait of the plan */
  int32_t (*arrive)(struct cc_args *);
  int32_t (*barrier)(struct cc_args *, uint32_t where);
  /* Do all parts of a tile on a->threads threads; what they stored is fenced, but for
   * the calling thread's. */
  void (*run)(struct cc_args *, cc_part *, const int64_t *w);
  /* The same, in rounds if a staged buffer of the tile is private on any rank. */
  int32_t (*run_tile)(struct cc_args *, const cc_tile *, const int64_t *w);
  void *supervisor;           /* runtime.c's own */
  uint32_t torn;              /* after a failure: some rank may have run the call */
} cc_world;

typedef union {
  double f;
  int64_t i;
} cc_word;

/* One bound call.  Python fills it, the kernel reads it. */
typedef struct cc_args {
  cc_world *world;
  uint64_t fingerprint[4];
  uint32_t status;
  uint32_t num_buffers;
  uint32_t num_scalars;
  uint32_t arrived;           /* runtime.c's own: this call is in its arrival */
  int32_t threads;            /* that `run` uses, 1 for none but the calling one */
  void *scratch;              /* the kernel's own, during a call */
  uint64_t deadline_ns;       /* runtime.c's own */
  int64_t table;              /* offset in my segment of my offsets; of a private buffer
                               * that may be staged, -1 - the offset of its slots, of
                               * another -1 */
  uint64_t text_version;      /* changes when text does */
  const char *text;           /* NUL-terminated, < CC_TEXT_BYTES */
  char **pointers;            /* [num_buffers * size], row by buffer; arrive fills peers' */
  char **slots;               /* likewise: of a buffer that is handed over in rounds */
  const int64_t *words;       /* extents, piece borders, knobs */
  const int64_t *scalars;     /* bits of the scalar arguments, compared on arrival */
  const cc_word *consts;      /* scalar expressions, evaluated once per call */
  const cc_round *round;      /* NULL but in a round */
  int64_t num_inboxed;        /* if not 0, the call needs no barriers */
  const cc_inboxed *inboxed;
} cc_args;

/* Copy n bytes to memory this core will not read soon, without fetching it first.
 * Ordered only by cc_fence_stores. */
static inline void cc_stream_copy(void *restrict to, const void *restrict from, size_t n) {
#if defined(__AVX512F__)
  char *d = (char *)to;
  const char *s = (const char *)from;
  size_t head = (size_t)(-(uintptr_t)d) & 63;
  if (head > n) head = n;
  memcpy(d, s, head);
  size_t i = head;
  for (; i + 64 <= n; i += 64)
    _mm512_stream_si512((__m512i *)(d + i), _mm512_loadu_si512((const void *)(s + i)));
  memcpy(d + i, s + i, n - i);
#elif defined(__AVX__)
  char *d = (char *)to;
  const char *s = (const char *)from;
  size_t head = (size_t)(-(uintptr_t)d) & 31;
  if (head > n) head = n;
  memcpy(d, s, head);
  size_t i = head;
  for (; i + 32 <= n; i += 32)
    _mm256_stream_si256((__m256i *)(d + i),
                        _mm256_loadu_si256((const __m256i *)(s + i)));
  memcpy(d + i, s + i, n - i);
#else
  memcpy(to, from, n);
#endif
}

/* A kernel's loop goes by chunks of elements. Before each it fetches the chunk that is
 * CC_AHEAD elements later: the core's own prefetchers stop at every page. */
enum { CC_CHUNK = 64, CC_AHEAD = 512 };

static inline void cc_fetch(const void *from, int64_t itemsize) {
  const char *line = (const char *)from + CC_AHEAD * itemsize;
  for (int64_t i = 0; i < CC_CHUNK * itemsize; i += CC_LINE) __builtin_prefetch(line + i);
}

static inline void cc_fence_stores(void) {
#if defined(__x86_64__)
  _mm_sfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* IEEE arithmetic inside a kernel whatever the caller set (torch can flush denormals). */
#if defined(__x86_64__)
static inline uint32_t cc_enter(void) {
  uint32_t saved = _mm_getcsr();
  _mm_setcsr(0x1f80u);
  return saved;
}
static inline void cc_leave(uint32_t saved) { _mm_setcsr(saved); }
#elif defined(__aarch64__)
static inline uint64_t cc_enter(void) {
  uint64_t saved;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
  return saved;
}
static inline void cc_leave(uint64_t saved) {
  __asm__ volatile("msr fpcr, %0" : : "r"(saved));
}
#else
static inline int cc_enter(void) { return 0; }
static inline void cc_leave(int saved) { (void)saved; }
#endif

#endif
