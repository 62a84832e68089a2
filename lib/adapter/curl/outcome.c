/* outcome.c: turns the end of a transfer into an outcome for the photo: a code of code.h and a
 * sentence for the merchant.
 *
 * If t->verdict is set, the verdict decides; otherwise the table does. Where one CURLcode stands
 * for several failures, outcome_of() distinguishes them. The sentences are photopool's, with the
 * host's name: libcurl's texts may carry bytes of the host and are never shown. To treat a CURLcode
 * differently, change its row. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "adapter/curl/internal.h"
#include "base/check.h"
#include "photopool/code.h"

struct outcome {
    uint16_t code;
    const char *text; /* the sentence; its one %s stands for the host */
};

static const struct outcome
    refused = {PP_CODE_CONNECT_REFUSED, "%s refused the connection"},
    no_route = {PP_CODE_CONNECT_REFUSED, "%s cannot be reached: there is no route to it"},
    no_connect = {PP_CODE_CONNECT_TIMEOUT, "%s did not accept a connection in time"},
    no_answer = {PP_CODE_FIRST_BYTE_TIMEOUT, "%s did not answer in time"},
    slow_body = {PP_CODE_BODY_TIMEOUT, "%s did not send everything in time"},
    lost_early = {PP_CODE_CONNECTION_LOST, "%s closed the connection without an answer"},
    lost = {PP_CODE_CONNECTION_LOST, "the connection to %s broke"},
    lost_tls = {PP_CODE_CONNECTION_LOST, "%s closed the connection while it was being secured"},
    truncated = {PP_CODE_TRUNCATED, "%s closed the connection before the announced end"},
    bad_http = {PP_CODE_BAD_RESPONSE, "%s sent something that is not a correct HTTP answer"},
    bad_chunk = {PP_CODE_BAD_RESPONSE, "%s sent a chunk that is not correct"},
    bad_coding = {PP_CODE_BAD_RESPONSE, "%s sent compressed content that cannot be decoded"},
    wasteful = {PP_CODE_BAD_RESPONSE, "%s sent far more bytes than content"},
    big_head = {PP_CODE_HEADER_TOO_LARGE, "%s sent more header than is accepted"},
    denied = {PP_CODE_DENIED_ADDRESS, "%s has an address that is not public"},
    bad_tls = {PP_CODE_TLS_FAILED, "%s: the secure connection failed"},
    user_name = {PP_CODE_BAD_URL, "the URL for %s carries a user name"},
    malformed = {PP_CODE_BAD_URL, "the URL for %s is not written correctly"},
    ours = {PP_CODE_INTERNAL, "the request to %s failed on our side"},
    no_socket = {PP_CODE_INTERNAL, "no socket was left for the request to %s"},
    no_memory = {PP_CODE_INTERNAL, "no memory was left for the request to %s"};

static const struct {
    CURLcode rc;
    const struct outcome *o;
} table[] = {
    /* libcurl returns this for HTTP/0.9, unknown versions and unknown status codes. */
    {CURLE_UNSUPPORTED_PROTOCOL, &bad_http},
    {CURLE_WEIRD_SERVER_REPLY, &bad_http},
    {CURLE_HTTP2, &bad_http},
    {CURLE_HTTP2_STREAM, &lost}, /* the host has reset the HTTP/2 stream */
    {CURLE_BAD_CONTENT_ENCODING, &bad_coding},
    {CURLE_ABORTED_BY_CALLBACK, &wasteful}, /* pp_curl_on_progress() has ended the transfer */
    {CURLE_FILESIZE_EXCEEDED, &bad_http},   /* libcurl returns this for a length beyond 2^63 */
    {CURLE_OK, &lost},                      /* libcurl 7.88 reports success for a head that breaks off */
    {CURLE_PARTIAL_FILE, &truncated},
    {CURLE_GOT_NOTHING, &lost_early},
    {CURLE_SEND_ERROR, &lost},
    {CURLE_SEND_FAIL_REWIND, &lost},
    {CURLE_RECV_ERROR, &lost},
    {CURLE_LOGIN_DENIED, &user_name},
    {CURLE_URL_MALFORMAT, &malformed},
    {CURLE_SSL_CERTPROBLEM, &bad_tls},
    {CURLE_SSL_CIPHER, &bad_tls},
    {CURLE_SSL_ISSUER_ERROR, &bad_tls},
    {CURLE_SSL_INVALIDCERTSTATUS, &bad_tls},
    {CURLE_SSL_PINNEDPUBKEYNOTMATCH, &bad_tls},
    {CURLE_SSL_SHUTDOWN_FAILED, &lost},
    {CURLE_USE_SSL_FAILED, &bad_tls},
};

