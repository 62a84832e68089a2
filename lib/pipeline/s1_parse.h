/* s1_parse.h: the body of POST /v1/batches, to what goes into the ingest queue (core/entry.h) and a verdict
 * for each item that does not.
 *
 *   body --json_scan--> items one by one --jansson--> checks --> entry |
 * {"index","id","code","field","detail"}
 *
 * What is wrong with the document refuses the request; what is wrong with the form of an item rejects that
 * item. What is wrong with a URL is found later, and is no reason to reject. One item at a time is in memory
 * as objects, so that memory is bounded by the body, about twice. Pure but for malloc; any thread. */
#ifndef PHOTOPOOL_PIPELINE_S1_PARSE_H
#define PHOTOPOOL_PIPELINE_S1_PARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "photopool/port/http_server.h"
#include "photopool/task.h"

#define PP_META_MAX 1024 /* bytes of compact JSON */
#define PP_URL_FIT  8192 /* a longer URL is kept as a photo that will fail with bad_url */
/* Values in one item beyond its photos: its own fields and a meta object have some 600 at most. An item with
 * more is rejected without being parsed. */
#define PP_ITEM_VALUES_SPARE 4096

struct pp_batch_body {
    const char *p;
    size_t n;
    bool ndjson;
    uint32_t max_items, max_photos;
};

struct pp_batch_parsed {
    bool refused; /* then the next three say why */
    enum pp_api_code code;
    char field[80]; /* "": none */
    char detail[320];

    /* JSON only; of NDJSON they stand in the query. */
    char client[PP_CLIENT_MAX + 1];
    enum pp_refresh refresh;

    struct pp_buf entry;
    uint32_t n_items; /* in the entry */
    uint64_t n_photos;
    struct pp_buf rejected; /* a JSON array */
    uint32_t n_rejected;
};

/* Fills `out`, which must be given to pp_batch_parsed_fini() in any case. */
void pp_batch_parse(const struct pp_batch_body *body, struct pp_batch_parsed *out);
void pp_batch_parsed_fini(struct pp_batch_parsed *out);

/* "known", "changed", "always"; false for anything else. */
bool pp_refresh_parse(const char *name, enum pp_refresh *out);
const char *pp_refresh_name(enum pp_refresh refresh);

#endif
