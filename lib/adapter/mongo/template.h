/* template.h: BSON documents from JSON templates with typed holes.
 *
 * A template has up to three parts (a command's filter, change and options). It is compiled once,
 * when the store is opened; filling it is a walk over its nodes, so that no operation parses text.
 *
 * A hole is a string '?name:t' in the place of a value; holes with the same name get the same
 * value. Filling takes the types of the holes in order of first appearance, and their values:
 *
 *   t  argument                          written as
 *   s  const char *                      string; binary where it is not UTF-8
 *   i  int64_t                           int64
 *   I  const int64_t *                   int64; NULL: absent
 *   d  int                               int32
 *   f  double                            double
 *   b  int                               bool
 *   e  const bool *                      bool; NULL: absent
 *   y  int                               true; 0: absent
 *   n  int                               null; 0: absent
 *   t  int64_t                           date, from ms
 *   o  const bson_oid_t *                object id
 *   h  const uint8_t *                   binary, PP_SHA256_BYTES
 *   k  const struct pp_key *             binary
 *   B  const void *, size_t              binary
 *   K  list of struct pp_key             array
 *   S  list of const char *              array of strings, without one that equals its predecessor
 *   L  list of int64_t                   array of int64
 *   O  const struct pp_object *          document; of type 0: absent
 *   X  const struct pp_outcome *         document
 *   D  const bson_t *                    document
 *   A  const bson_t *                    array
 *
 * A list is a pointer to its first element, the number of elements and the distance from one to
 * the next in bytes: PP_MG_LIST for an array, PP_MG_COLUMN for a member of each struct of an array.
 *
 * With a '?' after its type ('?name:s?') the pointer may be NULL: the value is absent. An absent
 * value leaves out its element, and a document with only absent values is left out. So a condition
 * can be optional.
 *
 * No function fails; if memory runs out, libbson aborts. Filling is thread safe. To add a type: add
 * a line above, and a case in read_value() and in append_value(). */
#ifndef PP_ADAPTER_MONGO_TEMPLATE_H
#define PP_ADAPTER_MONGO_TEMPLATE_H

#include <bson/bson.h>
#include <stdarg.h>

enum { PP_MG_FILTER, PP_MG_CHANGE, PP_MG_OPTIONS, PP_MG_PARTS };
enum { PP_MG_HOLES = 24 }; /* most holes of a template */

#define PP_MG_LIST(array, n)           (array), (size_t)(n), sizeof *(array)
#define PP_MG_COLUMN(array, n, member) &(array)->member, (size_t)(n), sizeof *(array)

struct pp_mg_template {
    bson_t *source;                 /* {"0": filter, "1": change, "2": options}; the nodes point into it */
    struct pp_mg_node *nodes;       /* nodes of all parts, each before its children */
    size_t n;                       /* number of nodes */
    int part[PP_MG_PARTS];          /* index of each part's node */
    char types[PP_MG_HOLES + 1];    /* type of each hole */
    bool optional[PP_MG_HOLES + 1]; /* hole accepts NULL, as an absent value */
    const char *names[PP_MG_HOLES]; /* text of each hole, in `source` */
};

/* Compiles the parts' texts; "" or NULL stands for an empty part. Aborts on a text that breaks
 * the rules above: that is a bug. */
void pp_mg_template_compile(struct pp_mg_template *t, const char *const texts[PP_MG_PARTS]);
void pp_mg_template_free(struct pp_mg_template *t); /* a zeroed template is allowed */

/* A template's parts with their values filled in. The arguments must live as long. */
struct pp_mg_filled {
    bson_t part[PP_MG_PARTS];
};
void pp_mg_template_fill(const struct pp_mg_template *t, const char *types, va_list values,
                         struct pp_mg_filled *out);
void pp_mg_filled_free(struct pp_mg_filled *f);
/* Fills only the change, and appends its fields to `out` (of an array, its elements from "0"). */
void pp_mg_template_append(const struct pp_mg_template *t, const char *types, va_list values, bson_t *out);

/* Parses a document written in JSON with single quotes. */
bson_t *pp_mg_json(const char *text);

#endif
