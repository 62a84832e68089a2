/* names.c: maps names to numbers and back, with a cache: one node per name, in two hash tables. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

enum { NAMES_MAX = 20000 };

struct pp_sq_name {
    int64_t num;
    UT_hash_handle by_name, by_num;
    size_t n;
    char key[]; /* the kind in one byte, then the name with its NUL */
};

void pp_sq_names_clear(struct pp_sq_names *n)
{
    struct pp_sq_name *x, *next;
    pp_assert(HASH_CNT(by_name, n->by_name) == HASH_CNT(by_num, n->by_num), "a name is in one table only");
    HASH_CLEAR(by_name, n->by_name);
    HASH_ITER (by_num, n->by_num, x, next) {
        HASH_DELETE(by_num, n->by_num, x);
        free(x);
    }
}

static struct pp_sq_name *cached(struct pp_sq_names *n, enum pp_name_kind kind, const char *name, size_t len)
{
    struct pp_sq_name *x = NULL;
    char key[320];
    if (len >= sizeof key)
        return NULL;
    key[0] = (char)kind;
    memcpy(key + 1, name, len);
    HASH_FIND(by_name, n->by_name, key, (unsigned)(len + 1), x);
    return x;
}

/* Adds a name to the cache. Returns NULL when out of memory; that is no failure, because the next
 * look-up queries the database again. */
static struct pp_sq_name *remember(struct pp_sq_names *n, enum pp_name_kind kind, const char *name,
                                   size_t len, int64_t num)
{
    if (HASH_CNT(by_num, n->by_num) >= NAMES_MAX)
        pp_sq_names_clear(n);
    struct pp_sq_name *x = calloc(1, sizeof *x + len + 2);
    if (!x)
        return NULL;
    pp_assert(num > 0, "a name without a number");
    x->num = num;
    x->n = len + 1;
    x->key[0] = (char)kind;
    memcpy(x->key + 1, name, len + 1);
    bool numbered = PP_HASH_ADD_BY(by_num, n->by_num, &x->num, sizeof x->num, x);
    if (numbered && PP_HASH_ADD_BY(by_name, n->by_name, x->key, x->n, x))
        return x;
    if (numbered)
        HASH_DELETE(by_num, n->by_num, x);
    free(x);
    return NULL;
}

int64_t pp_sq_name_find(struct pp_sq_db *db, enum pp_name_kind kind, const char *name)
{
    return pp_sq_int(db, 0, PP_Q_NAME_FIND, "dt", (int)kind, name);
}

int64_t pp_sq_name_num(struct pp_sq_names *n, enum pp_name_kind kind, const char *name)
{
    size_t len = strlen(name);
    struct pp_sq_name *x = cached(n, kind, name, len);
    if (x)
        return x->num;
    int64_t num = pp_sq_name_find(n->db, kind, name);
    if (num)
        remember(n, kind, name, len, num);
    return num;
}

int64_t pp_sq_name_add(struct pp_sq_names *n, enum pp_name_kind kind, const char *name)
{
    int64_t num = pp_sq_name_num(n, kind, name);
    if (num || n->db->err != PP_OK)
        return num;
    num = pp_sq_int(n->db, 0, PP_Q_NAME_LAST, "") + 1;
    pp_sq_run(n->db, PP_Q_NAME_ADD, "idt", num, (int)kind, name);
    if (n->db->err != PP_OK)
        return 0;
    remember(n, kind, name, strlen(name), num);
    return num;
}

const char *pp_sq_name_text(struct pp_sq_names *n, int64_t num)
{
    struct pp_sq_name *x = NULL;
    HASH_FIND(by_num, n->by_num, &num, sizeof num, x);
    if (x)
        return x->key + 1;
    sqlite3_stmt *st = pp_sq_bind(n->db, PP_Q_NAME_TEXT, "i", num);
    if (pp_sq_row(n->db, st)) {
        const char *name = (const char *)sqlite3_column_text(st, 1);
        size_t len = (size_t)sqlite3_column_bytes(st, 1);
        x = name ? remember(n, (enum pp_name_kind)pp_sq_col(st, 0), name, len, num) : NULL;
        if (!x)
            pp_sq_fail(n->db, name ? PP_ENOMEM : PP_ECORRUPT);
        pp_sq_done(st);
    }
    return x ? x->key + 1 : "";
}
