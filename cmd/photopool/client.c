/* client.c: sends HTTP requests to the server with libcurl, and explains failed requests to the
 * user. */
#include "client.h"

#include "interrupt.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    CONNECT_MS = 10 * 1000,
    STALL_S = 60,
    KEY_LINE_MAX = 4096,
    URL_MAX = 64 * 1024,
    ANSWER_MAX = 256 * 1024 * 1024,
    TOO_LARGE = 100, /* CURLE_TOO_LARGE, which libcurl has from 8.6 on */
};

struct pp_api_client {
    CURL *curl;
    char *base;            /* "http://host:port/prefix", without a slash at the end */
    const char *unix_name; /* "unix:PATH", which belongs to struct pp_cli; NULL: base names the server */
    char *authorization;   /* the header line "Authorization: Bearer KEY"; NULL: there is no key */
};

/* --- opening the client --- */

/* Reads the API key from the first line of a file, and removes blanks at its ends. */
static int read_key(const char *path, char key[KEY_LINE_MAX])
{
    FILE *f = fopen(path, "r");
    if (!f) {
        pp_complain("--key-file %s can't be read: %s", path, strerror(errno));
        return PP_EXIT_USAGE;
    }
    bool ok = fgets(key, KEY_LINE_MAX, f) != NULL;
    fclose(f);
    if (ok)
        return PP_EXIT_DONE;
    pp_complain("--key-file %s is empty; it should hold the key, in one line", path);
    return PP_EXIT_USAGE;
}

static int set_key(struct pp_api_client *c, const struct pp_cli *cli)
{
    char key[KEY_LINE_MAX] = "";
    if (cli->no_key)
        return PP_EXIT_DONE;
    const char *env = getenv("PHOTOPOOL_KEY"), *from = cli->key_file ? cli->key_file : "PHOTOPOOL_KEY";
    if (cli->key_file) {
        int code = read_key(cli->key_file, key);
        if (code != PP_EXIT_DONE)
            return code;
    } else if (env) {
        snprintf(key, sizeof key, "%s", env);
    }
    size_t n = strlen(key);
    while (n && isspace((unsigned char)key[n - 1]))
        key[--n] = 0;
    if (n == 0)
        return PP_EXIT_DONE;
    for (size_t i = 0; i < n; i++) {
        if (key[i] <= ' ' || key[i] > '~') {
            pp_complain("the key of %s has blanks or other characters that a key can't have", from);
            return PP_EXIT_USAGE;
        }
    }
    if (asprintf(&c->authorization, "Authorization: Bearer %s", key) >= 0)
        return PP_EXIT_DONE;
    c->authorization = NULL;
    pp_complain("out of memory");
    return PP_EXIT_FAILED;
}

/* True for a server on this machine. The proxy that the environment names is for other hosts, so
 * the client does not use it for such a server. */
static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

/* Sets the path of a unix socket. The URL needs a host all the same; without keys, the server takes
 * loopback names only. */
static int set_unix(struct pp_api_client *c, const char *server)
{
    const char *path = server + strlen("unix:");
    c->unix_name = server;
    curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
    c->base = strdup("http://localhost");
    if (*path && c->base && curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, path) == CURLE_OK)
        return PP_EXIT_DONE;
    pp_complain("the server \"%s\" names no socket; give --server unix:PATH", server);
    return PP_EXIT_USAGE;
}

/* Sets the file of authorities, for https. */
static int set_ca(struct pp_api_client *c, const struct pp_cli *cli)
{
    const char *env = getenv("PHOTOPOOL_CA_FILE"), *path = cli->ca_file ? cli->ca_file : env;
    if (!path || !*path)
        return PP_EXIT_DONE;
    if (access(path, R_OK) == 0 && curl_easy_setopt(c->curl, CURLOPT_CAINFO, path) == CURLE_OK)
        return PP_EXIT_DONE;
    pp_complain("%s %s can't be read: %s", cli->ca_file ? "--ca-file" : "PHOTOPOOL_CA_FILE", path,
                strerror(errno));
    return PP_EXIT_USAGE;
}

