/* ids.h: makes the ids of photos, batches and results, and the names of objects. Any thread may
 * call these functions. They are pure, but a batch id has a random part. */
#ifndef PHOTOPOOL_FORMAT_IDS_H
#define PHOTOPOOL_FORMAT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/url.h"
#include "photopool/port/blob_store.h"
#include "photopool/task.h"

/* Makes the key of (client, URL) from the canonical form, which `url` has. If the URL could not be
 * read (url->n is 0), the first PP_URL_MAX bytes of the `n` that were sent stand for it: such a URL
 * is never fetched. */
struct pp_key pp_photo_key(const char *client, const struct pp_url *url, const char *sent, size_t n);
/* The same, for a URL that has not been read yet (pp_key_of). */
struct pp_key pp_photo_key_sent(const char *client, const char *sent, size_t n);
/* Makes a new batch id in base 32: "b_", 9 digits of time, 12 random digits. Ids sort by time. */
void pp_batch_id_new(char out[PP_BATCH_ID_MAX], int64_t wall_ms);
/* Returns true if `s` has the form of a batch id. */
bool pp_batch_id_valid(const char *s);
/* Makes a result id from client, item and revision: "r_" and 26 digits of base 32. */
#define PP_RESULT_ID_MAX 32
void pp_result_id(char out[PP_RESULT_ID_MAX], const char *client, const char *item, uint32_t revision);
/* Hashes a text, which becomes an object of its own in a blob store. */
void pp_text_sha256(uint8_t out[32], const char *text);
/* Makes an object name such as "sha256/ab/cd/abcd....jpg". */
void pp_object_name(char out[PP_OBJECT_NAME_MAX], const struct pp_object *object);

#endif
