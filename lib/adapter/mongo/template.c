/* template.c: see template.h. A template's nodes are in the order of its text: the children of a
 * document follow it, up to its `end`. A subtree without holes is one literal node, and is
 * copied. */
#include "template.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "docs.h"

enum node_kind { NODE_LITERAL, NODE_HOLE, NODE_DOCUMENT, NODE_ARRAY };

struct pp_mg_node {
    enum node_kind kind;
    int hole;   /* number of the hole */
    int name_n; /* length of `name` in bytes */
    size_t end; /* index of the first node after this one and its children */
    const char *name;
    bson_value_t value; /* for NODE_LITERAL: points into the template's source */
};

/* --- compiling --- */

bson_t *pp_mg_json(const char *text)
{
    size_t n = strlen(text);
    char *json = bson_malloc(n + 1);
    for (size_t i = 0; i <= n; i++)
        json[i] = text[i] == '\'' ? '"' : text[i];
    bson_t *doc = bson_new_from_json((const uint8_t *)json, (ssize_t)n, NULL);
    bson_free(json);
    pp_assert(doc, "a template is not JSON");
    return doc;
}

static bool is_hole(const bson_iter_t *it)
{
    return BSON_ITER_HOLDS_UTF8(it) && bson_iter_utf8(it, NULL)[0] == '?';
}

static bool is_nested(const bson_iter_t *it)
{
    return BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it);
}

static bool has_hole(const bson_iter_t *it)
{
    bson_iter_t in;
    bool found = is_hole(it);
    if (is_nested(it) && bson_iter_recurse(it, &in))
        while (!found && bson_iter_next(&in))
            found = has_hole(&in);
    return found;
}

/* Returns the number of the hole with this text ("?name:t" or "?name:t?"); a new text adds a
 * hole. */
static int hole_number(struct pp_mg_template *t, const char *text)
{
    const char *type = strchr(text, ':');
    pp_assert(type && type[1], "a hole has no type");
    int n = 0;
    for (; t->types[n]; n++)
        if (!strcmp(t->names[n], text))
            return n;
    pp_assert(n < PP_MG_HOLES, "a template has too many holes");
    t->names[n] = text;
    t->types[n] = type[1];
    t->optional[n] = type[2] == '?';
    return n;
}

static void add_node(struct pp_mg_template *t, const bson_iter_t *it)
{
    bson_iter_t in = *it; /* a copy, because reading the value changes the iterator */
    size_t number = t->n++;
    t->nodes = bson_realloc(t->nodes, t->n * sizeof *t->nodes);
    struct pp_mg_node *node = &t->nodes[number];
    *node = (struct pp_mg_node){
        .name = bson_iter_key(it), .name_n = (int)bson_iter_key_len(it), .value = *bson_iter_value(&in)};
    if (is_hole(it)) {
        node->kind = NODE_HOLE;
        node->hole = hole_number(t, bson_iter_utf8(it, NULL));
    } else if (has_hole(it)) {
        node->kind = BSON_ITER_HOLDS_ARRAY(it) ? NODE_ARRAY : NODE_DOCUMENT;
        bson_iter_recurse(it, &in);
        while (bson_iter_next(&in))
            add_node(t, &in);
    }
    t->nodes[number].end = t->n; /* not node->end: a child may have moved the array */
}

void pp_mg_template_compile(struct pp_mg_template *t, const char *const texts[PP_MG_PARTS])
{
    static const char *const names[PP_MG_PARTS] = {"0", "1", "2"};
    bson_iter_t it;
    *t = (struct pp_mg_template){.n = 0};
    t->source = bson_new();
    for (int i = 0; i < PP_MG_PARTS; i++) {
        char *text = bson_strdup_printf("{'%s': %s}", names[i], texts[i] && *texts[i] ? texts[i] : "{}");
        bson_t *part = pp_mg_json(text);
        bson_concat(t->source, part);
        bson_destroy(part);
        bson_free(text);
    }
    bson_iter_init(&it, t->source);
    for (int i = 0; bson_iter_next(&it); i++) {
        t->part[i] = (int)t->n;
        add_node(t, &it);
    }
}