static int set_base(struct pp_api_client *c, const char *server)
{
    if (strncmp(server, "unix:", 5) == 0)
        return set_unix(c, server);
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *query = NULL;
    int code = PP_EXIT_USAGE;
    if (u && !curl_url_set(u, CURLUPART_URL, server, 0) && !curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) &&
        !curl_url_get(u, CURLUPART_HOST, &host, 0) && curl_url_get(u, CURLUPART_QUERY, &query, 0) &&
        (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0)) {
        c->base = strdup(server);
        if (is_loopback(host))
            curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
        code = c->base ? PP_EXIT_DONE : PP_EXIT_FAILED;
    }
    if (code != PP_EXIT_DONE)
        pp_complain("the server \"%s\" is no http:// or https:// URL, nor unix:PATH; give --server "
                    "http://host:8080",
                    server);
    for (size_t n = c->base ? strlen(c->base) : 0; n && c->base[n - 1] == '/'; n--)
        c->base[n - 1] = 0;
    curl_free(scheme);
    curl_free(host);
    curl_free(query);
    curl_url_cleanup(u);
    return code;
}

static int seen_interrupt(void *arg, curl_off_t a, curl_off_t b, curl_off_t d, curl_off_t e)
{
    (void)arg, (void)a, (void)b, (void)d, (void)e;
    return pp_interrupt_pending();
}

static void close_client(struct pp_api_client *c)
{
    curl_easy_cleanup(c->curl);
    free(c->base);
    free(c->authorization);
    free(c);
    curl_global_cleanup();
}

int pp_client_open(struct pp_cli *cli)
{
    if (cli->client)
        return PP_EXIT_DONE;
    struct pp_api_client *c = calloc(1, sizeof *c);
    if (!c || curl_global_init(CURL_GLOBAL_DEFAULT) || !(c->curl = curl_easy_init())) {
        free(c);
        pp_complain("out of memory");
        return PP_EXIT_FAILED;
    }
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "photopool/" PP_VERSION);
    curl_easy_setopt(c->curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, seen_interrupt);
    int code = set_base(c, cli->server);
    if (code == PP_EXIT_DONE)
        code = set_key(c, cli);
    if (code == PP_EXIT_DONE)
        code = set_ca(c, cli);
    if (code == PP_EXIT_DONE)
        cli->client = c;
    else
        close_client(c);
    return code;
}

int pp_client_finish(struct pp_cli *cli, int code)
{
    if (cli->client)
        close_client(cli->client);
    cli->client = NULL;
    return pp_cli_end(code);
}

const char *pp_client_base(const struct pp_api_client *c)
{
    return c->unix_name ? c->unix_name : c->base;
}

/* --- sending one request --- */

static size_t take_body(char *p, size_t size, size_t n, void *arg)
{
    struct pp_answer *ans = arg;
    pp_buf_put(&ans->body, p, size * n);
    return ans->body.failed ? 0 : size * n;
}

/* If the line is the header `name`, copies its value into value[cap]. */
static bool header_is(const char *line, size_t n, const char *name, char *value, size_t cap)
{
    size_t len = strlen(name);
    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return false;
    const char *p = line + len + 1, *end = line + n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    snprintf(value, cap, "%.*s", (int)(end - p), p);
    return true;
}

static size_t take_header(char *p, size_t size, size_t n, void *arg)
{
    struct pp_answer *ans = arg;
    char value[64], *end;
    if (header_is(p, size * n, "Retry-After", value, sizeof value)) {
        /* photopool sends seconds; a date, which a proxy may send, is ignored */
        long s = strtol(value, &end, 10);
        ans->retry_after_s = end != value && *end == 0 && s >= 0 ? s : -1;
    } else if (header_is(p, size * n, "Idempotency-Replayed", value, sizeof value)) {
        ans->replayed = strcmp(value, "true") == 0;
    }
    return size * n;
}

