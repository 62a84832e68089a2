/* outcome.c: what a transfer's end means for the photo: CURLcode -> code.h and a sentence for the merchant.
 *
 * Our own verdict comes first, then the table. Some of libcurl's codes stand for several failures; `split`
 * tells these apart. Sentences are ours, with the host's name: libcurl's words may carry bytes of the host's
 * and are never shown. To treat a code differently, change its row. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapter/curl/internal.h"
#include "photopool/code.h"

struct outcome {
    uint16_t code;
    const char *text; /* with one %s: the host */
};

#define REFUSED                                              \
    {                                                        \
        PP_CODE_CONNECT_REFUSED, "%s refused the connection" \
    }
#define NO_ROUTE                                                                 \
    {                                                                            \
        PP_CODE_CONNECT_REFUSED, "%s cannot be reached: there is no route to it" \
    }
#define NO_CONNECT                                                        \
    {                                                                     \
        PP_CODE_CONNECT_TIMEOUT, "%s did not accept a connection in time" \
    }
#define NO_ANSWER                                               \
    {                                                           \
        PP_CODE_FIRST_BYTE_TIMEOUT, "%s did not answer in time" \
    }
#define SLOW_BODY                                                  \
    {                                                              \
        PP_CODE_BODY_TIMEOUT, "%s did not send everything in time" \
    }
#define LOST_EARLY                                                            \
    {                                                                         \
        PP_CODE_CONNECTION_LOST, "%s closed the connection without an answer" \
    }
#define LOST                                                  \
    {                                                         \
        PP_CODE_CONNECTION_LOST, "the connection to %s broke" \
    }
#define LOST_TLS                                                                       \
    {                                                                                  \
        PP_CODE_CONNECTION_LOST, "%s closed the connection while it was being secured" \
    }
#define TRUNCATED                                                              \
    {                                                                          \
        PP_CODE_TRUNCATED, "%s closed the connection before the announced end" \
    }
#define BAD_HTTP                                                                    \
    {                                                                               \
        PP_CODE_BAD_RESPONSE, "%s sent something that is not a correct HTTP answer" \
    }
#define BAD_CHUNK                                                   \
    {                                                               \
        PP_CODE_BAD_RESPONSE, "%s sent a chunk that is not correct" \
    }
#define BAD_CODING                                                                \
    {                                                                             \
        PP_CODE_BAD_RESPONSE, "%s sent compressed content that cannot be decoded" \
    }
#define BIG_HEAD                                                         \
    {                                                                    \
        PP_CODE_HEADER_TOO_LARGE, "%s sent more header than is accepted" \
    }
#define DENIED                                                         \
    {                                                                  \
        PP_CODE_DENIED_ADDRESS, "%s has an address that is not public" \
    }
#define TLS                                                    \
    {                                                          \
        PP_CODE_TLS_FAILED, "%s: the secure connection failed" \
    }
#define OURS                                                     \
    {                                                            \
        PP_CODE_INTERNAL, "the request to %s failed on our side" \
    }

static const struct {
    CURLcode rc;
    struct outcome o;
} table[] = {
    {CURLE_UNSUPPORTED_PROTOCOL, BAD_HTTP}, /* HTTP/0.9, unknown versions and status codes */
    {CURLE_WEIRD_SERVER_REPLY, BAD_HTTP},
    {CURLE_HTTP2, BAD_HTTP},
    {CURLE_HTTP2_STREAM, LOST}, /* reset by the host: as a connection that is */
    {CURLE_BAD_CONTENT_ENCODING, BAD_CODING},
    {CURLE_FILESIZE_EXCEEDED, BAD_HTTP}, /* a length beyond 2^63 */
    {CURLE_OK, LOST},                    /* 7.88 is content with half a head */
    {CURLE_PARTIAL_FILE, TRUNCATED},
    {CURLE_GOT_NOTHING, LOST_EARLY},
    {CURLE_SEND_ERROR, LOST},
    {CURLE_SEND_FAIL_REWIND, LOST},
    {CURLE_LOGIN_DENIED, {PP_CODE_BAD_URL, "the URL for %s carries a user name"}},
    {CURLE_URL_MALFORMAT, {PP_CODE_BAD_URL, "the URL for %s is not written correctly"}},
    {CURLE_PEER_FAILED_VERIFICATION, TLS},
    {CURLE_SSL_CERTPROBLEM, TLS},
    {CURLE_SSL_CIPHER, TLS},
    {CURLE_SSL_ISSUER_ERROR, TLS},
    {CURLE_SSL_INVALIDCERTSTATUS, TLS},
    {CURLE_SSL_PINNEDPUBKEYNOTMATCH, TLS},
    {CURLE_SSL_SHUTDOWN_FAILED, LOST},
    {CURLE_USE_SSL_FAILED, TLS},
};

