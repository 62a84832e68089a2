/* fuzz_batch_json.c: fuzzes bodies of POST /v1/batches. The first byte of the input chooses JSON
 * (even) or NDJSON (odd). Checks that an accepted body becomes an entry with as many items and
 * photos as were counted, that verdicts are JSON, that each item has one verdict, and that jansson
 * parses every accepted document. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/entry.h"
#include "pipeline/accept/parse.h"
#include "pipeline/accept/rejected.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_entry(const struct pp_batch_parsed *out, const struct pp_batch_body *body)
{
    struct pp_entry_reader r;
    struct pp_entry_item item;
    const char *url;
    size_t n, items = 0, photos = 0, parts = 0;

    must(pp_entry_open(&r, out->entry.p, out->entry.n));
    while (pp_entry_next(&r, &item)) {
        if (item.rejected) {
            must(item.index == parts++);
            continue;
        }
        items++;
        must(pp_item_id_valid(item.id, item.id_n));
        must(item.meta_n <= PP_META_MAX && item.n_photos <= body->max_photos);
        if (item.meta) {
            json_t *meta = json_loadb(item.meta, item.meta_n, JSON_REJECT_DUPLICATES, NULL);
            must(json_is_object(meta));
            json_decref(meta);
        }
        while (pp_entry_next_photo(&r, &url, &n)) {
            photos++;
            must(n <= PP_URL_FIT + 4 && pp_utf8_valid(url, n));
        }
    }
    must(!r.r.failed && items == out->n_items && photos == out->n_photos);
    must(parts == (out->n_rejected + PP_REJECTED_PART - 1) / PP_REJECTED_PART);
}

static size_t check_rejected(const struct pp_batch_parsed *out)
{
    json_t *list = json_loadb(out->rejected.p, out->rejected.n, JSON_REJECT_DUPLICATES, NULL);
    must(json_is_array(list));
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++)
        must(json_is_string(json_object_get(json_array_get(list, i), "code")));
    json_decref(list);
    must(n == (out->n_rejected < PP_REJECTED_SHOWN ? out->n_rejected : PP_REJECTED_SHOWN));
    return n;
}

/* Checks that jansson parses the document, too. Not if an item was rejected: the parser does not
 * look into items that are too large, so the document may then be something else than JSON. */
static void check_against_jansson(const struct pp_batch_parsed *out, const struct pp_batch_body *body)
{
    json_error_t error;
    if (body->ndjson || out->n_rejected > 0)
        return;
    json_t *json = json_loadb(body->p, body->n, JSON_REJECT_DUPLICATES, &error);
    must(json && json_array_size(json_object_get(json, "items")) == out->n_items);
    must(strcmp(json_string_value(json_object_get(json, "client")), out->client) == 0);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pp_batch_parsed out;
    if (size == 0)
        return 0;
    const struct pp_batch_body body = {
        .p = (const char *)data + 1, .n = size - 1, .ndjson = data[0] & 1, .max_items = 20, .max_photos = 5};
    pp_batch_parse(&body, &out);
    if (!out.refused) {
        check_entry(&out, &body);
        check_rejected(&out);
        check_against_jansson(&out, &body);
        must(out.n_items + out.n_rejected <= body.max_items);
    }
    pp_batch_parsed_fini(&out);
    return 0;
}
