/* http_head.c: finds the end of a request's head, parses the request line and the header lines, and
 * checks the headers against each other. */
#include "adapter/http/http_head.h"

#include <string.h>
#include <strings.h>

#include "adapter/http/ws_frame.h"
#include "base/check.h"

/* Bits that say in which parts of a head a character may occur. */
enum char_class {
    C_TOKEN = 1,  /* a token: tchar of RFC 9110 5.6.2 */
    C_TARGET = 2, /* the request target: visible ASCII without '#' */
    C_VALUE = 4,  /* a header's value: visible characters, SP, HTAB, obs-text */
    C_HOST = 8,   /* a host with port: uri-host of RFC 3986 */
};

/* clang-format off */
static const uint8_t classes[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, /* 00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 10 */
    4, 15, 6, 5, 15, 15, 15, 15, 14, 14, 15, 15, 14, 15, 15, 6, /* 20 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 14, 6, 14, 6, 6, /* 30 */
    6, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 40 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 14, 6, 14, 7, 15, /* 50 */
    7, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 60 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6, 7, 6, 15, 0, /* 70 */
    [0x80 ... 0xff] = C_VALUE,
};
/* clang-format on */

static bool all_of(const char *p, size_t n, unsigned cls)
{
    for (size_t i = 0; i < n; i++) {
        if (!(classes[(unsigned char)p[i]] & cls))
            return false;
    }
    return true;
}

static bool refuse_head(struct pp_http_refusal *why, enum pp_api_code code, const char *detail)
{
    *why = (struct pp_http_refusal){.code = code, .detail = detail};
    return false;
}

static bool bad(struct pp_http_refusal *why, const char *detail)
{
    return refuse_head(why, PP_API_BAD_REQUEST, detail);
}

enum pp_http_scan_result pp_http_scan(struct pp_http_scan *scan, const char *p, size_t n,
                                      struct pp_http_refusal *why)
{
    for (; scan->at < n; scan->at++) {
        unsigned char c = (unsigned char)p[scan->at];
        bool after_cr = scan->at > 0 && p[scan->at - 1] == '\r';
        if (after_cr && c != '\n')
            return bad(why, "a CR without LF in the head"), PP_SCAN_BAD;
        if (c >= 0x20 && c != 0x7f)
            continue;
        if (c == '\n') {
            if (!after_cr)
                return bad(why, "a line of the head ends with LF alone, not with CR LF"), PP_SCAN_BAD;
            bool empty = scan->at - 1 == scan->line;
            if (empty && scan->line > 0) {
                scan->at++;
                return PP_SCAN_DONE;
            }
            scan->line = scan->at + 1;
        } else if (c != '\r' && c != '\t') {
            return bad(why, "a control character in the head"), PP_SCAN_BAD;
        }
    }
    return PP_SCAN_MORE;
}

/* --- the request line --- */

static enum pp_method method_of(const char *p, size_t n)
{
    static const struct {
        const char *name;
        enum pp_method method;
    } table[] = {{"GET", PP_GET},       {"HEAD", PP_HEAD},       {"POST", PP_POST},  {"PUT", PP_PUT},
                 {"DELETE", PP_DELETE}, {"OPTIONS", PP_OPTIONS}, {"PATCH", PP_PATCH}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strlen(table[i].name) == n && memcmp(table[i].name, p, n) == 0)
            return table[i].method;
    }
    return PP_METHOD_OTHER;
}

/* Parses the start of a target in absolute form (RFC 9112 3.2.2), such as "http://a:80/path". Sets
 * head->authority. Returns the rest of the target, which may be empty, or NULL if the form is
 * wrong. */
static char *absolute_form(struct pp_http_head *head, char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    char *authority = target + scheme;
    size_t n = strcspn(authority, "/?");
    if (scheme == 0 || n == 0 || !all_of(authority, n, C_HOST))
        return NULL;
    /* Moves it over the last slash of the scheme, so that there is room for its NUL. */
    memmove(authority - 1, authority, n);
    authority[n - 1] = '\0';
    head->authority = authority - 1;
    return authority + n;
}