void pp_mg_template_free(struct pp_mg_template *t)
{
    bson_destroy(t->source);
    bson_free(t->nodes);
    *t = (struct pp_mg_template){.n = 0};
}

/* --- values --- */

struct value {
    bool absent;
    union {
        const void *p;
        int64_t i;
        double f;
    };
    size_t n, stride; /* number of elements at p, and their distance in bytes */
};

static void read_pointer(struct value *v, bool optional, const void *p)
{
    v->p = p;
    v->absent = !p;
    pp_assert(p || optional, "a command lacks a value that it needs");
}

static void read_value(struct value *v, char type, bool optional, va_list *values)
{
    switch (type) {
    case 'i':
    case 't': v->i = va_arg(*values, int64_t); break;
    case 'd':
    case 'b': v->i = va_arg(*values, int); break;
    case 'y':
    case 'n':
        v->i = va_arg(*values, int);
        v->absent = !v->i;
        break;
    case 'f': v->f = va_arg(*values, double); break;
    case 'I':
    case 'e': read_pointer(v, true, va_arg(*values, const void *)); break;
    case 'B':
    case 'K':
    case 'S':
    case 'L':
        read_pointer(v, optional, va_arg(*values, const void *));
        v->n = va_arg(*values, size_t);
        v->stride = type == 'B' ? 1 : va_arg(*values, size_t);
        break;
    case 'O':
        read_pointer(v, optional, va_arg(*values, const void *));
        v->absent = v->absent || ((const struct pp_object *)v->p)->type == 0;
        break;
    default: read_pointer(v, optional, va_arg(*values, const void *)); break;
    }
}

static void read_values(const struct pp_mg_template *t, const char *types, va_list values, struct value *v)
{
    va_list list;
    pp_assert(!strcmp(types, t->types), "the arguments of a command are not what its holes need");
    va_copy(list, values);
    for (int i = 0; types[i]; i++) {
        v[i] = (struct value){.absent = false};
        read_value(&v[i], types[i], t->optional[i], &list);
    }
    va_end(list);
}

static void append_list(bson_t *out, const char *name, int name_n, char type, const struct value *v)
{
    bson_t list;
    char buf[16];
    const char *at, *text = NULL;
    uint32_t n = 0;
    bson_append_array_begin(out, name, name_n, &list);
    for (size_t i = 0; i < v->n; i++) {
        const void *p = (const char *)v->p + i * v->stride;
        const char *before = text;
        text = type == 'S' ? *(const char *const *)p : NULL;
        if (text && before && !strcmp(text, before))
            continue;
        int at_n = (int)bson_uint32_to_string(n++, &at, buf, sizeof buf);
        if (type == 'K')
            pp_mg_put_bytes(&list, at, at_n, p, sizeof(struct pp_key));
        else if (type == 'S')
            pp_mg_put_text(&list, at, at_n, text);
        else
            bson_append_int64(&list, at, at_n, *(const int64_t *)p);
    }
    bson_append_array_end(out, &list);
}

static void append_value(bson_t *out, const char *name, int n, char type, const struct value *v)
{
    switch (type) {
    case 's': pp_mg_put_text(out, name, n, v->p); break;
    case 'i': bson_append_int64(out, name, n, v->i); break;
    case 'I': bson_append_int64(out, name, n, *(const int64_t *)v->p); break;
    case 'd': bson_append_int32(out, name, n, (int32_t)v->i); break;
    case 'f': bson_append_double(out, name, n, v->f); break;
    case 'b': bson_append_bool(out, name, n, v->i != 0); break;
    case 'e': bson_append_bool(out, name, n, *(const bool *)v->p); break;
    case 'y': bson_append_bool(out, name, n, true); break;
    case 'n': bson_append_null(out, name, n); break;
    case 't': bson_append_date_time(out, name, n, v->i); break;
    case 'o': bson_append_oid(out, name, n, v->p); break;
    case 'h': pp_mg_put_bytes(out, name, n, v->p, PP_SHA256_BYTES); break;
    case 'k': pp_mg_put_bytes(out, name, n, v->p, sizeof(struct pp_key)); break;
    case 'B': pp_mg_put_bytes(out, name, n, v->p, v->n); break;
    case 'O': pp_mg_put_object(out, name, n, v->p); break;
    case 'X': pp_mg_put_outcome(out, name, n, v->p); break;
    case 'D': bson_append_document(out, name, n, v->p); break;
    case 'A': bson_append_array(out, name, n, v->p); break;
    default:
        pp_assert(strchr("KSL", type), "a hole has an unknown type");
        append_list(out, name, n, type, v);
        break;
    }
}

