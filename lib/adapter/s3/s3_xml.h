/* s3_xml.h: the XML that a store answers, read with expat: pages of names, and reasons of refusals.
 *
 * The bytes come from a server that is not trusted. A document with a DTD, of the wrong kind, too
 * deep or with values that do not fit is refused as a whole. Other elements are skipped. Pure
 * functions; any thread. */
#ifndef PP_ADAPTER_S3_XML_H
#define PP_ADAPTER_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- ListObjectsV2 --- */

#define PP_S3_KEY_MAX   1025 /* bytes of a key, including a NUL */
#define PP_S3_TOKEN_MAX 2048 /* bytes of a token, including a NUL */

struct pp_s3_page {
    bool truncated;              /* more pages follow */
    char token[PP_S3_TOKEN_MAX]; /* token that requests the next page; not empty if truncated */
};

/* Called for one object of a page; the object's time is in milliseconds since 1970. */
typedef void (*pp_s3_name_fn)(void *data, const char *key, size_t n, int64_t modified_ms);

/* Calls fn for each object of the page, in order. Returns false if the page is not whole or not
 * valid; fn may have been called for some objects. */
bool pp_s3_list_parse(const char *xml, size_t n, pp_s3_name_fn fn, void *data, struct pp_s3_page *page);

/* --- errors --- */

struct pp_s3_error {
    /* the store's code such as "NoSuchBucket"; "" if it has other characters than letters and
     * digits */
    char code[64];
    char message[256]; /* the store's message: printable ASCII, cut if it is too long */
    char region[64];   /* the bucket's region if the store gives it, else "" */
};

/* Reads an error document; always leaves valid texts in `e`. Returns false if the document is not
 * one. */
bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e);

/* Reads "2026-11-20T10:00:00.000Z" as milliseconds since 1970; it may have any number of decimals
 * and a year from 1970 to 9999. */
bool pp_s3_time_parse(const char *s, size_t n, int64_t *ms);

#endif
