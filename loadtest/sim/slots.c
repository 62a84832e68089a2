/* slots.c: watches which worker holds each slot. When workers crash, it counts the slots that
 * move soon after although their holder lives, and their client has work: a crash is no reason for
 * that. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"
#include "base/hash.h"
#include "scale.h"

/* The share of a client, and its latest holder. */
struct slot {
    UT_hash_handle hh;
    unsigned holder; /* number of the holder's process */
    bool held;       /* false: the holder has released it */
    bool watched;    /* it was held when workers crashed, and has not moved since */
    uint32_t share;
    char client[]; /* with its NUL; key of the hash, with the share before it */
};

struct scale_slots {
    struct scale_fleet *f;
    struct slot *all;
    int64_t until_ms; /* until then moves count; 0: nobody has crashed */
    /* slots of clients with endless work that living workers held then; those of them that moved */
    uint64_t kept, moved;
};

static size_t key_size(const char *client)
{
    return sizeof(uint32_t) + strlen(client);
}

static struct slot *slot_of(struct scale_slots *s, const char *client, uint32_t share)
{
    size_t n = key_size(client);
    struct slot *made = calloc(1, sizeof *made + strlen(client) + 1), *found;

    pp_assert(made, "the simulator needs memory");
    made->share = share;
    memcpy(made->client, client, strlen(client) + 1);
    HASH_FIND(hh, s->all, &made->share, n, found);
    if (found) {
        free(made);
        return found;
    }
    pp_assert(PP_HASH_ADD(s->all, &made->share, n, made), "the simulator needs memory");
    return made;
}

static void on_granted(struct scale_slots *s, const char *client, uint32_t share, unsigned worker)
{
    struct slot *t = slot_of(s, client, share);

    if (t->watched && t->holder != worker && pp_sim_now_ms(s->f->world) < s->until_ms) {
        s->moved++;
        t->watched = false;
    }
    t->holder = worker;
    t->held = true;
}

static void on_ran(void *data, const struct scale_line *line, const struct pp_memory_call *call)
{
    struct scale_slots *s = data;

    if (call->err != PP_OK)
        return;
    if (strcmp(call->op->name, "acquire") == 0) {
        const struct pp_coord_acquire *r = (const struct pp_coord_acquire *)call->req;
        const struct pp_mc_slot *slots = pp_mc_call_of(call->req)->answer;
        for (size_t i = 0; i < r->n; i++)
            if (slots[i].granted)
                on_granted(s, r->wants[i].client, slots[i].share, line->number);
    } else if (strcmp(call->op->name, "release") == 0) {
        const struct pp_coord_release *r = (const struct pp_coord_release *)call->req;
        for (size_t i = 0; i < r->n; i++)
            slot_of(s, r->renewals[i].client, r->renewals[i].share)->held = false;
    }
}

struct scale_slots *scale_slots_open(struct scale_fleet *f)
{
    struct scale_slots *s = calloc(1, sizeof *s);

    pp_assert(s, "the simulator needs memory");
    s->f = f;
    f->servers[SCALE_REDIS].ran = on_ran;
    f->servers[SCALE_REDIS].ran_data = s;
    return s;
}

uint64_t scale_slots_crashed(struct scale_slots *s, int64_t until_ms)
{
    uint64_t lost = 0;
    struct slot *t, *next;

    s->until_ms = until_ms;
    HASH_ITER (hh, s->all, t, next) {
        if (!t->held)
            continue;
        if (s->f->nodes[t->holder - 1].gone) {
            lost++;
            scale_load_disturbed(s->f->load, t->client);
            continue;
        }
        t->watched = scale_load_is_endless(s->f->load, t->client);
        s->kept += t->watched;
    }
    return lost;
}

void scale_slots_report(const struct scale_slots *s, struct scale_result *r)
{
    r->slots_kept = s->kept;
    r->slots_moved = s->moved;
}