static bool append(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (more)
        *list = more;
    return more != NULL;
}

static bool make_headers(const struct pp_api_client *c, const struct pp_request *req, struct curl_slist **out)
{
    char line[600];
    bool ok = append(out, "Accept: application/json") && append(out, "Expect:");
    if (c->authorization)
        ok = ok && append(out, c->authorization);
    if (req->body) {
        snprintf(line, sizeof line, "Content-Type: %s",
                 req->content_type ? req->content_type : "application/json");
        ok = ok && append(out, line) && (!req->gzip || append(out, "Content-Encoding: gzip"));
    }
    if (req->idempotency_key) {
        snprintf(line, sizeof line, "Idempotency-Key: %s", req->idempotency_key);
        ok = ok && append(out, line);
    }
    return ok;
}

static enum pp_err classify(struct pp_api_client *c, CURLcode rc, const char *text, struct pp_answer *ans)
{
    if (rc == CURLE_OK) {
        curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &ans->status);
        return PP_OK;
    }
    long os_errno = 0;
    curl_off_t began = 0; /* time of the answer's first byte, in microseconds; 0: there is none */
    curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &os_errno);
    curl_easy_getinfo(c->curl, CURLINFO_STARTTRANSFER_TIME_T, &began);
    if (rc == CURLE_COULDNT_CONNECT && os_errno)
        snprintf(ans->why, sizeof ans->why, "%s", strerror((int)os_errno));
    else
        snprintf(ans->why, sizeof ans->why, "%s", *text ? text : curl_easy_strerror(rc));
    /* For a header that is too long, libcurl before 8.6 says that memory is out. */
    if ((int)rc == TOO_LARGE)
        return PP_EFULL;
    switch (rc) {
    case CURLE_ABORTED_BY_CALLBACK: return PP_ECANCELED;
    case CURLE_OUT_OF_MEMORY: return began > 0 ? PP_EFULL : PP_ENOMEM;
    case CURLE_OPERATION_TIMEDOUT: return PP_ETIMEOUT;
    case CURLE_WRITE_ERROR: return PP_EFULL;
    default: return PP_EIO;
    }
}

enum pp_err pp_client_send(struct pp_api_client *c, const struct pp_request *req, struct pp_answer *ans)
{
    *ans = (struct pp_answer){.retry_after_s = -1};
    pp_buf_init(&ans->body, ANSWER_MAX);
    struct curl_slist *headers = NULL;
    struct pp_buf url;
    char text[CURL_ERROR_SIZE] = "";
    pp_buf_init(&url, URL_MAX);
    pp_buf_puts(&url, c->base);
    pp_buf_puts(&url, req->path->p ? req->path->p : "/");
    enum pp_err err = PP_ENOMEM;
    if (!url.failed && make_headers(c, req, &headers)) {
        curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L); /* drops the body of the previous request */
        if (req->body) {
            curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->n);
            curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, req->body);
        }
        curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, req->method);
        curl_easy_setopt(c->curl, CURLOPT_URL, url.p);
        curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take_body);
        curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, ans);
        curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, take_header);
        curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, ans);
        curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, text);
        err = classify(c, curl_easy_perform(c->curl), text, ans);
        curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, NULL);
        curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    }
    curl_slist_free_all(headers);
    pp_buf_fini(&url);
    return err;
}

void pp_answer_fini(struct pp_answer *ans)
{
    pp_buf_fini(&ans->body);
}

json_t *pp_answer_json(const struct pp_answer *ans, size_t flags)
{
    return json_loadb(ans->body.p ? ans->body.p : "", ans->body.n, flags, NULL);
}

