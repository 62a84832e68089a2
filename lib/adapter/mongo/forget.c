/* forget.c: settled tasks go once their outcome is everywhere: all of a call in one update, which costs a
 * fraction of what single ones would. A task that is not forgotten (the store failed, the process died) the
 * reaper finds, or whoever plans the photo again. */
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* {c: {$in: [...]}}, each once. */
static bool put_clients(struct pp_mg_thread *t, const struct pp_mg_settled *s, size_t n, bson_t *filter)
{
    size_t kept = 0;
    const char **clients = pp_arena_array(&t->tmp, n, sizeof *clients);
    if (!clients)
        return false;
    for (size_t i = 0; i < n; i++)
        clients[i] = s[i].client;
    qsort(clients, n, sizeof *clients, by_text);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(clients[kept - 1], clients[i]) != 0)
            clients[kept++] = clients[i];
    pp_mg_put_texts_in(filter, F_CLIENT, clients, kept);
    return true;
}

/* {_id: {$in: [...]}, t.s: 3, t.n: {$in: [...]}}: what was settled again since has another nonce. */
static bool build(struct pp_mg_thread *t, const struct pp_mg_settled *s, size_t n, bson_t *filter)
{
    bson_t sub, values;
    char buf[16];
    const char *at;
    struct pp_key *keys = pp_arena_array(&t->tmp, n, sizeof *keys);
    if (!keys || !put_clients(t, s, n, filter))
        return false;
    for (size_t i = 0; i < n; i++)
        keys[i] = s[i].key;
    pp_mg_put_keys_in(filter, F_ID, keys, n);
    BSON_APPEND_INT32(filter, F_T_STATE, PP_MG_SETTLED);
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_T_NONCE, &sub);
    BSON_APPEND_ARRAY_BEGIN(&sub, "$in", &values);
    for (size_t i = 0; i < n; i++) {
        bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        BSON_APPEND_INT64(&values, at, s[i].nonce);
    }
    bson_append_array_end(&sub, &values);
    bson_append_document_end(filter, &sub);
    return true;
}

void pp_mg_forget(struct pp_mg_thread *t, const struct pp_mg_settled *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t part = n - at < PP_MG_COMMAND_DOCS ? n - at : PP_MG_COMMAND_DOCS;
        bson_t sub, filter = BSON_INITIALIZER, update = BSON_INITIALIZER;
        BSON_APPEND_DOCUMENT_BEGIN(&update, "$unset", &sub);
        BSON_APPEND_INT32(&sub, F_TASK, 1);
        bson_append_document_end(&update, &sub);
        enum pp_err err = PP_ENOMEM;
        if (build(t, s + at, part, &filter))
            err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "_id_", NULL);
        bson_destroy(&filter);
        bson_destroy(&update);
        if (err != PP_OK)
            return;
        at += part;
    }
}
