/* s3_outcome.c: see internal.h. To teach it a store's word: a row in `codes`. */
#include <stdio.h>
#include <string.h>

#include "adapter/s3/internal.h"

static const struct {
    const char *code;
    enum pp_err err;
    bool again, lasting;
    const char *hint;
} codes[] = {
    {"NoSuchKey", PP_ENOTFOUND, false, false, NULL},
    {"NoSuchBucket", PP_EIO, false, true, "make the bucket first, or correct its name"},
    {"InvalidBucketName", PP_EIO, false, true, "correct the bucket's name"},
    {"AccessDenied", PP_EIO, false, true,
     "the key needs s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket"},
    {"InvalidAccessKeyId", PP_EIO, false, true, "check AWS_ACCESS_KEY_ID"},
    {"SignatureDoesNotMatch", PP_EIO, false, true, "check AWS_SECRET_ACCESS_KEY, and region"},
    {"ExpiredToken", PP_EIO, false, true, "AWS_SESSION_TOKEN has expired: start again with a new one"},
    {"InvalidToken", PP_EIO, false, true, "check AWS_SESSION_TOKEN"},
    {"RequestTimeTooSkewed", PP_EIO, false, true, "this machine's clock or the store's is wrong"},
    {"AuthorizationHeaderMalformed", PP_EIO, false, true, "check region"},
    {"PermanentRedirect", PP_EIO, false, true, "check region and endpoint"},
    {"TemporaryRedirect", PP_EIO, false, true, "check region and endpoint"},
    {"XAmzContentSHA256Mismatch", PP_EIO, false, false, "the bytes were changed on their way, or in memory"},
    {"RequestTimeout", PP_ETIMEOUT, true, false, NULL},
    {"OperationAborted", PP_EIO, true, false, NULL},
    {"ConditionalRequestConflict", PP_EIO, true, false, NULL},
    {"QuotaExceeded", PP_ENOSPC, false, false, "the store's quota is used up"},
    {"XMinioStorageFull", PP_ENOSPC, false, false, "the store's disks are full"},
    {"XMinioAdminBucketQuotaExceeded", PP_ENOSPC, false, false, "the bucket's quota is used up"},
};

static bool by_code(struct pp_s3_failure *f)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (strcmp(codes[i].code, f->code) != 0)
            continue;
        f->err = codes[i].err;
        f->again = codes[i].again;
        f->lasting = codes[i].lasting;
        f->hint = codes[i].hint;
        return true;
    }
    return false;
}

/* What a status means where the store says no more: HEAD, proxies, words that are not in the table. */
static void by_status(struct pp_s3_failure *f, bool has_body)
{
    switch (f->status) {
    case 404:
        f->err = has_body ? PP_EIO : PP_ENOTFOUND; /* a 404 without NoSuchKey speaks of something else */
        f->hint = has_body ? "is this an S3 endpoint? check endpoint and path_style" : NULL;
        f->lasting = has_body;
        break;
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: f->again = true; break;
    case 507: f->err = PP_ENOSPC; break;
    case 401:
    case 403:
        f->lasting = true;
        f->hint = "check keys, region, and what the key may do";
        break;
    default:
        if (f->status >= 300 && f->status < 400) {
            f->lasting = true;
            f->hint = "check region and endpoint";
        }
    }
}

void pp_s3_judge_status(struct pp_s3_failure *f, long status, const char *body, size_t n, bool has_body)
{
    struct pp_s3_error e;

    *f = (struct pp_s3_failure){.status = status, .err = PP_EIO};
    if (n == 0 || !pp_s3_error_parse(body, n, &e))
        memset(&e, 0, sizeof(e));
    snprintf(f->code, sizeof(f->code), "%s", e.code);
    snprintf(f->detail, sizeof(f->detail), "%s", e.message);
    snprintf(f->region, sizeof(f->region), "%s", e.region);
    if (!by_code(f))
        by_status(f, has_body);
}

void pp_s3_judge_transport(struct pp_s3_failure *f, CURLcode rc, const char *words)
{
    *f = (struct pp_s3_failure){.err = PP_EIO, .again = true};
    snprintf(f->detail, sizeof(f->detail), "%s", words[0] ? words : curl_easy_strerror(rc));
    switch (rc) {
    case CURLE_OUT_OF_MEMORY:
        f->err = PP_ENOMEM;
        f->again = false;
        break;
    case CURLE_OPERATION_TIMEDOUT: f->err = PP_ETIMEOUT; break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        f->again = false;
        f->lasting = true;
        f->hint = "the endpoint's certificate is not trusted: ca_file=PATH names another authority";
        break;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        f->again = false;
        f->lasting = true;
        f->hint = "check endpoint";
        break;
    case CURLE_WRITE_ERROR: f->again = false; break; /* more than we take */
    default: break;
    }
}

void pp_s3_reason(const struct pp_s3_failure *f, char reason[PP_S3_REASON_MAX])
{
    int n;

    if (f->status)
        n = snprintf(reason, PP_S3_REASON_MAX, "the store answers %ld%s%s%s%s%s", f->status,
                     f->code[0] ? " " : "", f->code, f->detail[0] ? " (" : "", f->detail,
                     f->detail[0] ? ")" : "");
    else
        n = snprintf(reason, PP_S3_REASON_MAX, "no answer from the store: %s", f->detail);
    if (n < 0 || n >= PP_S3_REASON_MAX)
        return;
    if (f->region[0])
        snprintf(reason + n, PP_S3_REASON_MAX - (size_t)n, "; the bucket is in region %s: set region=%s",
                 f->region, f->region);
    else if (f->hint)
        snprintf(reason + n, PP_S3_REASON_MAX - (size_t)n, "; %s", f->hint);
}
