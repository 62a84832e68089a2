/* s3_outcome.c: decides for a failed request which error the operation returns, whether to retry,
 * and which text the operator gets. To add an error code of a store, an HTTP status or an error of
 * libcurl, add a row to its table. */
#include <stdio.h>
#include <string.h>

#include "adapter/s3/internal.h"
#include "base/check.h"

enum { RETRY = 1, LASTING = 2 }; /* set `retry` or `lasting` of struct pp_s3_failure */

struct meaning {
    enum pp_err err;
    int flags;
    const char *hint;
};

/* A proxy, or a store in trouble, may answer any code with any status. A row is meant only for the
 * statuses `from` to `to`; if a code comes with another status, the status decides. */
static const struct {
    const char *code;
    long from, to;
    struct meaning means;
} codes[] = {
    {"NoSuchKey", 404, 404, {PP_ENOTFOUND, 0, NULL}},
    {"NoSuchBucket", 404, 404, {PP_EIO, LASTING, "make the bucket first, or correct its name"}},
    {"InvalidBucketName", 400, 400, {PP_EIO, LASTING, "correct the bucket's name"}},
    {"AccessDenied",
     403,
     403,
     {PP_EIO, LASTING, "the key needs s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket"}},
    {"InvalidAccessKeyId", 400, 403, {PP_EIO, LASTING, "check AWS_ACCESS_KEY_ID"}},
    {"SignatureDoesNotMatch", 400, 403, {PP_EIO, LASTING, "check AWS_SECRET_ACCESS_KEY, and region"}},
    {"ExpiredToken",
     400,
     403,
     {PP_EIO, LASTING, "AWS_SESSION_TOKEN has expired: start again with a new one"}},
    {"InvalidToken", 400, 403, {PP_EIO, LASTING, "check AWS_SESSION_TOKEN"}},
    {"RequestTimeTooSkewed", 400, 403, {PP_EIO, LASTING, "this machine's clock or the store's is wrong"}},
    {"AuthorizationHeaderMalformed", 400, 403, {PP_EIO, LASTING, "check region"}},
    {"PermanentRedirect", 300, 399, {PP_EIO, LASTING, "check region and endpoint"}},
    {"TemporaryRedirect", 300, 399, {PP_EIO, LASTING, "check region and endpoint"}},
    {"XAmzContentSHA256Mismatch", 400, 400, {PP_EIO, 0, "the bytes were changed on their way, or in memory"}},
    {"RequestTimeout", 400, 599, {PP_ETIMEOUT, RETRY, NULL}},
    {"OperationAborted", 400, 599, {PP_EIO, RETRY, NULL}},
    {"ConditionalRequestConflict", 400, 599, {PP_EIO, RETRY, NULL}},
    {"QuotaExceeded", 400, 599, {PP_ENOSPC, 0, "the store's quota is used up"}},
    {"XMinioStorageFull", 400, 599, {PP_ENOSPC, 0, "the store's disks are full"}},
    {"XMinioAdminBucketQuotaExceeded", 400, 599, {PP_ENOSPC, 0, "the bucket's quota is used up"}},
};

#define PASSES "a failure of the store, which should pass"

/* Rows for answers to which no row of the table above applies: answers to HEAD, and those of
 * proxies and other stores. */
static const struct {
    long from, to;
    struct meaning means;
} statuses[] = {
    {300, 399, {PP_EIO, LASTING, "check region and endpoint"}},
    {401, 401, {PP_EIO, LASTING, "check keys, region, and what the key may do"}},
    {403, 403, {PP_EIO, LASTING, "check keys, region, and what the key may do"}},
    /* For a missing object, an S3 store answers the code NoSuchKey (or to HEAD no code). So a 404
     * without this code suggests that the server is no S3 store. */
    {404, 404, {PP_EIO, LASTING, "is this an S3 endpoint? check endpoint, path_style and the bucket's name"}},
    {408, 408, {PP_EIO, RETRY, NULL}},
    {425, 425, {PP_EIO, RETRY, NULL}},
    {429, 429, {PP_EIO, RETRY, NULL}},
    {500, 500, {PP_EIO, RETRY, PASSES}},
    {502, 504, {PP_EIO, RETRY, PASSES}},
    {507, 507, {PP_ENOSPC, 0, NULL}},
};