/* OpenSSL's X509_V_ERR_* that merchants run into. */
static const struct {
    long verify;
    const char *text;
} certificate[] = {
    {9, "%s: the certificate is not valid yet"},
    {10, "%s: the certificate has expired"},
    {18, "%s: the certificate is self-signed"},
    {19, "%s: the certificate chain ends in a self-signed certificate"},
    {20, "%s: the certificate's issuer is unknown, or an intermediate certificate is missing"},
    {21, "%s: an intermediate certificate is missing"},
    {23, "%s: the certificate was revoked"},
};

static bool says(const struct pp_transfer *t, const char *words)
{
    return strstr(t->error, words) != NULL;
}

static struct outcome connect_failed(const struct pp_transfer *t)
{
    long error = 0;

    if (t->opened == 0 && t->denied > 0)
        return (struct outcome)DENIED;
    if (t->opened == 0 && t->socket_errno)
        return (struct outcome)OURS;
    (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
    switch (error) {
    case ETIMEDOUT: return (struct outcome)NO_CONNECT;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EAFNOSUPPORT: return (struct outcome)NO_ROUTE;
    case EADDRNOTAVAIL: /* out of local ports */
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: return (struct outcome)OURS;
    default: return (struct outcome)REFUSED;
    }
}

/* A host that goes away during the handshake is no reason to call its certificate bad. */
static struct outcome tls_failed(const struct pp_transfer *t, CURLcode rc)
{
    struct outcome o = TLS;
    long verify = 0;

    if (rc == CURLE_SSL_CONNECT_ERROR && (says(t, "SSL_ERROR_SYSCALL") || says(t, "reset by peer") ||
                                          says(t, "unexpected eof") || says(t, "Broken pipe")))
        return (struct outcome)LOST_TLS;
    (void)curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &verify);
    for (size_t i = 0; i < sizeof(certificate) / sizeof(*certificate); i++)
        if (certificate[i].verify == verify)
            o.text = certificate[i].text;
    if (rc == CURLE_PEER_FAILED_VERIFICATION && says(t, "subject name"))
        o.text = "%s: the certificate is for another name";
    return o;
}

static struct outcome timed_out(const struct pp_transfer *t)
{
    switch (t->x->phase) {
    case PP_PHASE_CONNECT: return (struct outcome)NO_CONNECT;
    case PP_PHASE_FIRST_BYTE: return (struct outcome)NO_ANSWER;
    default: return (struct outcome)SLOW_BODY;
    }
}

static struct outcome split(const struct pp_transfer *t, CURLcode rc)
{
    switch (rc) {
    case CURLE_COULDNT_CONNECT: return connect_failed(t);
    case CURLE_OPERATION_TIMEDOUT: return timed_out(t);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION: return tls_failed(t, rc);
    case CURLE_RECV_ERROR:
        if (says(t, "chunked"))
            return (struct outcome)BAD_CHUNK;
        if (says(t, "response headers"))
            return (struct outcome)BIG_HEAD;
        return (struct outcome)LOST;
    case CURLE_OUT_OF_MEMORY: /* 7.88 says so of a header line beyond its own 100 KiB, too */
        if (t->x->phase == PP_PHASE_FIRST_BYTE)
            return (struct outcome)BIG_HEAD;
        return (struct outcome)OURS;
    default: break;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].rc == rc)
            return table[i].o;
    return (struct outcome)OURS;
}

static struct outcome ours(uint16_t verdict)
{
    switch (verdict) {
    case PP_CODE_DENIED_ADDRESS: return (struct outcome)DENIED;
    case PP_CODE_HEADER_TOO_LARGE: return (struct outcome)BIG_HEAD;
    case PP_CODE_BAD_RESPONSE: return (struct outcome)BAD_HTTP;
    default: return (struct outcome)OURS;
    }
}

void pp_curl_outcome(struct pp_transfer *t, CURLcode rc)
{
    struct pp_exchange *x = t->x;
    struct outcome o;

    x->stopped = t->stopped;
    x->code = PP_CODE_NONE;
    x->detail[0] = '\0';
    if (t->stopped)
        return;
    if (!t->verdict && rc == CURLE_OK && t->head.complete && !pp_curl_decoded_whole(t))
        rc = CURLE_PARTIAL_FILE;
    if (!t->verdict && rc == CURLE_OK && t->head.complete)
        return;
    if (t->bad_coding)
        rc = CURLE_BAD_CONTENT_ENCODING;
    o = t->verdict ? ours(t->verdict) : split(t, rc);
    x->code = o.code;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(x->detail, sizeof(x->detail), o.text, x->host);
#pragma GCC diagnostic pop
}
