/* generation.c: which data set of the coordinator came first.
 *
 * meta/dataset: {first: its name}. Written once and never again: whoever asks with another name later learns
 * that the coordinator has lost its data since. */
#include <string.h>

#include "run.h"

enum pp_err pp_mg_generation(struct pp_mg_thread *t, struct pp_store_generation *r)
{
    bson_t filter, update, set, reply, doc;
    bson_iter_t it;
    bool found;

    r->first = false;
    bson_init(&filter);
    BSON_APPEND_UTF8(&filter, F_ID, "dataset");
    bson_init(&update);
    BSON_APPEND_DOCUMENT_BEGIN(&update, "$setOnInsert", &set);
    BSON_APPEND_UTF8(&set, "first", r->dataset);
    bson_append_document_end(&update, &set);
    enum pp_err err =
        pp_mg_find_and_modify(t, PP_MG_META, &filter, &update, true, true, &reply, &doc, &found);
    if (err == PP_OK && found && bson_iter_init_find(&it, &doc, "first") && BSON_ITER_HOLDS_UTF8(&it))
        r->first = strcmp(bson_iter_utf8(&it, NULL), r->dataset) == 0;
    bson_destroy(&reply);
    bson_destroy(&filter);
    bson_destroy(&update);
    return err;
}
