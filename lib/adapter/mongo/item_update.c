/* item_update.c: see item_update.h. The pipeline has two stages: photos and `ok` first, then what follows
 * from them. */
#include "item_update.h"

#include <stdio.h>
#include <string.h>

static const char done_json[] = "{\"$eq\": [{\"$size\": \"$" F_OPEN "\"}, 0]}";
/* 1 complete, 2 partial, 3 failed; 0 while open. */
static const char status_json[] =
    "{\"$let\": {\"vars\": {\"n\": {\"$size\": \"$" F_PHOTOS
    "\"}, \"w\": {\"$size\": {\"$filter\": {\"input\": \"$" F_PHOTOS
    "\", \"as\": \"p\", \"cond\": {\"$in\": [\"$$p." F_P_OUTCOME ".k\", [1, 2]]}}}}}, \"in\": {\"$cond\": ["
    "{\"$eq\": [\"$$w\", \"$$n\"]}, 1, {\"$cond\": [{\"$eq\": [\"$$w\", 0]}, 3, 2]}]}}}";
_Static_assert(PP_ITEM_COMPLETE == 1 && PP_ITEM_PARTIAL == 2 && PP_ITEM_FAILED == 3 && PP_ITEM_OPEN == 0 &&
                   PP_OUTCOME_STORED == 1 && PP_OUTCOME_UNCHANGED == 2,
               "the numbers in the expressions");

/* One branch of the switch: photos with this key get their outcome. */
static void put_branch(bson_t *branches, uint32_t number, const struct pp_mg_answer *answer)
{
    bson_t branch, test, eq, then, merge, literal, fields;
    char buf[16];
    const char *at;
    bson_uint32_to_string(number, &at, buf, sizeof buf);
    BSON_APPEND_DOCUMENT_BEGIN(branches, at, &branch);
    BSON_APPEND_DOCUMENT_BEGIN(&branch, "case", &test);
    BSON_APPEND_ARRAY_BEGIN(&test, "$eq", &eq);
    BSON_APPEND_UTF8(&eq, "0", "$$p." F_P_KEY);
    pp_mg_put_key(&eq, "1", &answer->key);
    bson_append_array_end(&test, &eq);
    bson_append_document_end(&branch, &test);
    BSON_APPEND_DOCUMENT_BEGIN(&branch, "then", &then);
    BSON_APPEND_ARRAY_BEGIN(&then, "$mergeObjects", &merge);
    BSON_APPEND_UTF8(&merge, "0", "$$p");
    BSON_APPEND_DOCUMENT_BEGIN(&merge, "1", &literal);
    BSON_APPEND_DOCUMENT_BEGIN(&literal, "$literal", &fields);
    pp_mg_put_outcome(&fields, F_P_OUTCOME, &answer->outcome);
    bson_append_document_end(&literal, &fields);
    bson_append_document_end(&merge, &literal);
    bson_append_array_end(&then, &merge);
    bson_append_document_end(&branch, &then);
    bson_append_document_end(branches, &branch);
}

