/* tally.h: how far one batch, or several together, have come: sums of GET /v1/batches/{id}, and how they
 * are shown. */
#ifndef PHOTOPOOL_TALLY_H
#define PHOTOPOOL_TALLY_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { PP_TALLY_COUNTS = 7 };

/* Names in the order in which they are shown; [0] is "total", [1] is "open". */
extern const char *const pp_item_counts[PP_TALLY_COUNTS];
extern const char *const pp_photo_counts[PP_TALLY_COUNTS];

struct pp_tally {
    int64_t batches, finished; /* cancelled ones are finished, too */
    int64_t items[PP_TALLY_COUNTS], photos[PP_TALLY_COUNTS];
    double per_second;
    double eta_seconds; /* negative: not known */
    json_t *errors;     /* code -> count; NULL: none */
};

/* Finished; or cancelled, and its items too: it is called cancelled before they are. */
bool pp_batch_done(const json_t *batch);

/* *p is zeros before the first. False: out of memory. */
bool pp_tally_add(struct pp_tally *p, const json_t *batch);
void pp_tally_fini(struct pp_tally *p);

/* Every batch is done. */
bool pp_tally_done(const struct pp_tally *p);
/* Every item is complete. */
bool pp_tally_complete(const struct pp_tally *p);

/* One line of at most `width` columns, without its line break: the bar, which has one length for a given
 * `width`, then percent, count, rate, ETA, "100 failed, 50 skipped: 90 body_timeout, 60 http_404". What does
 * not fit is left out, the least important first: the rarer codes, ETA, rate, count, percent; never how many
 * have failed, from 20 columns up. */
void pp_tally_bar(struct pp_buf *b, const struct pp_tally *p, size_t width, bool colour);
/* Lines: items and photos by outcome, failures by code. */
void pp_tally_summary(struct pp_buf *b, const struct pp_tally *p, bool colour);
/* A new object, or NULL: {"type": type, "batches", "finished", "items": {...}, "photos": {...}, "errors",
 * "photos_per_second", "eta_seconds"}. */
json_t *pp_tally_json(const struct pp_tally *p, const char *type);

/* What failed or was skipped, as a list for pp_put_fit_list: "150: 90 body_timeout, 60 http_404", or "12
 * http_404" where there is one code; nothing where there is none. */
void pp_put_failed(struct pp_buf *b, const struct pp_tally *p);

#endif
