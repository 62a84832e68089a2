/* blobs.c: a blob store that keeps nothing. No process reads photos back, and millions of them
 * would fill the memory. */
#include <stdlib.h>
#include <string.h>

#include "scale.h"

struct pp_blob_part {
    char none;
};

static enum pp_err put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                       const struct iovec *iov, int n, bool *existed)
{
    (void)b, (void)sha256, (void)ext, (void)iov, (void)n;
    if (existed)
        *existed = false;
    return PP_OK;
}

static enum pp_err open_part(struct pp_blob_store *b, struct pp_blob_part **part)
{
    (void)b;
    *part = NULL;
    return PP_ENOSPC; /* the made-up photos are small */
}

static enum pp_err write_part(struct pp_blob_part *part, const struct iovec *iov, int n)
{
    (void)part, (void)iov, (void)n;
    return PP_ENOSPC;
}

static enum pp_err commit(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext, bool *existed)
{
    (void)part, (void)sha256, (void)ext, (void)existed;
    return PP_ENOSPC;
}

static void abort_part(struct pp_blob_part *part)
{
    (void)part;
}

static enum pp_err get(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext, uint64_t offset,
                       void *buf, size_t max, size_t *n, uint64_t *size)
{
    (void)b, (void)sha256, (void)ext, (void)offset, (void)buf, (void)max, (void)n, (void)size;
    return PP_ENOTFOUND;
}

static enum pp_err remove_object(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext)
{
    (void)b, (void)sha256, (void)ext;
    return PP_OK;
}

static enum pp_err recent(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out, size_t cap,
                          size_t *n, bool *more)
{
    (void)b, (void)since_ms, (void)out, (void)cap;
    *n = 0;
    *more = false;
    return PP_OK;
}

static enum pp_err own(struct pp_blob_store *b, struct pp_blob_owner *owner)
{
    (void)b;
    memcpy(owner->found, owner->mine, sizeof owner->found);
    owner->adopted = false;
    return PP_OK;
}

static enum pp_err check(struct pp_blob_store *b)
{
    (void)b;
    return PP_OK;
}

static void reason(struct pp_blob_store *b, char *text, size_t n)
{
    (void)b;
    if (n > 0)
        text[0] = '\0';
}

static void close_store(struct pp_blob_store *b)
{
    (void)b;
}

struct pp_blob_store *scale_blobs_open(void)
{
    static const struct pp_blob_store_ops ops = {.put = put,
                                                 .open = open_part,
                                                 .write = write_part,
                                                 .commit = commit,
                                                 .abort = abort_part,
                                                 .get = get,
                                                 .remove = remove_object,
                                                 .recent = recent,
                                                 .own = own,
                                                 .check = check,
                                                 .reason = reason,
                                                 .close = close_store};
    struct pp_blob_store *b = malloc(sizeof *b);

    if (b)
        b->ops = &ops;
    return b;
}
