/* parse.h: parses the body of POST /v1/batches into an entry of the ingest queue (core/entry.h),
 * and a verdict for each item that is rejected.
 *
 *   body --json_scan--> items, one by one --jansson--> checks --> entry, or
 *                                                 {"index","id","code","field","detail"}
 *
 * An error in the document refuses the whole request; an error in the form of an item rejects that
 * item. A bad URL does not reject an item: its photo fails later. Only one item at a time is in
 * memory as jansson objects, so memory is bounded by about twice the body. The functions have no
 * side effects except malloc, and any thread may call them. */
#ifndef PHOTOPOOL_PIPELINE_ACCEPT_PARSE_H
#define PHOTOPOOL_PIPELINE_ACCEPT_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "photopool/port/http_server.h"
#include "photopool/task.h"
#include "pipeline/common/metrics.h"

#define PP_META_MAX 1024 /* `meta` has at most this many bytes as compact JSON */
/* A URL can be fetched if it has at most this many bytes. A photo with a longer URL is accepted,
 * and fails with bad_url later. */
#define PP_URL_FIT 8192
/* An item may have this many JSON values in addition to its photos; an item with more is rejected
 * before it is parsed. The fields of an item and a valid meta object have at most 600. */
#define PP_ITEM_VALUES_SPARE 4096

#define PP_REJECTED_SHOWN 1000 /* an answer shows at most this many verdicts */

struct pp_batch_body {
    const char *p;
    size_t n;
    bool ndjson;
    uint32_t max_items, max_photos;
};

struct pp_batch_parsed {
    bool refused; /* true: the whole request is refused, and code, field and detail say why */
    enum pp_api_code code;
    char field[80]; /* name of the field with the error; "": none */
    char detail[320];

    /* The fields of the batch, from a JSON body; an NDJSON request has them in its query. */
    char client[PP_CLIENT_MAX + 1];
    char label[PP_LABEL_MAX + 1]; /* "": none */
    enum pp_refresh refresh;
    int64_t max_age_ms; /* 0: none */

    struct pp_buf entry;
    uint32_t n_items; /* number of items in the entry */
    uint64_t n_photos;
    /* The verdicts on the first PP_REJECTED_SHOWN rejected items, as a JSON array. The entry has
     * all of them. */
    struct pp_buf rejected;
    uint32_t n_rejected;                          /* number of all rejected items */
    uint32_t rejected_by[PP_REJECTED_CODE_COUNT]; /* and by code (common/metrics.h) */
};

/* Parses the body into `out`, which the caller frees with pp_batch_parsed_fini() in any case. */
void pp_batch_parse(const struct pp_batch_body *body, struct pp_batch_parsed *out);
void pp_batch_parsed_fini(struct pp_batch_parsed *out);

/* Converts "known", "changed" or "always". Returns false for any other name. */
bool pp_refresh_parse(const char *name, enum pp_refresh *out);
const char *pp_refresh_name(enum pp_refresh refresh);

#endif