const char *pp_member(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

/* --- why a request failed and what to do, in one sentence; and the exit code ---
 *
 * A problem document (RFC 9457) has the members code and detail, and may have field, incident and
 * remedy. To show another remedy than the server's for a code, add a row to the table. */

/* What the user can do at the command line, for each error code; "" if the server's detail is
 * enough. For a code without a row, the message shows the server's remedy. */
static const struct {
    const char *code, *remedy;
} remedies[] = {
    {"unauthorized", "set PHOTOPOOL_KEY, or give --key-file FILE, with a key of this server"},
    {"forbidden", "use a key with the scope that this needs"},
    {"body_too_large", "submit with a smaller --batch-size"},
    {"too_many_items", "submit with a smaller --batch-size"},
    {"overloaded", "try again a little later"},
    {"rate_limited", "try again a little later"},
    {"not_found", "check the id, and whose key this is: others' things are not shown"},
    {"undelivered", "let them be delivered, or drop them with --force"},
    {"bad_client", ""},
    {"bad_parameter", ""},
    {"bad_value", ""},
    {"idempotency_mismatch",
     "the --idempotency-key belongs to another file or other options; choose a new one"},
};

/* Appends a sentence such as "Try again." as a clause: "; try again". */
static void put_remedy(struct pp_buf *b, const char *code, const char *given)
{
    const char *remedy = given ? given : "";
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (strcmp(remedies[i].code, code) == 0)
            remedy = remedies[i].remedy;
    size_t n = strlen(remedy);
    if (n && remedy[n - 1] == '.')
        n--;
    if (n == 0)
        return;
    bool word = isupper((unsigned char)remedy[0]) && islower((unsigned char)remedy[1]);
    pp_buf_puts(b, "; ");
    pp_buf_putc(b, word ? (char)tolower((unsigned char)remedy[0]) : remedy[0]);
    pp_buf_put(b, remedy + 1, n - 1);
}

bool pp_answer_has_code(const struct pp_answer *ans, const char *code)
{
    json_t *doc = pp_answer_json(ans, 0);
    const char *given = pp_member(doc, "code");
    bool same = given && strcmp(given, code) == 0;
    json_decref(doc);
    return same;
}

static int unreachable(const struct pp_api_client *c, const struct pp_answer *ans)
{
    pp_complain("can't reach %s: %s; start a server with \"photopool up\", or name another with --server or "
                "PHOTOPOOL_SERVER",
                pp_client_base(c), ans->why);
    return PP_EXIT_UNREACHABLE;
}

static void refused(const struct pp_api_client *c, const struct pp_answer *ans)
{
    json_t *doc = pp_answer_json(ans, 0);
    const char *code = pp_member(doc, "code"), *detail = pp_member(doc, "detail"),
               *field = pp_member(doc, "field");
    if (!detail)
        detail = pp_member(doc, "title");
    if (!code || !detail) {
        pp_complain("%s answered HTTP %ld and no explanation; is a photopool server there?",
                    pp_client_base(c), ans->status);
    } else {
        const char *incident = pp_member(doc, "incident");
        struct pp_buf text;
        pp_buf_init(&text, 8192);
        if (field && !strstr(detail, field))
            pp_buf_printf(&text, "%s: ", field);
        pp_buf_printf(&text, "%s (%s, HTTP %ld", detail, code, ans->status);
        if (incident)
            pp_buf_printf(&text, ", incident %s", incident);
        pp_buf_putc(&text, ')');
        put_remedy(&text, code, pp_member(doc, "remedy"));
        pp_complain("%s", text.p ? text.p : code);
        pp_buf_fini(&text);
    }
    json_decref(doc);
}

int pp_client_failed(const struct pp_api_client *c, enum pp_err err, const struct pp_answer *ans)
{
    switch (err) {
    case PP_OK: refused(c, ans); return PP_EXIT_FAILED;
    case PP_EIO:
    case PP_ETIMEOUT: return unreachable(c, ans);
    case PP_ECANCELED: pp_complain("interrupted"); return PP_EXIT_FAILED;
    case PP_EFULL: pp_complain("the answer of %s is too large", pp_client_base(c)); return PP_EXIT_FAILED;
    default: pp_complain("%s", pp_err_text(err)); return PP_EXIT_FAILED;
    }
}

/* --- requests whose answers are JSON objects --- */

static int call(struct pp_api_client *c, const struct pp_request *req, json_t **out)
{
    struct pp_answer ans;
    enum pp_err err = pp_client_send(c, req, &ans);
    int code = PP_EXIT_FAILED;
    if (err != PP_OK || ans.status / 100 != 2) {
        code = pp_client_failed(c, err, &ans);
    } else {
        *out = pp_answer_json(&ans, JSON_ALLOW_NUL);
        if (json_is_object(*out)) {
            code = PP_EXIT_DONE;
        } else {
            pp_complain("%s answered HTTP %ld, but not with a JSON object; is a photopool server there?",
                        pp_client_base(c), ans.status);
            json_decref(*out);
            *out = NULL;
        }
    }
    pp_answer_fini(&ans);
    return code;
}

/* Like pp_client_call, but the caller keeps path and body. */
static int call_json(struct pp_cli *cli, const char *method, const struct pp_buf *path, const json_t *body,
                     json_t **out)
{
    *out = NULL;
    struct pp_request req = {.method = method, .path = path};
    int code = pp_client_open(cli);
    if (code != PP_EXIT_DONE || strcmp(method, "GET") == 0 || strcmp(method, "DELETE") == 0)
        return code == PP_EXIT_DONE ? call(cli->client, &req, out) : code;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text) {
        pp_complain("what was given is not valid UTF-8");
        return PP_EXIT_USAGE;
    }
    req.body = text;
    req.n = strlen(text);
    code = call(cli->client, &req, out);
    free(text);
    return code;
}

