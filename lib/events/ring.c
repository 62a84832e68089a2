/* ring.c: keeps the newest events in a ring buffer, and encodes those that a subscriber needs. */
#include "events/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "format/json_out.h"

#define EVENT_MAX (64u << 20)

_Static_assert((PP_RING_EVENTS & (PP_RING_EVENTS - 1)) == 0, "indexes are masked");

/* --- encoding an event as JSON and for SSE --- */

/* Writes the key "batch:b_1" as ["batch","b_1"]. */
static void write_key(struct pp_buf *b, const char *key)
{
    pp_json_begin(b, "key", '[');
    while (*key) {
        size_t n = strcspn(key, ":");
        pp_json_strn(b, NULL, key, n);
        key += n + (key[n] == ':');
    }
    pp_json_end(b, ']');
}

static struct pp_piece *to_piece(struct pp_buf *b)
{
    struct pp_piece *piece = b->failed ? NULL : pp_piece_of(b->p, b->n);
    pp_buf_fini(b);
    return piece;
}

static struct pp_piece *encode_json(const struct pp_event *e)
{
    struct pp_buf b;
    pp_buf_init(&b, EVENT_MAX);
    pp_json_begin(&b, NULL, '{');
    pp_json_uint(&b, "seq", e->seq);
    pp_json_time(&b, "time", e->at_ms);
    write_key(&b, e->key);
    pp_json_str(&b, "type", e->type);
    pp_json_raw(&b, "data", e->data, e->data_n);
    pp_json_end(&b, '}');
    return to_piece(&b);
}

static void blank(char *p, size_t n, char c)
{
    for (char *end = p + n; (p = memchr(p, c, (size_t)(end - p))); p++)
        *p = ' ';
}

/* Encodes an event as text/event-stream. A line break would end the event's data (WHATWG HTML 9.2).
 * In JSON, line breaks occur only between tokens, so spaces replace them. */
static struct pp_piece *encode_sse(const struct pp_event *e, const struct pp_piece *json)
{
    struct pp_buf head;
    pp_buf_init(&head, EVENT_MAX);
    pp_buf_printf(&head, "id: %llu\nevent: %s\ndata: ", (unsigned long long)e->seq, e->type);
    struct pp_piece *piece = head.failed ? NULL : pp_piece_new(head.n + json->n + 2);
    if (piece) {
        char *data = piece->bytes + head.n;
        memcpy(piece->bytes, head.p, head.n);
        memcpy(data, json->bytes, json->n);
        blank(data, json->n, '\n');
        blank(data, json->n, '\r');
        memcpy(data + json->n, "\n\n", 2);
    }
    pp_buf_fini(&head);
    return piece;
}

struct pp_piece *pp_event_encode(const struct pp_event *e, enum pp_sub_format format)
{
    struct pp_piece *json = encode_json(e);

    if (format == PP_SUB_JSON || !json)
        return json;
    struct pp_piece *sse = encode_sse(e, json);
    pp_piece_unref(json);
    return sse;
}

/* --- the entries of the ring --- */

/* About how many bytes all encodings of an event have besides its texts. */
enum { ENCODING_BYTES = 200 };

/* Returns a copy of the event in one block of memory, except its key. */
static struct pp_event *copy_event(const struct pp_event *e, const char *key)
{
    size_t type_n = strlen(e->type) + 1;
    struct pp_event *copy = malloc(sizeof(*copy) + type_n + e->data_n);

    if (!copy)
        return NULL;
    char *texts = (char *)(copy + 1);
    *copy = *e;
    copy->key = key;
    copy->type = memcpy(texts, e->type, type_n);
    copy->data = memcpy(texts + type_n, e->data, e->data_n);
    return copy;
}

static void entry_fini(struct pp_ring_entry *entry)
{
    for (int i = 0; i < PP_SUB_FORMATS; i++)
        pp_piece_unref(entry->pieces[i]);
    free(entry->event);
    free(entry->key);
    *entry = (struct pp_ring_entry){0};
}

static bool entry_init(struct pp_ring_entry *entry, const struct pp_event *e)
{
    size_t texts = strlen(e->key) + strlen(e->type) + e->data_n;

    *entry = (struct pp_ring_entry){
        .seq = e->seq, .key = strdup(e->key), .bytes = PP_SUB_FORMATS * texts + ENCODING_BYTES};
    entry->event = entry->key ? copy_event(e, entry->key) : NULL;
    if (entry->event)
        return true;
    entry_fini(entry);
    return false;
}

static struct pp_ring_entry *cell(struct pp_ring *ring, size_t i)
{
    return &ring->entries[(ring->first + i) & (PP_RING_EVENTS - 1)];
}

const struct pp_ring_entry *pp_ring_at(const struct pp_ring *ring, size_t i)
{
    pp_assert(i < ring->n, "an entry beyond the end of the ring");
    return &ring->entries[(ring->first + i) & (PP_RING_EVENTS - 1)];
}

size_t pp_ring_above(const struct pp_ring *ring, uint64_t seq)
{
    size_t lo = 0, hi = ring->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (pp_ring_at(ring, mid)->seq <= seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void drop_oldest(struct pp_ring *ring)
{
    pp_assert(ring->n > 0, "an empty ring has no oldest entry");
    struct pp_ring_entry *oldest = cell(ring, 0);

    pp_assert(oldest->seq > ring->from, "entries are not in the order of their numbers");
    pp_assert(oldest->bytes <= ring->bytes, "the ring's bytes do not add up");
    ring->from = oldest->seq;
    ring->bytes -= oldest->bytes;
    entry_fini(oldest);
    ring->first++;
    ring->n--;
}

bool pp_ring_push(struct pp_ring *ring, const struct pp_event *e)
{
    struct pp_ring_entry entry;

    pp_assert(e->seq > (ring->n > 0 ? pp_ring_at(ring, ring->n - 1)->seq : ring->from),
              "an event is not above the newest in the ring");
    if (!entry_init(&entry, e))
        return false;
    if (ring->n == PP_RING_EVENTS)
        drop_oldest(ring);
    pp_assert(!cell(ring, ring->n)->key, "the next cell of the ring is in use");
    *cell(ring, ring->n++) = entry;
    ring->bytes += entry.bytes;
    return true;
}

bool pp_ring_encode(struct pp_ring *ring, size_t i)
{
    pp_assert(i < ring->n, "an entry beyond the end of the ring");
    struct pp_ring_entry *entry = cell(ring, i);

    pp_assert(!entry->event == (entry->pieces[PP_SUB_SSE] != NULL), "an entry is half encoded");
    if (!entry->event)
        return true;
    struct pp_piece *json = encode_json(entry->event), *sse = json ? encode_sse(entry->event, json) : NULL;
    if (!sse) {
        pp_piece_unref(json);
        return false;
    }
    entry->pieces[PP_SUB_JSON] = json;
    entry->pieces[PP_SUB_SSE] = sse;
    free(entry->event);
    entry->event = NULL;
    return true;
}

void pp_ring_trim(struct pp_ring *ring)
{
    while (ring->bytes > PP_RING_BYTES && ring->n > 1)
        drop_oldest(ring);
}

void pp_ring_clear(struct pp_ring *ring, uint64_t from)
{
    while (ring->n > 0)
        drop_oldest(ring);
    pp_assert(ring->bytes == 0, "an empty ring has bytes");
    pp_assert(from >= ring->from, "the ring goes back");
    ring->from = from;
}
