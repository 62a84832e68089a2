/* tally.h: the progress of one or more batches: adds up the counts of GET /v1/batches/{id}, and
 * shows them as a bar, a summary or JSON. */
#ifndef PHOTOPOOL_TALLY_H
#define PHOTOPOOL_TALLY_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { PP_TALLY_COUNTS = 7 };

/* Names of outcomes in the order in which they are shown; [0] is "total", [1] is "open". */
extern const char *const pp_item_counts[PP_TALLY_COUNTS];
extern const char *const pp_photo_counts[PP_TALLY_COUNTS];

struct pp_tally {
    /* number of batches; number of them that are finished or cancelled */
    int64_t batches, finished;
    int64_t items[PP_TALLY_COUNTS], photos[PP_TALLY_COUNTS];
    double per_second;
    double eta_seconds; /* estimated seconds until the end; negative: unknown */
    json_t *errors;     /* number of failures by code; NULL: no failures */
};

/* Returns true if a batch is finished, or cancelled with all its items. (A batch is marked as
 * cancelled before its items are.) */
bool pp_batch_done(const json_t *batch);

/* Adds the counts of a batch to *p, which begins as all zeros. Returns false when out of memory. */
bool pp_tally_add(struct pp_tally *p, const json_t *batch);
void pp_tally_fini(struct pp_tally *p);

/* Returns true if every batch is finished. */
bool pp_tally_done(const struct pp_tally *p);
/* Returns true if every item is complete. */
bool pp_tally_complete(const struct pp_tally *p);

/* Appends one line of at most `width` columns, without a line break: the bar, then percent, count,
 * rate, ETA, and failures as in "100 failed, 50 skipped: 90 body_timeout, 60 http_404". The bar has
 * the same length for every batch. If the line is too long, parts are left out, the least important
 * first: rarer codes, ETA, rate, count, percent. If `width` is at least 20, the number of failures
 * is never left out. */
void pp_tally_bar(struct pp_buf *b, const struct pp_tally *p, size_t width, bool colour);
/* Appends lines with items by outcome, photos by outcome, and failures by code. */
void pp_tally_summary(struct pp_buf *b, const struct pp_tally *p, bool colour);
/* Returns a new object {"type": type, "batches", "finished", "items": {...}, "photos": {...},
 * "errors", "photos_per_second", "eta_seconds"}, or NULL when out of memory. */
json_t *pp_tally_json(const struct pp_tally *p, const char *type);

/* Appends how many of the items or photos are done, such as "30/1,200". `counts` is one of the two
 * arrays of struct pp_tally. */
void pp_put_share(struct pp_buf *b, const int64_t *counts);
/* Returns how many photos of a result are stored. Sets *error to the error of the first photo that
 * has one, or to NULL. */
size_t pp_photos_stored(const json_t *photos, const json_t **error);

/* Appends what failed or was skipped as a list for pp_put_fit_list: "150: 90 body_timeout, 60
 * http_404", or "12 http_404" if there is only one code. Appends nothing if nothing failed. */
void pp_put_failed(struct pp_buf *b, const struct pp_tally *p);

#endif
