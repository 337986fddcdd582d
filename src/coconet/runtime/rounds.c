/* Tiles in lock-step, where arguments are private; plan/rounds.py says how and why.
 *
 * A rank whose buffer is private publishes, in place of the buffer's offset, that of its
 * slots. All ranks read all tables on arrival, and never again: so all know alike whether
 * a tile goes in rounds. In a round, a peer's pointer is moved so that the elements of
 * the round fall into its slots: the tile itself is the same code as ever.
 */
#include "private.h"

/* What a round needs to know of its tile. */
typedef struct {
  cc_args *args;
  const cc_tile *tile;
  const int64_t *words;
  uint64_t *slots; /* by staged buffer; bit q: that of rank q is private */
  int64_t length;  /* elements of a chunk */
  int64_t turn;
} rounds;

static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t first_of(const rounds *r, int64_t rank) {
  return r->words[r->tile->borders + 2 * rank];
}

static int64_t part_of(const rounds *r, int64_t rank) {
  return r->words[r->tile->borders + 2 * rank + 1] - first_of(r, rank);
}

static int64_t regions(const rounds *r) {
  return r->tile->is_whole ? 1 : r->args->world->size;
}

/* How many elements a rank has in this round. */
static int64_t chunk_of(const rounds *r, int64_t rank) {
  const int64_t left = part_of(r, rank) - r->turn * r->length;
  return left < 0 ? 0 : min(left, r->length);
}

/* Where the chunk of a rank begins in the slots, in elements. */
static int64_t slot_of_chunk(const rounds *r, int64_t rank) {
  const int64_t region = r->tile->is_whole ? 0 : rank;
  return ((r->turn & 1) * regions(r) + region) * r->length;
}

/* The slots of rank q's buffer; NULL if peers can address the buffer itself. */
static char *slots_of(const rounds *r, int32_t n, int q) {
  const size_t buffer = (size_t)r->tile->staged[n].buffer;
  return r->args->slots[buffer * r->args->world->size + q];
}

/* Find what is private; returns whether anything is. */
static int find_slots(const rounds *r) {
  uint64_t any = 0;
  for (int32_t n = 0; n < r->tile->count; n++) {
    r->slots[n] = 0;
    for (int q = 0; q < r->args->world->size; q++)
      r->slots[n] |= (uint64_t)(slots_of(r, n, q) != NULL) << q;
    any |= r->slots[n];
  }
  return any != 0;
}

/* Copies for the threads of a rank: how many, whether they bypass the caches, then to,
 * from and bytes of each. */
enum { COPY_HEAD = 2, COPY_WORDS = 3 };

static void copy_part(cc_args *a, const int64_t *w, int64_t part, int64_t parts) {
  (void)a;
  for (int64_t n = 0; n < w[0]; n++) {
    const int64_t *copy = w + COPY_HEAD + n * COPY_WORDS, bytes = copy[2];
    const int64_t share = (bytes / parts / CC_LINE + 1) * CC_LINE;
    const int64_t begin = min(share * part, bytes), end = min(begin + share, bytes);
    char *to = (char *)(uintptr_t)copy[0] + begin;
    const char *from = (const char *)(uintptr_t)copy[1] + begin;
    if (w[1])
      cc_stream_copy(to, from, (size_t)(end - begin));
    else
      memcpy(to, from, (size_t)(end - begin));
  }
}

/* Copy this round's chunks of my private buffers to my slots, or back. */
static void copy_chunks(const rounds *r, int stores) {
  const cc_world *w = r->args->world;
  for (int32_t n = 0; n < r->tile->count; n++) {
    const cc_staged *s = &r->tile->staged[n];
    char *slots = slots_of(r, n, w->rank);
    if (!slots || s->stores != stores) continue;
    char *own = r->args->pointers[(size_t)s->buffer * w->size + w->rank];
    int64_t words[COPY_HEAD + COPY_WORDS * CC_MAX_RANKS], *copy = words + COPY_HEAD;
    for (int64_t q = 0; q < w->size; q++) {
      if (r->tile->is_whole ? q != 0 : q == w->rank) continue;
      char *outside = own + (first_of(r, q) + r->turn * r->length) * s->itemsize;
      char *inside = slots + slot_of_chunk(r, q) * s->itemsize;
      copy[0] = (int64_t)(uintptr_t)(stores ? outside : inside);
      copy[1] = (int64_t)(uintptr_t)(stores ? inside : outside);
      copy[2] = chunk_of(r, q) * s->itemsize;
      copy += COPY_WORDS;
    }
    words[0] = (copy - words - COPY_HEAD) / COPY_WORDS;
    words[1] = stores && r->words[r->tile->stream];
    w->run(r->args, copy_part, words);
  }
}

/* Let the pointers to peers' buffers lead into their slots. */
static void point_to_slots(const rounds *r) {
  const cc_world *w = r->args->world;
  const int64_t first = first_of(r, w->rank) + r->turn * r->length;
  const int64_t moved = slot_of_chunk(r, w->rank) - first;
  for (int32_t n = 0; n < r->tile->count; n++) {
    const cc_staged *s = &r->tile->staged[n];
    for (int q = 0; q < w->size; q++) {
      const uintptr_t slots = (uintptr_t)slots_of(r, n, q);
      if (!slots || q == w->rank) continue;
      char **at = &r->args->pointers[(size_t)s->buffer * w->size + q];
      *at = (char *)(slots + (uintptr_t)(moved * s->itemsize));
    }
  }
}

static void compute(const rounds *r) {
  cc_args *a = r->args;
  const int64_t begin = r->turn * r->length;
  const cc_round round = {begin, begin + chunk_of(r, a->world->rank), r->slots};
  point_to_slots(r);
  a->round = &round;
  a->world->run(a, r->tile->part, r->words);
  a->round = NULL;
}

static int64_t count_rounds(const rounds *r) {
  int64_t most = 0;
  for (int q = 0; q < r->args->world->size; q++)
    if (part_of(r, q) > most) most = part_of(r, q);
  return (most + r->length - 1) / r->length;
}

int32_t run_tile(cc_args *a, const cc_tile *t, const int64_t *w) {
  const cc_world *world = a->world;
  uint64_t slots[t->count];
  rounds r = {a, t, w, slots, .length = w[t->borders - 1]};
  if (world->size == 1 || !find_slots(&r)) {
    world->run(a, t->part, w);
    return CC_DONE;
  }
  const int64_t count = count_rounds(&r);
  uint64_t heard_ns = now_ns();
  for (; count && r.turn <= count; r.turn++) {
    if (now_ns() - heard_ns > world->slice_ns) {
      handle_signals(a->world);
      heard_ns = now_ns();
    }
    if (r.turn < count) copy_chunks(&r, 0);
    const int32_t code = world->barrier(a, t->where);
    if (code) return code;
    if (r.turn) {
      rounds before = r;
      before.turn--;
      copy_chunks(&before, 1);
    }
    if (r.turn < count) compute(&r);
    cc_fence_stores();
  }
  return CC_DONE;
}
