/* docs.h: names of the documents' fields (README.md says what they mean), and values to and from BSON.
 *
 * Writers append to a document that the caller owns. Readers copy strings into an arena, take a field that is
 * missing as zero, and answer PP_ECORRUPT for one of another type. */
#ifndef PP_ADAPTER_MONGO_DOCS_H
#define PP_ADAPTER_MONGO_DOCS_H

#include <bson/bson.h>

#include "base/arena.h"
#include "photopool/err.h"
#include "photopool/task.h"

/* --- of all --- */
#define F_ID     "_id"
#define F_CLIENT "c"

/* --- photos --- */
#define F_OBJECT        "o" /* {h b w ht t} */
#define F_OBJECT_HASH   "o.h"
#define F_FETCHED_AT    "fa"
#define F_ETAG          "et"
#define F_LAST_MODIFIED "lm"
#define F_FAIL_CODE     "fc"
#define F_FAIL_STREAK   "fs"
#define F_SKIPS         "sk"
#define F_FAILED_AT     "fl"
#define F_FAIL_DETAIL   "fd"
#define F_EPOCH         "e"
#define F_TASK          "t"
/* of the task: as in a filter, and within it */
#define F_T_STATE    "t.s"
#define F_T_QUEUE    "t.q"
#define F_T_HASH     "t.h"
#define F_T_DUE      "t.due"
#define F_T_SECOND   "t.g"
#define F_T_URL      "t.u"
#define F_T_DOMAIN   "t.d"
#define F_T_ALWAYS   "t.al"
#define F_T_COND     "t.cd"
#define F_T_TIER     "t.tier"
#define F_T_ATTEMPTS "t.at"
#define F_T_LOSSES   "t.l"
#define F_T_WORKER   "t.w"
#define F_T_NONCE    "t.n"
#define F_T_LEASE    "t.lu"
#define F_T_LEFT     "t.lv"
#define F_T_OUTCOME  "t.x"
#define F_T_CREATED  "t.cr"
#define IN_TASK(f)   ((f) + 2)

enum { PP_MG_WAITING = 1, PP_MG_CLAIMED = 2, PP_MG_SETTLED = 3 }; /* t.s */

/* --- items --- */
#define F_ITEM     "i"
#define F_REVISION "r"
#define F_BATCH    "b"
#define F_INDEX    "n"
#define F_META     "m"
#define F_CREATED  "cr"
#define F_STATUS   "s"
#define F_SEQ      "q"
#define F_FINISHED "f"
#define F_OPEN     "ok"
#define F_AT_ONCE  "ao"
#define F_PHOTOS   "ph"
/* of each photo */
#define F_P_URL     "u"
#define F_P_KEY     "k"
#define F_P_DOMAIN  "d"
#define F_P_OUTCOME "o" /* {k ob fa at ms c ra d} */

/* --- batches: also F_CREATED, F_FINISHED --- */
#define F_REFRESH   "rf"
#define F_N_ITEMS   "ni"
#define F_N_PHOTOS  "np"
#define F_BEGUN     "pb"
#define F_NUMBERED  "pd"
#define F_PLANNED   "pl"
#define F_CANCELLED "ca"
#define F_SUM       "sum"

/* Appends; `name` "" appends the object's fields themselves. A NULL text, or an object of type 0, appends
 * nothing. */
void pp_mg_put_key(bson_t *b, const char *name, const struct pp_key *key);
void pp_mg_put_bytes(bson_t *b, const char *name, const void *p, size_t n);
/* A string; bytes that are not UTF-8 are kept as binary. */
void pp_mg_put_text(bson_t *b, const char *name, const char *text);
void pp_mg_put_object(bson_t *b, const char *name, const struct pp_object *o);
void pp_mg_put_outcome(bson_t *b, const char *name, const struct pp_outcome *o);
/* {"name": {"$in": [...]}} */
void pp_mg_put_keys_in(bson_t *b, const char *name, const struct pp_key *keys, size_t n);
void pp_mg_put_texts_in(bson_t *b, const char *name, const char *const *texts, size_t n);
/* {"name": {"$exists": yes}} */
void pp_mg_put_exists(bson_t *b, const char *name, bool yes);

/* A key's first 32 bits (t.h). */
int64_t pp_mg_hash(const struct pp_key *key);

/* A task's place in its queue (t.g): the second in which it is due, of 1,024 ms. Within a second the index is
 * in order of hashes, so that a slot that has a hundredth of the hashes finds its tasks by one step a second;
 * with a place for each task it would be a hundred steps a task. One that comes back has the second after:
 * what is not due yet is not in the way of what is. */
int64_t pp_mg_second(int64_t due_ms);
int64_t pp_mg_second_back(int64_t due_ms);
/* What is planned together is due at once: fractions of a millisecond keep it in order (t.due), among what is
 * looked at together. */
double pp_mg_due_in_order(int64_t due_ms, size_t at);

/* "client/item/revision" in the arena. NULL: out of memory. */
char *pp_mg_item_id(struct pp_arena *a, const char *client, const char *item, uint32_t revision);

/* Readers. The field `it` stands on: */
int64_t pp_mg_int(const bson_iter_t *it); /* of any number or bool; else 0 */
pp_must_check enum pp_err pp_mg_read_key(const bson_iter_t *it, struct pp_key *key);
/* String or binary, with a NUL after it; `n` may be NULL. */
pp_must_check enum pp_err pp_mg_read_text(const bson_iter_t *it, struct pp_arena *a, const char **text,
                                          uint32_t *n);
pp_must_check enum pp_err pp_mg_read_object(const bson_iter_t *it, struct pp_object *o);
pp_must_check enum pp_err pp_mg_read_outcome(const bson_iter_t *it, struct pp_arena *a, struct pp_outcome *o);
/* Whole documents. A photo's record: not its task. `found`: there is an object or a failure. */
pp_must_check enum pp_err pp_mg_read_photo(const bson_t *doc, struct pp_arena *a, struct pp_photo *p);
/* All of an item but claimed, tier and due_ms of its open photos. */
pp_must_check enum pp_err pp_mg_read_item(const bson_t *doc, struct pp_arena *a, struct pp_item *item);
/* A number at a dotted path: 0 if it is not there. */
int64_t pp_mg_doc_int(const bson_t *doc, const char *path);
/* The text at a path, NULL if it is not there; valid as long as the document. */
const char *pp_mg_doc_text(const bson_t *doc, const char *path);

#endif
