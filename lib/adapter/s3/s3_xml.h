/* s3_xml.h: parses the XML that a store answers, by expat: pages of object names, and error
 * documents.
 *
 * The bytes come from a server that is not trusted. A document with a DTD, of the wrong kind, too
 * deep or with values that do not fit is refused as a whole. Unknown elements are skipped. All
 * functions are pure; any thread may call them. */
#ifndef PP_ADAPTER_S3_XML_H
#define PP_ADAPTER_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- ListObjectsV2 --- */

#define PP_S3_KEY_MAX   1025 /* bytes of an object's key, with its NUL */
#define PP_S3_TOKEN_MAX 2048 /* bytes of a page token, with its NUL */

struct pp_s3_page {
    bool truncated;              /* more pages follow */
    char token[PP_S3_TOKEN_MAX]; /* requests the next page; not empty if `truncated` */
};

/* Gets one object of a page. `modified_ms` is when it was last written, in ms since 1970. */
typedef void (*pp_s3_name_fn)(void *data, const char *key, size_t n, int64_t modified_ms);

/* Calls fn for each object of the page, in order. Returns false if the page is incomplete or
 * invalid; fn may have been called for some objects by then. */
bool pp_s3_list_parse(const char *xml, size_t n, pp_s3_name_fn fn, void *data, struct pp_s3_page *page);

/* --- errors --- */

struct pp_s3_error {
    /* The store's error code, such as "NoSuchBucket"; "" if it has characters other than letters,
     * digits and hyphens. */
    char code[64];
    char message[256]; /* the store's error text as printable ASCII, cut if it is too long */
    char region[64];   /* the bucket's region if the store names it, else "" */
};

/* Parses an error document, and always leaves valid texts in `e`. Returns false if the document is
 * no error document. */
bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e);

/* Parses "2026-11-20T10:00:00.000Z" to ms since 1970. The seconds may have any number of decimals;
 * the year is 1970 to 9999. */
bool pp_s3_time_parse(const char *s, size_t n, int64_t *ms);

#endif
