/* outcome.h: the outcome of one photo of an item revision, as one table of fields. Macros make from
 * the table the struct, its packing in SQLite, its documents in MongoDB and the members of results;
 * a test compares it with the schemas in openapi.json and asyncapi.json.
 *
 * To add a field: add a row at the end of the table, a line that fills the field in, and its member
 * in the two schemas. Never change a released row: the order of rows is the order of bytes in
 * SQLite. Results of items that were stored before a field existed do not show the field, so their
 * bytes never change. */
#ifndef PHOTOPOOL_OUTCOME_H
#define PHOTOPOOL_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_SHA256_BYTES 32

/* A stored object: the bytes of a photo in the blob store. */
struct pp_object {
    uint8_t sha256[PP_SHA256_BYTES];
    uint64_t bytes;
    uint32_t width, height; /* in pixels */
    uint8_t type;           /* the image type, an enum pp_image_type of core/sniff.h; 0: there is no object */
};

/* The numbers are stored: add new kinds at the end, and never change a number. */
enum pp_outcome_kind {
    PP_OUTCOME_OPEN,
    PP_OUTCOME_STORED,    /* photopool has fetched new bytes */
    PP_OUTCOME_UNCHANGED, /* photopool already had the bytes that the host offers */
    PP_OUTCOME_SKIPPED,   /* photopool answered from a recorded failure; no retry before retry_at */
    PP_OUTCOME_FAILED,
    PP_OUTCOME_CANCELLED,
    PP_OUTCOME_COUNT
};

/* True if an outcome of this kind has an object. */
static inline bool pp_outcome_has_bytes(enum pp_outcome_kind kind)
{
    return kind == PP_OUTCOME_STORED || kind == PP_OUTCOME_UNCHANGED;
}

/* True if an outcome of this kind has a failure code. A batch counts these outcomes as its
 * errors. */
static inline bool pp_outcome_has_code(enum pp_outcome_kind kind)
{
    return kind == PP_OUTCOME_FAILED || kind == PP_OUTCOME_SKIPPED;
}

/* The columns: the member, which is also the field's name in results; its type; where results show
 * it; its position among the members there (unique, from 0); when it is stored; its name in
 * MongoDB. MongoDB omits fields that are zero.
 *
 * The column "stored" is ALWAYS (in every outcome), BYTES or NO_BYTES (in kinds with or without an
 * object), or BIT0 to BIT7 (if the value is not 0 or NULL). A new field takes an unused bit, and
 * results show it only if it is stored. */
#define PP_OUTCOME_FIELDS(X)                                                                            \
    X(code, code, CODE, 4, ALWAYS, "c")       /* a code of code.h; must be first (pp_packed_code()) */  \
    X(attempts, u32, ALWAYS, 2, ALWAYS, "at") /* number of transfers; redirects do not count */         \
    X(ms, u32, BYTES, 3, ALWAYS, "ms")        /* duration of the last transfer */                       \
    X(object, object, BYTES, 0, BYTES, "ob")                                                            \
    X(fetched_at, time, BYTES, 1, BYTES, "fa")  /* when the bytes were fetched */                       \
    X(retry_at, time, ERROR, 6, NO_BYTES, "ra") /* if SKIPPED, no retry before this time; 0: none */    \
    X(detail, text, CODE, 5, BIT4, "d")         /* a sentence that says more, <= 255 bytes, or NULL */  \
    X(checked_at, time, ERROR, 7, BIT2, "ca")   /* when the host was asked last; 0: it was not asked */ \
    X(skips_left, u32, ERROR, 8, BIT3, "sl")    /* if SKIPPED: how many more imports are SKIPPED */     \
    X(shared, flag, KNOWN, 9, BIT5, "sh")       /* another task's fetch gave the outcome */

/* The C types of the fields, and for each type a test whether a value is not 0 or NULL. Times are
 * milliseconds since 1970. */
#define PP_FIELD_code      uint16_t
#define PP_FIELD_u32       uint32_t
#define PP_FIELD_time      int64_t
#define PP_FIELD_text      const char *
#define PP_FIELD_object    struct pp_object
#define PP_FIELD_flag      bool
#define PP_GIVEN_code(v)   ((v) != 0)
#define PP_GIVEN_u32(v)    ((v) != 0)
#define PP_GIVEN_time(v)   ((v) != 0)
#define PP_GIVEN_text(v)   ((v) != NULL)
#define PP_GIVEN_object(v) ((v).type != 0)
#define PP_GIVEN_flag(v)   (v)

enum pp_outcome_shown {
    PP_SHOWN_ALWAYS = 1, /* results show the field in every outcome */
    PP_SHOWN_BYTES = 2,  /* results show the field beside the object */
    PP_SHOWN_CODE = 4,   /* results show the field in `error`, before http_status */
    PP_SHOWN_ERROR = 8,  /* results show the field in `error` */
    PP_SHOWN_KNOWN = 16  /* results show the field beside an object or an `error` */
};

enum pp_outcome_stored {
    /* the bits in use: bits 0, 1, 6 and 7 are free for new fields */
    PP_STORED_BIT2 = 1 << 2,
    PP_STORED_BIT3 = 1 << 3,
    PP_STORED_BIT4 = 1 << 4,
    PP_STORED_BIT5 = 1 << 5,
    PP_STORED_BITS = 0xff,
    PP_STORED_ALWAYS = 0x100,
    PP_STORED_BYTES = 0x200,
    PP_STORED_NO_BYTES = 0x400
};

enum pp_outcome_field {
#define X(member, type, shown, place, stored, bson) PP_OUTCOME_FIELD_##member,
    PP_OUTCOME_FIELDS(X)
#undef X
        PP_OUTCOME_FIELD_COUNT
};

struct pp_outcome {
    enum pp_outcome_kind kind;
#define X(member, type, shown, place, stored, bson) PP_FIELD_##type member;
    PP_OUTCOME_FIELDS(X)
#undef X
};

#endif
