/* queue.c: operations of the ingest queue. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "core/entry.h"
#include "measure.h"

enum { USUAL = 800, ENTRY_BYTES = 32 << 20, ACKED = 8 };

MEASURE_SUBMIT(append, m->queues[c->lane], append)
MEASURE_SUBMIT(take, m->queues[c->lane], take)
MEASURE_SUBMIT(ack, m->queues[c->lane], ack)
MEASURE_SUBMIT(stats, m->queues[c->lane], stats)

static uint64_t taken_photos(const struct call *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->r.take.n; i++)
        n += c->r.take.entries[i].n_photos;
    return n;
}

/* The items of a batch, as the acceptor encodes them. */
static void encode(struct measure *m, struct pp_buf *b, uint32_t photos)
{
    char id[NAME_BYTES], url[2 * NAME_BYTES];

    pp_buf_init(b, ENTRY_BYTES);
    pp_entry_begin(b);
    for (uint32_t i = 0; i < photos; i++) {
        if (i % ITEM_PHOTOS == 0) {
            int n = snprintf(id, sizeof id, "i%u", i);
            pp_entry_item(b, i / ITEM_PHOTOS, id, (size_t)n, NULL, 0, ITEM_PHOTOS);
        }
        int n = snprintf(url, sizeof url, "http://h0.c%llu.example/%u.jpg", (unsigned long long)m->names, i);
        pp_entry_photo(b, url, (size_t)n);
    }
}

static void append_all(struct measure *m, size_t n, uint32_t photos, struct pp_arena *names, const char **ids)
{
    struct section s = measure_section(m, "ingest", "append", n);
    struct pp_buf payload;

    encode(m, &payload, photos);
    s.submit = append;
    for (size_t i = 0; i < n; i++) {
        struct call *c = &s.calls[i];
        ids[i] = measure_name(m, names, "b_1m7yvq2yyeda3q");
        c->asked = photos;
        c->r.append = (struct pp_ingest_append){.entry = {.batch_id = ids[i],
                                                          .client = measure_name(m, &c->arena, "c"),
                                                          .created_at = pp_loop_wall(m->loop),
                                                          .n_items = photos / ITEM_PHOTOS,
                                                          .n_photos = photos,
                                                          .payload = payload.p,
                                                          .payload_n = payload.n},
                                                .high_water = 100000000,
                                                .max_bytes = (uint64_t)1 << 40,
                                                .max_keys = 100000,
                                                .now_ms = pp_loop_wall(m->loop)};
    }
    measure_timed(m, &s);
    measure_free(&s);
    pp_buf_fini(&payload);
}

/* Takes entries one by one; or finds none. */
static void take_all(struct measure *m, size_t n)
{
    static const char *const consumers[LANES] = {"in-1", "in-2", "in-3", "in-4",
                                                 "in-5", "in-6", "in-7", "in-8"};
    struct section s = measure_section(m, "ingest", "take", n);

    s.submit = take;
    s.got = taken_photos;
    for (size_t i = 0; i < n; i++)
        s.calls[i].r.take = (struct pp_ingest_take){
            .consumer = consumers[s.calls[i].lane], .limit = 1, .max_bytes = ENTRY_BYTES};
    measure_timed(m, &s);
    measure_free(&s);
}

static void ack_all(struct measure *m, size_t n, const char **ids, size_t per_call)
{
    struct section s = measure_section(m, "ingest", "ack", n / per_call);

    s.submit = ack;
    for (size_t i = 0; i < s.n; i++) {
        s.calls[i].asked = per_call;
        s.calls[i].r.ack = (struct pp_ingest_ack){.batch_ids = &ids[i * per_call], .n = per_call};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

static void ask_stats(struct measure *m)
{
    struct section s = measure_section(m, "ingest", "stats", measure_count(m, USUAL));

    s.submit = stats;
    measure_timed(m, &s);
    measure_free(&s);
}

void measure_queue(struct measure *m)
{
    static const uint32_t sizes[] = {10, 100, 1000};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = measure_count(m, sizes[i] == 1000 ? USUAL / 4 : USUAL);
        struct pp_arena names;
        pp_arena_init(&names, 0);
        const char **ids = pp_arena_array(&names, n, sizeof *ids);
        append_all(m, n, sizes[i], &names, ids);
        take_all(m, n);
        take_all(m, n);
        ack_all(m, n, ids, i % 2 ? 1 : ACKED);
        pp_arena_fini(&names);
    }
    ask_stats(m);
}
