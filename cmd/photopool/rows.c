/* rows.c: gathers rows into items.
 *
 * A record is a struct row_record, then the id, the meta and the photos, then zeros up to a
 * multiple of 8 bytes. A row that follows one of the same item joins its record. Records are read
 * where they lie, in `records`, where the bytes of a file come, too. */
#include "rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "format/json_out.h"

enum { ALIGN = 8, FILE_BUFFER = 16 * 1024 };

struct row_record {
    uint64_t line, next; /* next: where the item's next record begins; 0: it is the last one */
    uint32_t id_n, meta_n, photos_n, bytes; /* bytes: of the whole record */
};

/* An item, while its records are gathered. */
struct item {
    UT_hash_handle hh;
    size_t first, last; /* where its first and its latest record begin */
};

struct pp_rows {
    char *error;
    size_t memory;
    struct pp_buf records;
    size_t latest;              /* where the latest record begins, if there is one */
    FILE *files[PP_ROWS_FILES]; /* all NULL while all rows are in memory */
    bool spilled;
};

static const char *temporary_folder(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

static enum pp_err failed(struct pp_rows *r, const char *what)
{
    snprintf(r->error, PP_INPUT_ERROR, "%s a temporary file in %s: %s; TMPDIR names another folder", what,
             temporary_folder(), strerror(errno));
    return PP_EINVAL;
}

static enum pp_err no_memory(struct pp_rows *r)
{
    snprintf(r->error, PP_INPUT_ERROR, "out of memory");
    return PP_ENOMEM;
}

struct pp_rows *pp_rows_open(size_t memory, char *error)
{
    struct pp_rows *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->memory = memory;
    r->error = error;
    pp_buf_init(&r->records, PP_ROWS_PART_MAX);
    return r;
}

void pp_rows_close(struct pp_rows *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < PP_ROWS_FILES; i++)
        if (r->files[i])
            fclose(r->files[i]);
    pp_buf_fini(&r->records);
    free(r);
}

/* --- temporary files --- */

static FILE *open_file(void)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/photopool-XXXXXX", temporary_folder());
    int fd = mkstemp(path);
    if (fd < 0)
        return NULL;
    unlink(path);
    FILE *f = fdopen(fd, "w+");
    if (!f) {
        close(fd);
        return NULL;
    }
    setvbuf(f, NULL, _IOFBF, FILE_BUFFER);
    return f;
}

static struct row_record *record_at(char *p, size_t at)
{
    return (struct row_record *)(void *)(p + at);
}

/* Moves the records in memory to the files. */
static enum pp_err spill(struct pp_rows *r)
{
    r->spilled = true;
    for (size_t at = 0; at < r->records.n;) {
        const struct row_record *rec = record_at(r->records.p, at);
        /* not by the low bits, by which the table of gather() finds its buckets */
        FILE **f = &r->files[(pp_hash(rec + 1, rec->id_n) >> 32) % PP_ROWS_FILES];
        if (!*f && !(*f = open_file()))
            return failed(r, "can't make");
        if (fwrite(rec, rec->bytes, 1, *f) != 1)
            return failed(r, "can't write to");
        at += rec->bytes;
    }
    pp_buf_reset(&r->records);
    return PP_OK;
}

/* Reads a file into `records`. */
static enum pp_err load(struct pp_rows *r, FILE *f)
{
    long n = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;

    if (n < 0)
        return failed(r, "can't write to");
    rewind(f);
    pp_buf_reset(&r->records);
    if (n > PP_ROWS_PART_MAX) {
        snprintf(r->error, PP_INPUT_ERROR,
                 "the file is too large; split it, without parting the rows of an item");
        return PP_EINVAL;
    }
    for (char part[4096]; n > 0;) {
        size_t got = fread(part, 1, sizeof part, f);
        if (got == 0)
            return failed(r, "can't read");
        pp_buf_put(&r->records, part, got);
        n -= (long)got;
    }
    return r->records.failed ? no_memory(r) : PP_OK;
}

/* --- gathering --- */

/* Links the records of each item. Returns false when out of memory. */
static bool link_records(char *p, size_t n, struct pp_arena *arena, struct item **items)
{
    for (size_t at = 0; at < n;) {
        struct row_record *rec = record_at(p, at);
        struct item *it;
        HASH_FIND(hh, *items, rec + 1, rec->id_n, it);
        if (it) {
            record_at(p, it->last)->next = at;
        } else {
            it = pp_arena_alloc(arena, sizeof *it);
            if (!it || !PP_HASH_ADD(*items, rec + 1, rec->id_n, it))
                return false;
            it->first = at;
        }
        it->last = at;
        at += rec->bytes;
    }
    return true;
}