/* Parses the request line. `line` ends with a NUL in place of its CR LF. */
static bool request_line(struct pp_http_head *head, char *line, size_t n, struct pp_http_refusal *why)
{
    char *sp1 = memchr(line, ' ', n);
    if (!sp1 || sp1 == line || !all_of(line, (size_t)(sp1 - line), C_TOKEN))
        return bad(why, "the request line does not begin with a method and a space");
    head->req.method = method_of(line, (size_t)(sp1 - line));
    char *target = sp1 + 1;
    char *sp2 = memchr(target, ' ', n - (size_t)(target - line));
    if (!sp2)
        return bad(why, "the request line has no HTTP version");
    const char *version = sp2 + 1;
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return bad(why, "the HTTP version is neither HTTP/1.1 nor HTTP/1.0");
    head->http10 = version[7] == '0';
    if (!all_of(target, (size_t)(sp2 - target), C_TARGET))
        return bad(why, "a character in the request target that must be percent-encoded");
    *sp2 = '\0';
    if (*target != '/' && !(target = absolute_form(head, target)))
        return bad(why, "the request target is neither a path that begins with '/' nor an http URL");
    char *mark = strchr(target, '?');
    if (mark)
        *mark = '\0';
    head->req.path = *target ? target : "/";
    head->req.query = mark ? mark + 1 : "";
    return true;
}

/* --- header lines --- */

/* The headers whose values the parser keeps in struct pp_http_head. A second line with the same
 * name is refused if `once` is set, and otherwise ignored. */
static const struct {
    const char *name;
    size_t offset;
    bool once;
} fields[] = {
    {"host", offsetof(struct pp_http_head, req.host), true},
    {"content-length", offsetof(struct pp_http_head, content_length), true},
    {"transfer-encoding", offsetof(struct pp_http_head, transfer_encoding), true},
    {"content-encoding", offsetof(struct pp_http_head, content_encoding), true},
    {"content-type", offsetof(struct pp_http_head, req.content_type), true},
    {"authorization", offsetof(struct pp_http_head, req.authorization), true},
    {"idempotency-key", offsetof(struct pp_http_head, req.idempotency_key), true},
    {"if-match", offsetof(struct pp_http_head, req.if_match), false},
    {"if-none-match", offsetof(struct pp_http_head, req.if_none_match), false},
    {"range", offsetof(struct pp_http_head, req.range), true},
    {"if-range", offsetof(struct pp_http_head, req.if_range), true},
    {"accept", offsetof(struct pp_http_head, req.accept), false},
    {"accept-encoding", offsetof(struct pp_http_head, req.accept_encoding), false},
    {"accept-language", offsetof(struct pp_http_head, req.accept_language), false},
    {"last-event-id", offsetof(struct pp_http_head, req.last_event_id), true},
    {"expect", offsetof(struct pp_http_head, expect), false},
    {"origin", offsetof(struct pp_http_head, req.origin), false},
    {"sec-fetch-site", offsetof(struct pp_http_head, req.sec_fetch_site), false},
    {"x-request-id", offsetof(struct pp_http_head, req.request_id), false},
    {"traceparent", offsetof(struct pp_http_head, req.traceparent), false},
    {"sec-websocket-key", offsetof(struct pp_http_head, ws_key), true},
    {"sec-websocket-version", offsetof(struct pp_http_head, ws_version), true},
};

/* The tokens that the headers Connection and Upgrade of the request have. */
struct connection_options {
    bool close, keep_alive, upgrade; /* tokens of Connection */
    bool websocket;                  /* token of Upgrade */
};

static bool is_token(const char *p, size_t n, const char *token)
{
    return strlen(token) == n && strncasecmp(p, token, n) == 0;
}

/* Parses Connection and Upgrade, which are comma-separated lists of tokens on any number of lines.
 * Returns false for any other header. */
static bool list_field(struct connection_options *o, const char *name, const char *value)
{
    bool connection = strcasecmp(name, "connection") == 0;
    if (!connection && strcasecmp(name, "upgrade") != 0)
        return false;
    while (*value) {
        value += strspn(value, ", \t");
        size_t n = strcspn(value, ", \t");
        o->close |= connection && is_token(value, n, "close");
        o->keep_alive |= connection && is_token(value, n, "keep-alive");
        o->upgrade |= connection && is_token(value, n, "upgrade");
        o->websocket |= !connection && is_token(value, n, "websocket");
        value += n;
    }
    return true;
}

static bool keep_field(struct pp_http_head *head, const char *name, const char *value,
                       struct pp_http_refusal *why)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strcasecmp(fields[i].name, name) != 0)
            continue;
        const char **slot = (const char **)((char *)head + fields[i].offset);
        if (!*slot)
            *slot = value;
        else if (fields[i].once)
            return bad(why, "a header that may stand only once is repeated");
        break;
    }
    return true;
}