/* {$cond: [{$eq: [{$type: "$$p.o"}, "missing"]}, {$switch: ...}, "$$p"]} */
static void put_choice(bson_t *map, const struct pp_mg_answer *const *answers, size_t n)
{
    bson_t in, cond, open, eq, type, sw, body, branches;
    BSON_APPEND_DOCUMENT_BEGIN(map, "in", &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$cond", &cond);
    BSON_APPEND_DOCUMENT_BEGIN(&cond, "0", &open);
    BSON_APPEND_ARRAY_BEGIN(&open, "$eq", &eq);
    BSON_APPEND_DOCUMENT_BEGIN(&eq, "0", &type);
    BSON_APPEND_UTF8(&type, "$type", "$$p." F_P_OUTCOME);
    bson_append_document_end(&eq, &type);
    BSON_APPEND_UTF8(&eq, "1", "missing");
    bson_append_array_end(&open, &eq);
    bson_append_document_end(&cond, &open);
    BSON_APPEND_DOCUMENT_BEGIN(&cond, "1", &sw);
    BSON_APPEND_DOCUMENT_BEGIN(&sw, "$switch", &body);
    BSON_APPEND_ARRAY_BEGIN(&body, "branches", &branches);
    for (size_t i = 0; i < n; i++)
        put_branch(&branches, (uint32_t)i, answers[i]);
    bson_append_array_end(&body, &branches);
    BSON_APPEND_UTF8(&body, "default", "$$p");
    bson_append_document_end(&sw, &body);
    bson_append_document_end(&cond, &sw);
    BSON_APPEND_UTF8(&cond, "2", "$$p");
    bson_append_array_end(&in, &cond);
    bson_append_document_end(map, &in);
}

/* {$set: {ph: {$map: ...}, ok: {$setDifference: ["$ok", keys]}}} */
static void put_outcomes(bson_t *pipeline, const struct pp_mg_answer *const *answers, size_t n)
{
    bson_t stage, set, photos, map, open, lists, keys;
    char buf[16];
    const char *at;
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "0", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
    BSON_APPEND_DOCUMENT_BEGIN(&set, F_PHOTOS, &photos);
    BSON_APPEND_DOCUMENT_BEGIN(&photos, "$map", &map);
    BSON_APPEND_UTF8(&map, "input", "$" F_PHOTOS);
    BSON_APPEND_UTF8(&map, "as", "p");
    put_choice(&map, answers, n);
    bson_append_document_end(&photos, &map);
    bson_append_document_end(&set, &photos);
    BSON_APPEND_DOCUMENT_BEGIN(&set, F_OPEN, &open);
    BSON_APPEND_ARRAY_BEGIN(&open, "$setDifference", &lists);
    BSON_APPEND_UTF8(&lists, "0", "$" F_OPEN);
    BSON_APPEND_ARRAY_BEGIN(&lists, "1", &keys);
    for (size_t i = 0; i < n; i++) {
        bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        pp_mg_put_key(&keys, at, &answers[i]->key);
    }
    bson_append_array_end(&lists, &keys);
    bson_append_array_end(&open, &lists);
    bson_append_document_end(&set, &open);
    bson_append_document_end(&stage, &set);
    bson_append_document_end(pipeline, &stage);
}

/* {name: {$cond: [done, then, otherwise]}}: begun here, `then` and the end are the caller's. */
static void cond_begin(bson_t *set, const struct pp_mg_item_ends *e, const char *name, bson_t *doc,
                       bson_t *cond)
{
    bson_append_document_begin(set, name, -1, doc);
    BSON_APPEND_ARRAY_BEGIN(doc, "$cond", cond);
    BSON_APPEND_DOCUMENT(cond, "0", &e->done);
}

static void cond_end(bson_t *set, bson_t *doc, bson_t *cond)
{
    bson_append_array_end(doc, cond);
    bson_append_document_end(set, doc);
}

/* {$set: {s, q, f, ok}}: the end, if nothing is open. */
static void put_end(bson_t *pipeline, const struct pp_mg_item_ends *e, int64_t seq)
{
    bson_t stage, set, doc, cond;
    BSON_APPEND_DOCUMENT_BEGIN(pipeline, "1", &stage);
    BSON_APPEND_DOCUMENT_BEGIN(&stage, "$set", &set);
    cond_begin(&set, e, F_STATUS, &doc, &cond);
    BSON_APPEND_DOCUMENT(&cond, "1", &e->status);
    BSON_APPEND_INT32(&cond, "2", PP_ITEM_OPEN);
    cond_end(&set, &doc, &cond);
    cond_begin(&set, e, F_SEQ, &doc, &cond);
    BSON_APPEND_INT64(&cond, "1", seq);
    BSON_APPEND_INT64(&cond, "2", 0);
    cond_end(&set, &doc, &cond);
    cond_begin(&set, e, F_FINISHED, &doc, &cond);
    BSON_APPEND_INT64(&cond, "1", e->now_ms);
    BSON_APPEND_UTF8(&cond, "2", "$$REMOVE");
    cond_end(&set, &doc, &cond);
    cond_begin(&set, e, F_OPEN, &doc, &cond);
    BSON_APPEND_UTF8(&cond, "1", "$$REMOVE");
    BSON_APPEND_UTF8(&cond, "2", "$" F_OPEN);
    cond_end(&set, &doc, &cond);
    bson_append_document_end(&stage, &set);
    bson_append_document_end(pipeline, &stage);
}

void pp_mg_item_update(bson_t *pipeline, const struct pp_mg_item_ends *e,
                       const struct pp_mg_answer *const *answers, size_t n, int64_t seq)
{
    put_outcomes(pipeline, answers, n);
    put_end(pipeline, e, seq);
}

void pp_mg_item_ends_init(struct pp_mg_item_ends *e, int64_t now_ms)
{
    e->now_ms = now_ms;
    if (!bson_init_from_json(&e->done, done_json, -1, NULL))
        bson_init(&e->done);
    if (!bson_init_from_json(&e->status, status_json, -1, NULL))
        bson_init(&e->status);
}

void pp_mg_item_ends_fini(struct pp_mg_item_ends *e)
{
    bson_destroy(&e->done);
    bson_destroy(&e->status);
}

/* --- an item as it was seen --- */

static bool answered(const struct pp_mg_item_seen *seen, const struct pp_key *key)
{
    for (size_t i = 0; i < seen->n_slots; i++)
        if (!memcmp(&seen->slots[i].answer->key, key, sizeof *key))
            return true;
    return false;
}

/* Its open keys; but_answered: without those that have an answer now. */
static void put_open(bson_t *b, const struct pp_mg_item_seen *seen, bool but_answered)
{
    bson_t keys;
    char buf[16];
    const char *at;
    uint32_t n = 0;
    BSON_APPEND_ARRAY_BEGIN(b, F_OPEN, &keys);
    for (size_t i = 0; i < seen->n_open; i++) {
        if (but_answered && answered(seen, &seen->open[i]))
            continue;
        bson_uint32_to_string(n++, &at, buf, sizeof buf);
        pp_mg_put_key(&keys, at, &seen->open[i]);
    }
    bson_append_array_end(b, &keys);
}

static uint32_t put_slots(bson_t *set, const struct pp_mg_item_seen *seen)
{
    char name[32];
    uint32_t with_bytes = seen->with_bytes;
    for (size_t i = 0; i < seen->n_slots; i++) {
        const struct pp_outcome *o = &seen->slots[i].answer->outcome;
        snprintf(name, sizeof name, F_PHOTOS ".%u." F_P_OUTCOME, seen->slots[i].at);
        pp_mg_put_outcome(set, name, o);
        with_bytes += o->kind == PP_OUTCOME_STORED || o->kind == PP_OUTCOME_UNCHANGED;
    }
    return with_bytes;
}

void pp_mg_item_update_seen(bson_t *filter, bson_t *update, const struct pp_mg_item_seen *seen,
                            int64_t now_ms, int64_t seq)
{
    bson_t set, unset;
    bool done = seen->n_answers == seen->n_open;
    put_open(filter, seen, false);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &set);
    uint32_t with_bytes = put_slots(&set, seen);
    if (done) {
        BSON_APPEND_INT32(&set, F_STATUS,
                          with_bytes == seen->photos ? PP_ITEM_COMPLETE
                          : with_bytes > 0           ? PP_ITEM_PARTIAL
                                                     : PP_ITEM_FAILED);
        BSON_APPEND_INT64(&set, F_SEQ, seq);
        BSON_APPEND_INT64(&set, F_FINISHED, now_ms);
    } else {
        put_open(&set, seen, true);
    }
    bson_append_document_end(update, &set);
    if (!done)
        return;
    BSON_APPEND_DOCUMENT_BEGIN(update, "$unset", &unset);
    BSON_APPEND_INT32(&unset, F_OPEN, 1);
    bson_append_document_end(update, &unset);
}