#define NOT_TRUSTED "the endpoint's certificate is not trusted: ca_file=PATH names another authority"
static const struct {
    CURLcode rc;
    struct meaning means;
} transport[] = {
    {CURLE_OUT_OF_MEMORY, {PP_ENOMEM, 0, NULL}},
    {CURLE_OPERATION_TIMEDOUT, {PP_ETIMEOUT, RETRY, NULL}},
    {CURLE_PEER_FAILED_VERIFICATION, {PP_EIO, LASTING, NOT_TRUSTED}},
    {CURLE_SSL_CACERT_BADFILE, {PP_EIO, LASTING, NOT_TRUSTED}},
    {CURLE_SSL_ISSUER_ERROR, {PP_EIO, LASTING, NOT_TRUSTED}},
    {CURLE_URL_MALFORMAT, {PP_EIO, LASTING, "check endpoint"}},
    {CURLE_UNSUPPORTED_PROTOCOL, {PP_EIO, LASTING, "check endpoint"}},
    {CURLE_WRITE_ERROR, {PP_EIO, 0, NULL}}, /* the answer is larger than on_body() accepts */
};

#define N(table) (sizeof(table) / sizeof(*(table)))

static void set_meaning(struct pp_s3_failure *f, const struct meaning *m)
{
    f->err = m->err;
    f->retry = m->flags & RETRY;
    f->lasting = m->flags & LASTING;
    f->hint = m->hint;
    pp_assert(!f->retry || !f->lasting, "a failure that lasts is retried");
}

void pp_s3_judge_status(struct pp_s3_failure *f, long status, const char *body, size_t n, bool has_body)
{
    static const struct meaning missing = {PP_ENOTFOUND, 0, NULL};

    *f = (struct pp_s3_failure){.status = status, .err = PP_EIO};
    if (n > 0)
        (void)pp_s3_error_parse(body, n, &f->said);
    for (size_t i = 0; i < N(statuses); i++)
        if (status >= statuses[i].from && status <= statuses[i].to)
            set_meaning(f, &statuses[i].means);
    if (status == 404 && !has_body)
        set_meaning(f, &missing);
    for (size_t i = 0; i < N(codes); i++)
        if (strcmp(codes[i].code, f->said.code) == 0 && status >= codes[i].from && status <= codes[i].to)
            set_meaning(f, &codes[i].means);
}

void pp_s3_judge_transport(struct pp_s3_failure *f, CURLcode rc, const char *words)
{
    pp_assert(rc != CURLE_OK, "libcurl has an answer, and it is judged as none");
    *f = (struct pp_s3_failure){.err = PP_EIO, .retry = true};
    snprintf(f->said.message, sizeof(f->said.message), "%s", words[0] ? words : curl_easy_strerror(rc));
    for (size_t i = 0; i < N(transport); i++)
        if (transport[i].rc == rc)
            set_meaning(f, &transport[i].means);
}

void pp_s3_reason(const struct pp_s3_failure *f, char reason[PP_S3_REASON_MAX])
{
    const struct pp_s3_error *e = &f->said;
    int n;

    pp_assert(f->err != PP_OK, "a reason is given for no failure");
    if (f->status)
        n = snprintf(reason, PP_S3_REASON_MAX, "the store answers %ld%s%s%s%s%s", f->status,
                     e->code[0] ? " " : "", e->code, e->message[0] ? " (" : "", e->message,
                     e->message[0] ? ")" : "");
    else
        n = snprintf(reason, PP_S3_REASON_MAX, "no answer from the store: %s", e->message);
    if (n < 0 || n >= PP_S3_REASON_MAX)
        return;
    if (e->region[0])
        snprintf(reason + n, PP_S3_REASON_MAX - (size_t)n, "; the bucket is in region %s: set region=%s",
                 e->region, e->region);
    else if (f->hint)
        snprintf(reason + n, PP_S3_REASON_MAX - (size_t)n, "; %s", f->hint);
}
