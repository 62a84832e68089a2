/* forget.c: settled tasks go once their outcome is everywhere: many at a time, a while later, in one update
 * that costs a fraction of what it would as a part of each settlement.
 *
 * What a thread has not forgotten when its store closes, the reaper finds, or whoever plans the photo again.
 */
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

enum { FORGET_MAX = PP_MG_COMMAND_DOCS, FORGET_MANY = FORGET_MAX / 2, FORGET_AFTER_MS = 2000 };

struct pp_mg_forget {
    size_t n;
    int64_t first_ms; /* monotonic: when the first of them came */
    struct {
        struct pp_key key;
        int64_t nonce;
        char client[PP_CLIENT_MAX + 1];
    } task[FORGET_MAX];
};

void pp_mg_forget_later(struct pp_mg_thread *t, const char *client, const struct pp_key *key, int64_t nonce)
{
    struct pp_mg_forget *f = t->forget;
    if (!f)
        f = t->forget = calloc(1, sizeof *f);
    if (f && f->n == FORGET_MAX)
        pp_mg_forget_due(t, true);
    size_t n = strlen(client);
    if (!f || n > PP_CLIENT_MAX)
        return;
    if (f->n == 0)
        f->first_ms = pp_mg_monotonic_ms();
    f->task[f->n].key = *key;
    f->task[f->n].nonce = nonce;
    memcpy(f->task[f->n++].client, client, n + 1);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool put_clients(struct pp_mg_thread *t, bson_t *filter)
{
    struct pp_mg_forget *f = t->forget;
    size_t n = 0;
    const char **clients = pp_arena_array(&t->tmp, f->n, sizeof *clients);
    if (!clients)
        return false;
    for (size_t i = 0; i < f->n; i++)
        clients[i] = f->task[i].client;
    qsort(clients, f->n, sizeof *clients, by_text);
    for (size_t i = 0; i < f->n; i++)
        if (n == 0 || strcmp(clients[n - 1], clients[i]) != 0)
            clients[n++] = clients[i];
    pp_mg_put_texts_in(filter, F_CLIENT, clients, n);
    return true;
}

static void put_nonces(const struct pp_mg_forget *f, bson_t *filter)
{
    bson_t sub, values;
    char buf[16];
    const char *at;
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_T_NONCE, &sub);
    BSON_APPEND_ARRAY_BEGIN(&sub, "$in", &values);
    for (size_t i = 0; i < f->n; i++) {
        bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        BSON_APPEND_INT64(&values, at, f->task[i].nonce);
    }
    bson_append_array_end(&sub, &values);
    bson_append_document_end(filter, &sub);
}

void pp_mg_forget_due(struct pp_mg_thread *t, bool all)
{
    struct pp_mg_forget *f = t->forget;
    bson_t sub, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
    if (!f || f->n == 0 ||
        (!all && f->n < FORGET_MANY && pp_mg_monotonic_ms() - f->first_ms < FORGET_AFTER_MS))
        return;
    struct pp_key *keys = pp_arena_array(&t->tmp, f->n, sizeof *keys);
    for (size_t i = 0; i < f->n && keys; i++)
        keys[i] = f->task[i].key;
    if (keys && put_clients(t, &filter)) {
        pp_mg_put_keys_in(&filter, F_ID, keys, f->n);
        BSON_APPEND_INT32(&filter, F_T_STATE, PP_MG_SETTLED);
        put_nonces(f, &filter);
        BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &sub);
        BSON_APPEND_INT32(&sub, F_TASK, 1);
        bson_append_document_end(&update, &sub);
        enum pp_err err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "_id_", NULL);
        (void)err; /* they are found again */
    }
    f->n = 0;
    bson_destroy(&filter);
    bson_destroy(&update);
}

void pp_mg_forget_free(struct pp_mg_thread *t)
{
    free(t->forget);
    t->forget = NULL;
}