/* --- filling --- */

/* Returns whether the node and its children contain only absent values. */
static bool is_absent(const struct pp_mg_template *t, size_t node, const struct value *v)
{
    for (size_t i = node; i < t->nodes[node].end; i++) {
        const struct pp_mg_node *at = &t->nodes[i];
        if (at->kind == NODE_LITERAL || (at->kind == NODE_HOLE && !v[at->hole].absent))
            return false;
    }
    return true;
}

static void append_node(const struct pp_mg_template *t, size_t node, const struct value *v, const char *name,
                        int name_n, bson_t *out);

/* Appends the children of a node; numbers those of an array from 0. */
static void append_children(const struct pp_mg_template *t, size_t node, const struct value *v, bson_t *out)
{
    const struct pp_mg_node *parent = &t->nodes[node];
    char buf[16];
    uint32_t number = 0;
    for (size_t i = node + 1; i < parent->end; i = t->nodes[i].end) {
        const char *name = t->nodes[i].name;
        int name_n = t->nodes[i].name_n;
        if (is_absent(t, i, v))
            continue;
        if (parent->kind == NODE_ARRAY)
            name_n = (int)bson_uint32_to_string(number++, &name, buf, sizeof buf);
        append_node(t, i, v, name, name_n, out);
    }
}

static void append_node(const struct pp_mg_template *t, size_t node, const struct value *v, const char *name,
                        int name_n, bson_t *out)
{
    const struct pp_mg_node *at = &t->nodes[node];
    bson_t in;
    switch (at->kind) {
    case NODE_LITERAL: bson_append_value(out, name, name_n, &at->value); break;
    case NODE_HOLE: append_value(out, name, name_n, t->types[at->hole], &v[at->hole]); break;
    case NODE_DOCUMENT:
        bson_append_document_begin(out, name, name_n, &in);
        append_children(t, node, v, &in);
        bson_append_document_end(out, &in);
        break;
    case NODE_ARRAY:
        bson_append_array_begin(out, name, name_n, &in);
        append_children(t, node, v, &in);
        bson_append_array_end(out, &in);
        break;
    }
}

/* Fills one part. A part that is fixed, or one value of the caller's, is not copied. */
static void fill_part(const struct pp_mg_template *t, int part, const struct value *v, bson_t *out)
{
    const struct pp_mg_node *at = &t->nodes[t->part[part]];
    bool ok = true;
    if (at->kind == NODE_HOLE) {
        ok = bson_init_static(out, bson_get_data(v[at->hole].p), ((const bson_t *)v[at->hole].p)->len);
    } else if (at->kind == NODE_LITERAL) {
        ok = bson_init_static(out, at->value.value.v_doc.data, at->value.value.v_doc.data_len);
    } else {
        bson_init(out);
        append_children(t, (size_t)t->part[part], v, out);
    }
    pp_assert(ok, "a part of a command is no document");
}

void pp_mg_template_fill(const struct pp_mg_template *t, const char *types, va_list values,
                         struct pp_mg_filled *out)
{
    struct value v[PP_MG_HOLES];
    read_values(t, types, values, v);
    for (int i = 0; i < PP_MG_PARTS; i++)
        fill_part(t, i, v, &out->part[i]);
}

void pp_mg_filled_free(struct pp_mg_filled *f)
{
    for (int i = 0; i < PP_MG_PARTS; i++)
        bson_destroy(&f->part[i]);
}

void pp_mg_template_append(const struct pp_mg_template *t, const char *types, va_list values, bson_t *out)
{
    struct value v[PP_MG_HOLES];
    const struct pp_mg_node *at = &t->nodes[t->part[PP_MG_CHANGE]];
    pp_assert(at->kind == NODE_DOCUMENT || at->kind == NODE_ARRAY, "a part has no hole");
    read_values(t, types, values, v);
    append_children(t, (size_t)t->part[PP_MG_CHANGE], v, out);
}
