/* s3_xml.h: what a store answers in XML, read with expat: pages of names, and reasons of refusals.
 *
 * The bytes are those of a server that is trusted little: a document with a DTD, of the wrong kind, too deep
 * or with values that don't fit is refused as a whole (list) or says nothing (error). Elements that are not
 * named here are passed over. */
#ifndef PP_ADAPTER_S3_XML_H
#define PP_ADAPTER_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- ListObjectsV2 --- */

#define PP_S3_KEY_MAX   1025 /* bytes of a key, and a NUL */
#define PP_S3_TOKEN_MAX 2048

struct pp_s3_page {
    bool truncated;              /* there are more */
    char token[PP_S3_TOKEN_MAX]; /* what to ask for the next page with; not empty when truncated */
};

/* One name; its time is milliseconds since 1970. */
typedef void (*pp_s3_name_fn)(void *data, const char *key, size_t n, int64_t modified_ms);

/* Calls fn for each name of the page, in its order. False: it is no such page, or not a whole one; fn may
 * have been called for some. */
bool pp_s3_list_parse(const char *xml, size_t n, pp_s3_name_fn fn, void *data, struct pp_s3_page *page);

/* --- errors --- */

struct pp_s3_error {
    char code[64];     /* "NoSuchBucket"; letters and digits, else "" */
    char message[256]; /* printable ASCII, cut */
    char region[64];   /* where the bucket is, if the store says so */
};

/* Always leaves valid texts in `e`. False: it is no such document. */
bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e);

/* "2026-11-20T10:00:00.000Z", with any number of digits behind the point or none, in UTC, of the years 1970
 * to 9999. */
bool pp_s3_time_parse(const char *s, size_t n, int64_t *ms);

#endif