/* Parses one header line, which ends with a NUL. */
static bool field_line(struct pp_http_head *head, struct connection_options *o, char *line, size_t n,
                       struct pp_http_refusal *why)
{
    if (*line == ' ' || *line == '\t')
        return bad(why, "a folded header line");
    char *colon = memchr(line, ':', n);
    if (!colon || colon == line)
        return bad(why, "a header line without a name and a colon");
    if (!all_of(line, (size_t)(colon - line), C_TOKEN))
        return bad(why, "a header name with a character that names can't have");
    *colon = '\0';
    char *value = colon + 1, *end = line + n;
    value += strspn(value, " \t");
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    return list_field(o, line, value) || keep_field(head, line, value, why);
}

/* --- headers checked against each other --- */

static bool parse_length(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    size_t n = strlen(s);
    if (n == 0 || n > 18)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        v = v * 10 + (uint64_t)(*s - '0');
    }
    *out = v;
    return true;
}

static bool framing(struct pp_http_head *head, struct pp_http_refusal *why)
{
    if (head->transfer_encoding) {
        if (head->content_length)
            return bad(why, "Content-Length together with Transfer-Encoding");
        if (head->http10)
            return bad(why, "Transfer-Encoding in an HTTP/1.0 request");
        if (strcasecmp(head->transfer_encoding, "chunked") != 0)
            return bad(why, "a transfer coding other than chunked");
        head->chunked = true;
    } else if (head->content_length && !parse_length(head->content_length, &head->length)) {
        return bad(why, "Content-Length is not one decimal number");
    }
    return true;
}

/* Checks the opening handshake of WebSocket. A request that does not ask for WebSocket is accepted
 * as a plain request. */
static bool handshake(struct pp_http_head *head, const struct connection_options *o,
                      struct pp_http_refusal *why)
{
    if (head->req.method != PP_GET || head->http10 || !o->upgrade || !o->websocket)
        return true;
    if (!head->ws_version || strcmp(head->ws_version, "13") != 0) {
        bad(why, "a WebSocket version other than 13");
        why->header =
            "Sec-WebSocket-Version: 13"; /* the answer must name the accepted version (RFC 6455 4.4) */
        return false;
    }
    if (!head->ws_key || !pp_ws_key_valid(head->ws_key))
        return bad(why, "Sec-WebSocket-Key is not 16 bytes in base64");
    head->req.websocket = true;
    return true;
}

static bool check_head(struct pp_http_head *head, const struct connection_options *o,
                       struct pp_http_refusal *why)
{
    if (!head->req.host && !head->http10)
        return bad(why, "no Host header");
    if (head->req.host && !all_of(head->req.host, strlen(head->req.host), C_HOST))
        return bad(why, "Host is not a host name");
    if (head->authority)
        head->req.host = head->authority;
    if (!framing(head, why) || !handshake(head, o, why))
        return false;
    const char *coding = head->content_encoding;
    if (!coding || !*coding || strcasecmp(coding, "identity") == 0)
        head->coding = PP_CODING_IDENTITY;
    else if (strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0)
        head->coding = PP_CODING_GZIP;
    else
        head->coding = PP_CODING_OTHER;
    head->req.has_body = head->chunked || head->length > 0;
    head->keep_alive = !o->close && (!head->http10 || o->keep_alive);
    head->expect_continue =
        !head->http10 && head->expect && strcasecmp(head->expect, "100-continue") == 0 && head->req.has_body;
    return true;
}

bool pp_http_head_parse(struct pp_http_head *head, char *p, size_t n, struct pp_http_refusal *why)
{
    *head = (struct pp_http_head){.req = {.method = PP_METHOD_OTHER, .path = "/", .query = ""}};
    struct connection_options options = {0};
    pp_assert(n >= 2 && p[n - 2] == '\r' && p[n - 1] == '\n', "not the head that pp_http_scan() has found");
    char *line = p, *end = p + n;
    if (*line == '\r')
        line += 2;
    for (int i = 0; line < end; i++) {
        char *eol = memchr(line, '\r', (size_t)(end - line));
        pp_assert(eol && eol + 1 < end, "a line of a scanned head has no end");
        size_t len = (size_t)(eol - line);
        *eol = '\0';
        if (len == 0 && i > 0)
            break;
        if (!all_of(line, len, C_VALUE))
            return bad(why, "a control character in the head");
        if (i > PP_HTTP_MAX_FIELDS)
            return refuse_head(why, PP_API_HEADER_TOO_LARGE, "more than 100 header lines");
        if (!(i == 0 ? request_line(head, line, len, why) : field_line(head, &options, line, len, why)))
            return false;
        line = eol + 2;
    }
    return check_head(head, &options, why);
}