int pp_client_call(struct pp_cli *cli, const char *method, struct pp_buf *path, json_t *body, json_t **out)
{
    int code = call_json(cli, method, path, body, out);
    json_decref(body);
    pp_buf_fini(path);
    return code;
}

int pp_client_change(struct pp_cli *cli, struct pp_buf *path, const char *const *fields, size_t n,
                     json_t *changes, json_t **out)
{
    int code = call_json(cli, "GET", path, NULL, out);
    if (code == PP_EXIT_DONE && json_object_size(changes) > 0) {
        json_t *body = json_object(), *now = *out;
        for (size_t i = 0; i < n; i++)
            json_object_set(body, fields[i], json_object_get(now, fields[i]));
        json_object_update(body, changes);
        code = call_json(cli, "PUT", path, body, out);
        json_decref(now);
        json_decref(body);
    }
    json_decref(changes);
    pp_buf_fini(path);
    return code;
}

/* --- building paths of requests --- */

struct pp_buf *pp_path(struct pp_buf *b, const char *start)
{
    pp_buf_init(b, URL_MAX - 4096);
    pp_buf_puts(b, start);
    return b;
}

/* Appends the text; percent-encodes all characters except the unreserved ones of RFC 3986. */
static void put_escaped(struct pp_buf *b, const char *s)
{
    for (; *s; s++) {
        if (isalnum((unsigned char)*s) || strchr("-._~", *s))
            pp_buf_putc(b, *s);
        else
            pp_buf_printf(b, "%%%02X", (unsigned char)*s);
    }
}

void pp_path_part(struct pp_buf *b, const char *part)
{
    pp_buf_putc(b, '/');
    put_escaped(b, part);
}

void pp_path_query(struct pp_buf *b, const char *name, const char *value)
{
    if (!value)
        return;
    pp_buf_putc(b, b->p && strchr(b->p, '?') ? '&' : '?');
    pp_buf_puts(b, name);
    pp_buf_putc(b, '=');
    put_escaped(b, value);
}
