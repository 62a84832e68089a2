/* docs.h: converts values to and from BSON. README.md describes the documents and their fields.
 *
 * template.c calls the writers: commands.h defines which fields a document has. A reader takes a
 * table of fields and copies strings into an arena. It leaves the member of a missing field
 * unchanged, and returns PP_ECORRUPT for a field of the wrong type, or a number too large for an
 * 8-bit or 16-bit member. */
#ifndef PP_ADAPTER_MONGO_DOCS_H
#define PP_ADAPTER_MONGO_DOCS_H

#include <bson/bson.h>

#include "base/arena.h"
#include "photopool/err.h"
#include "photopool/task.h"

/* --- writing: each function appends a field --- */

void pp_mg_put_bytes(bson_t *b, const char *name, int name_n, const void *p, size_t n);
/* Appends a string; as binary if its bytes are not UTF-8. */
void pp_mg_put_text(bson_t *b, const char *name, int name_n, const char *text);
void pp_mg_put_object(bson_t *b, const char *name, int name_n, const struct pp_object *o);
void pp_mg_put_outcome(bson_t *b, const char *name, int name_n, const struct pp_outcome *o);

/* Returns the first 32 bits of a key (t.h). */
int64_t pp_mg_hash(const struct pp_key *key);

/* Returns a task's place in its queue (t.g): its due time in units of 1,024 ms ("seconds"). Within
 * a second the index is ordered by hash. So a slot that owns a hundredth of the hashes finds its
 * tasks with one index step per second; if each task had a place of its own, it would take a
 * hundred steps per task. pp_mg_second_back() rounds up, for tasks that return to the queue: so
 * tasks that are not due yet do not precede due ones. */
int64_t pp_mg_second(int64_t due_ms);
int64_t pp_mg_second_back(int64_t due_ms);
/* Returns the due time of the task at a position in its chunk (t.due). All tasks of a chunk are
 * due in the same millisecond; fractions keep them in order. */
double pp_mg_due_in_order(int64_t due_ms, size_t at);

/* Returns "client/item/revision", allocated in the arena. NULL: out of memory. */
char *pp_mg_item_id(struct pp_arena *a, const char *client, const char *item, uint32_t revision);

/* --- reading: tables of fields --- */

/* Maps a field of a document to a member of a struct. A table ends with a NULL name. */
struct pp_mg_field {
    const char *name;
    char type;
    size_t at, length_at;             /* offsets of the members */
    const struct pp_mg_field *fields; /* 'D': fields of the subdocument; 'L': fields of an element */
    size_t limit;                     /* 'E': the lowest number that is no value; 'L': size of an element */
};
/* A field whose type follows from its member; enums are 4 bytes. */
#define PP_MG_FIELD(name, type, member)                                                                        \
    {                                                                                                          \
        name, _Generic(((type *)0)->member, bool: 'b', uint8_t: '1', uint16_t: '2', uint32_t: '4', int: '4', \
                    int64_t: '8', uint64_t: '8', double: 'f', const char *: 's', uint8_t *: 'h',        \
                    struct pp_key: 'k', struct pp_object: 'O', struct pp_outcome: 'X'),                 \
     offsetof(type, member), 0, NULL, 0 \
    }
/* A required string. */
#define PP_MG_FIELD_TEXT(name, type, member)          \
    {                                                 \
        name, 'S', offsetof(type, member), 0, NULL, 0 \
    }
/* A required string or binary, with a uint32_t member for its length. */
#define PP_MG_FIELD_BYTES(name, type, member, length)                      \
    {                                                                      \
        name, 'B', offsetof(type, member), offsetof(type, length), NULL, 0 \
    }
/* An enum whose values are below `end`. */
#define PP_MG_FIELD_ENUM(name, type, member, end)       \
    {                                                   \
        name, 'E', offsetof(type, member), 0, NULL, end \
    }
/* An array of documents, which becomes an array of structs; `number` is a uint32_t member. */
#define PP_MG_FIELD_LIST(name, type, member, number, fields)                                           \
    {                                                                                                  \
        name, 'L', offsetof(type, member), offsetof(type, number), fields, sizeof *((type *)0)->member \
    }
/* A subdocument whose fields belong to the same struct. */
#define PP_MG_FIELD_WITHIN(name, fields) \
    {                                    \
        name, 'D', 0, 0, fields, 0       \
    }

/* Reads a document into the struct `out`. PP_ECORRUPT also: a required field is missing. */
pp_must_check enum pp_err pp_mg_read(const bson_t *doc, const struct pp_mg_field *fields, struct pp_arena *a,
                                     void *out);
size_t pp_mg_list_length(const bson_t *doc, const char *name);

/* The fields of struct pp_item, except claimed, tier and due_ms of its open photos. */
extern const struct pp_mg_field pp_mg_item_fields[];
pp_must_check enum pp_err pp_mg_read_outcome(const bson_iter_t *it, struct pp_arena *a, struct pp_outcome *o);
/* Reads a photo's record, without its task. Sets `found` if the record has an object or a failure
 * history. */
pp_must_check enum pp_err pp_mg_read_photo(const bson_t *doc, struct pp_arena *a, struct pp_photo *p);

/* --- reading: single fields, by dotted path --- */

int64_t pp_mg_int(const bson_iter_t *it); /* any number or bool; 0 for other types */
bool pp_mg_find(const bson_t *doc, const char *path, bson_iter_t *at);
int64_t pp_mg_doc_int(const bson_t *doc, const char *path); /* 0: the field is missing */
/* Returns a text inside the document; it is valid as long as the document. NULL: the field is
 * missing. */
const char *pp_mg_doc_text(const bson_t *doc, const char *path);
/* Copies a text into the arena. PP_ECORRUPT: the field is missing. */
pp_must_check enum pp_err pp_mg_doc_copy(const bson_t *doc, const char *path, struct pp_arena *a,
                                         const char **text);
pp_must_check enum pp_err pp_mg_read_key(const bson_iter_t *it, struct pp_key *key);

/* --- sorted lists of photo keys --- */

struct pp_mg_place {
    struct pp_key key;
    uint32_t at; /* index of the photo at this place; places with equal keys are sorted by this index */
};

void pp_mg_places_sort(struct pp_mg_place *places, size_t n);
/* Returns the first place with this key. NULL: there is none. */
const struct pp_mg_place *pp_mg_places_find(const struct pp_mg_place *places, size_t n,
                                            const struct pp_key *key);
/* Sorts the keys, removes duplicates, and returns how many are left. */
size_t pp_mg_keys_unique(struct pp_key *keys, size_t n);
/* Returns the index of a key in sorted keys; n: it is not among them. */
size_t pp_mg_keys_at(const struct pp_key *sorted, size_t n, const struct pp_key *key);

#endif