/* Sentences for the certificate errors of OpenSSL (X509_V_ERR_*) that merchants are likely to
 * meet. */
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

static bool says(const struct pp_curl_transfer *t, const char *words)
{
    return strstr(t->error, words) != NULL;
}

/* Returns true if the error says that this machine has run out of something. EADDRNOTAVAIL means
 * for IPv4 that no local port is free, and for IPv6 that this machine has no such address. */
static bool is_local(int error, bool v6)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM ||
           (error == EADDRNOTAVAIL && !v6);
}

static const struct outcome *connect_failed(const struct pp_curl_transfer *t)
{
    long error = 0;

    if (t->opened == 0 && t->denied > 0)
        return &denied;
    (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
    if (t->socket_errno && (t->opened == 0 || is_local(t->socket_errno, true)))
        error = t->socket_errno;
    if (is_local((int)error, t->v6)) {
        t->x->local_errno = (int)error;
        return &no_socket;
    }
    switch (error) {
    case ETIMEDOUT: return &no_connect;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT: return &no_route;
    default: return &refused;
    }
}

/* Distinguishes failures of TLS. If the host closes the connection during the handshake, its
 * certificate is not at fault. */
static struct outcome tls_failed(const struct pp_curl_transfer *t, CURLcode rc)
{
    struct outcome o = bad_tls;
    long verify = 0;

    if (rc == CURLE_SSL_CONNECT_ERROR && (says(t, "SSL_ERROR_SYSCALL") || says(t, "reset by peer") ||
                                          says(t, "unexpected eof") || says(t, "Broken pipe")))
        return lost_tls;
    (void)curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &verify);
    for (size_t i = 0; i < sizeof(certificate) / sizeof(*certificate); i++)
        if (certificate[i].verify == verify)
            o.text = certificate[i].text;
    if (rc == CURLE_PEER_FAILED_VERIFICATION && says(t, "subject name"))
        o.text = "%s: the certificate is for another name";
    return o;
}

static const struct outcome *timed_out(const struct pp_curl_transfer *t)
{
    return t->x->phase == PP_PHASE_CONNECT      ? &no_connect
           : t->x->phase == PP_PHASE_FIRST_BYTE ? &no_answer
                                                : &slow_body;
}

static struct outcome outcome_of(const struct pp_curl_transfer *t, CURLcode rc)
{
    if (rc == CURLE_COULDNT_CONNECT)
        return *connect_failed(t);
    if (rc == CURLE_OPERATION_TIMEDOUT)
        return *timed_out(t);
    if (rc == CURLE_SSL_CONNECT_ERROR || rc == CURLE_PEER_FAILED_VERIFICATION)
        return tls_failed(t, rc);
    if (rc == CURLE_RECV_ERROR && says(t, "chunked"))
        return bad_chunk;
    /* libcurl 7.88 returns this for a trailer without a colon: it takes "0x5" for the last chunk,
     * and the bytes after it for trailers. If the transfer was paused there is no text. */
    if (rc == CURLE_BAD_FUNCTION_ARGUMENT && t->head.complete)
        return bad_chunk;
    if (rc == CURLE_RECV_ERROR && says(t, "response headers"))
        return big_head;
    if (rc == CURLE_OUT_OF_MEMORY && t->x->phase == PP_PHASE_FIRST_BYTE)
        return big_head; /* libcurl 7.88 also returns this for a header line above 100 KiB */
    if (rc == CURLE_OUT_OF_MEMORY) {
        t->x->local_errno = ENOMEM;
        return no_memory;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (table[i].rc == rc)
            return *table[i].o;
    return ours;
}

static struct outcome outcome_of_verdict(const struct pp_curl_transfer *t)
{
    static const struct outcome *const ones[] = {&denied, &big_head, &bad_http, &no_memory};

    if (t->verdict == PP_CODE_INTERNAL) /* this adapter sets it only when out of memory */
        t->x->local_errno = ENOMEM;
    for (size_t i = 0; i < sizeof(ones) / sizeof(*ones); i++)
        if (ones[i]->code == t->verdict)
            return *ones[i];
    pp_assert(false, "a verdict without a sentence");
    return ours;
}

void pp_curl_outcome(struct pp_curl_transfer *t, CURLcode rc)
{
    struct pp_exchange *x = t->x;

    pp_assert(x && (t->state == PP_T_RUNNING || t->state == PP_T_WAITING),
              "a transfer ends that has not begun");
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
    struct outcome o = t->verdict ? outcome_of_verdict(t) : outcome_of(t, rc);
    x->code = o.code;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(x->detail, sizeof(x->detail), o.text, x->host);
#pragma GCC diagnostic pop
}