static void write_item(struct pp_buf *out, char *p, const struct item *it)
{
    const struct row_record *rec = record_at(p, it->first);
    const char *id = (const char *)(rec + 1);
    bool more = false;

    pp_buf_reset(out);
    pp_json_begin(out, NULL, '{');
    pp_json_raw(out, "id", id, rec->id_n);
    pp_json_begin(out, "photos", '[');
    for (const struct row_record *r = rec; r; r = r->next ? record_at(p, r->next) : NULL) {
        if (r->photos_n == 0)
            continue;
        if (more)
            pp_buf_putc(out, ',');
        pp_buf_put(out, (const char *)(r + 1) + r->id_n + r->meta_n, r->photos_n);
        more = true;
    }
    pp_json_end(out, ']');
    if (rec->meta_n)
        pp_json_raw(out, "meta", id + rec->id_n, rec->meta_n);
    pp_json_end(out, '}');
}

static enum pp_err hand_on(struct pp_rows *r, const struct item *items, const struct pp_input_sink *sink)
{
    enum pp_err err = PP_OK;
    struct pp_buf out;

    pp_buf_init(&out, PP_INPUT_ITEM_MAX);
    for (const struct item *it = items; it && err == PP_OK; it = it->hh.next) {
        uint64_t line = record_at(r->records.p, it->first)->line;
        write_item(&out, r->records.p, it);
        if (out.failed)
            sink->broken(sink->arg, line, "the item has more than 8 MiB of URLs");
        else
            err = sink->item(sink->arg, out.p, out.n, line);
    }
    pp_buf_fini(&out);
    return err;
}

/* Gathers the records in memory, and hands on their items. */
static enum pp_err gather(struct pp_rows *r, const struct pp_input_sink *sink)
{
    struct pp_arena arena;
    struct item *items = NULL;

    pp_arena_init(&arena, PP_ROWS_PART_MAX);
    bool linked = link_records(r->records.p, r->records.n, &arena, &items);
    enum pp_err err = linked ? hand_on(r, items, sink) : no_memory(r);
    HASH_CLEAR(hh, items);
    pp_arena_fini(&arena);
    return err;
}

/* --- rows --- */

/* Fills the record up to a multiple of ALIGN bytes. */
static void pad(struct pp_buf *records, size_t at)
{
    static const char zeros[ALIGN];

    pp_buf_put(records, zeros, (ALIGN - records->n % ALIGN) % ALIGN);
    if (!records->failed)
        record_at(records->p, at)->bytes = (uint32_t)(records->n - at);
}

/* Adds the row to the latest record, if that is of the same item and does not get too large. */
static bool joins(struct pp_rows *r, const struct pp_row *row)
{
    if (r->records.n == 0)
        return false;
    struct row_record *rec = record_at(r->records.p, r->latest);
    size_t end = r->latest + sizeof *rec + rec->id_n + rec->meta_n + rec->photos_n;
    if (rec->id_n != row->id_n || memcmp(rec + 1, row->id, row->id_n) != 0 ||
        rec->photos_n + row->photos_n > PP_INPUT_ITEM_MAX)
        return false;
    if (row->photos_n == 0)
        return true;
    bool more = rec->photos_n > 0;
    rec->photos_n += (uint32_t)row->photos_n + more;
    r->records.n = end; /* without the zeros behind it */
    if (more)
        pp_buf_putc(&r->records, ',');
    pp_buf_put(&r->records, row->photos, row->photos_n);
    pad(&r->records, r->latest);
    return true;
}

enum pp_err pp_rows_add(struct pp_rows *r, const struct pp_row *row)
{
    const struct row_record rec = {.line = row->line,
                                   .id_n = (uint32_t)row->id_n,
                                   .meta_n = (uint32_t)row->meta_n,
                                   .photos_n = (uint32_t)row->photos_n};

    pp_assert(row->id_n + row->meta_n + row->photos_n < PP_INPUT_ITEM_MAX,
              "a row is longer than its reader allows");
    enum pp_err err = r->records.n > r->memory ? spill(r) : PP_OK;
    if (err != PP_OK)
        return err;
    if (!joins(r, row)) {
        r->latest = r->records.n;
        pp_buf_put(&r->records, &rec, sizeof rec);
        pp_buf_put(&r->records, row->id, row->id_n);
        pp_buf_put(&r->records, row->meta, row->meta_n);
        pp_buf_put(&r->records, row->photos, row->photos_n);
        pad(&r->records, r->latest);
    }
    return r->records.failed ? no_memory(r) : PP_OK;
}

enum pp_err pp_rows_end(struct pp_rows *r, const struct pp_input_sink *sink)
{
    enum pp_err err = PP_OK;

    if (!r->spilled)
        return gather(r, sink);
    err = spill(r);
    for (size_t i = 0; i < PP_ROWS_FILES && err == PP_OK; i++) {
        if (!r->files[i])
            continue;
        err = load(r, r->files[i]);
        fclose(r->files[i]);
        r->files[i] = NULL;
        if (err == PP_OK)
            err = gather(r, sink);
    }
    return err;
}
