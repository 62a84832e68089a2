/* hosts.c: GET /v1/hosts, /v1/hosts/{host} and /v1/breakers: shows photo hosts as this process
 * knows them.
 *
 * A page is chosen in one pass over all hosts: a heap keeps the rows that come first behind the
 * cursor, and its root is the last of them, which a better row replaces. The position of a row is
 * its sort value and its name, so a cursor stays valid if hosts come and go. */
#include "pipeline/hosts/hosts.h"
#include "api/handler.h"
#include "api/host.h"
#include "core/host.h"
#include "pipeline/hosts/host_json.h"

/* GET /v1/hosts/{host} names at most this many clients. */
#define CLIENTS_MAX 100
/* It counts at most this many waiting photos, so that the store answers within a second. */
#define WAITING_MAX 100000

enum sort { BY_NAME, BY_ERRORS, BY_REQUESTS, BY_LATENCY };

struct row {
    int64_t value; /* what the list is sorted by, the largest first; 0 if by name */
    const char *host;
};

struct hosts_list {
    enum sort sort;
    int state;          /* only hosts with this pp_breaker_state; -1: any */
    bool only_breakers; /* only hosts whose breaker is not closed, or is forced */
    const char *prefix;
    size_t prefix_n;
    struct row after; /* the row before the page; host NULL: none */
    struct row *rows; /* a heap, with the last row of the order as its root */
    size_t n, cap;    /* cap: one more than the page has, to know whether rows follow */
};

/* --- choosing the rows of a page --- */

/* Compares two rows: < 0 if `a` comes before `b` in the list. */
static int compare(const struct row *a, const struct row *b)
{
    return a->value != b->value ? (a->value > b->value ? -1 : 1) : strcmp(a->host, b->host);
}

static int compare_rows(const void *a, const void *b)
{
    return compare(a, b);
}

/* Puts `row` into the heap at `at`, and moves it down to its place. */
static void sift_down(struct row *rows, size_t n, size_t at, struct row row)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && compare(&rows[child], &rows[child + 1]) < 0)
            child++;
        if (compare(&row, &rows[child]) >= 0)
            break;
        rows[at] = rows[child];
    }
    rows[at] = row;
}

/* Puts `row` at the end of the heap, and moves it up to its place. */
static void sift_up(struct row *rows, size_t at, struct row row)
{
    for (size_t parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (compare(&row, &rows[parent]) <= 0)
            break;
        rows[at] = rows[parent];
    }
    rows[at] = row;
}

static int64_t sort_value(enum sort sort, const struct pp_host_view *stats)
{
    uint64_t failures = 0;

    switch (sort) {
    case BY_ERRORS:
        for (enum pp_host_class c = 0; c < PP_HOST_CLASSES; c++)
            failures += pp_host_class_failed(c) ? stats->count[c] : 0;
        return (int64_t)failures;
    case BY_REQUESTS: return (int64_t)stats->requests;
    case BY_LATENCY: return (int64_t)(stats->ms * 1000);
    default: return 0;
    }
}

static bool is_wanted(const struct hosts_list *s, const struct pp_host_shown *shown)
{
    const struct pp_breaker *b = &shown->breaker;

    return (s->state < 0 || (int)b->state == s->state) &&
           (!s->only_breakers || b->state != PP_BREAKER_CLOSED || b->forced != PP_BREAKER_AUTO) &&
           strncmp(shown->host, s->prefix, s->prefix_n) == 0;
}

static bool on_host(void *data, const struct pp_host_shown *shown)
{
    struct hosts_list *s = data;
    struct row row = {.host = shown->host};

    if (!is_wanted(s, shown))
        return true;
    row.value = sort_value(s->sort, &shown->stats);
    if (s->after.host && compare(&row, &s->after) <= 0)
        return true;
    if (s->n < s->cap)
        sift_up(s->rows, s->n++, row);
    else if (compare(&row, &s->rows[0]) < 0)
        sift_down(s->rows, s->n, 0, row);
    return true;
}

/* --- lists --- */

/* Reads the position of a cursor, "VALUE HOST". Returns false if the call has been answered. */
static bool read_position(struct pp_call *call, struct hosts_list *s)
{
    char *end;

    if (!call->page.after)
        return true;
    s->after.value = strtoll(call->page.after, &end, 10);
    if (*end != ' ')
        return pp_page_bad_cursor(call);
    s->after.host = end + 1;
    return true;
}

static void send_list(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    struct hosts_list *s = call->state;
    struct pp_host_shown shown;
    size_t i = 0;

    s->cap = call->page.limit + 1;
    s->rows = pp_arena_alloc(&call->arena, s->cap * sizeof(*s->rows));
    if (!s->rows) {
        pp_call_no_memory(call);
        return;
    }
    pp_hosts_each(o->hosts, on_host, s);
    qsort(s->rows, s->n, sizeof(*s->rows), compare_rows);
    pp_page_open(call);
    for (; i < s->n && i < call->page.limit && pp_page_has_room(call); i++) {
        if (pp_hosts_view(o->hosts, s->rows[i].host, &shown))
            pp_host_write(&call->out, NULL, &shown, NULL, o->loop);
    }
    if (i > 0) {
        const struct row *last = &s->rows[i - 1];
        call->page.last = pp_arena_printf(&call->arena, "%lld %s", (long long)last->value, last->host);
    }
    pp_page_send(call, i < s->n);
}

/* Reads a parameter that has one of these values; NULL ends them. *out is the index of its value,
 * or stays if the parameter is absent. Returns false if the call has been answered. */
static bool read_choice(struct pp_call *call, const char *name, const char *const *values, int *out)
{
    const char *text = pp_call_param(call, name);

    for (int i = 0; text && values[i]; i++) {
        if (strcmp(text, values[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return !text || pp_call_problem(call, PP_API_BAD_PARAMETER, name, "%s is %s, %s or %s", name, values[0],
                                    values[1], values[2]);
}

/* Reads the parameter `q`. Names of hosts are in lower case. */
static bool read_prefix(struct pp_call *call, struct hosts_list *s)
{
    const char *text = pp_call_param(call, "q");
    char *prefix = pp_arena_copy(&call->arena, text ? text : "", text ? strlen(text) : 0);

    if (!prefix)
        return pp_call_no_memory(call);
    for (char *c = prefix; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    s->prefix = prefix;
    s->prefix_n = strlen(prefix);
    return true;
}

void pp_api_list_hosts(struct pp_call *call)
{
    static const char *const states[] = {"closed", "open", "half_open", NULL};
    static const char *const sorts[] = {"errors", "requests", "latency", NULL};
    _Static_assert(PP_BREAKER_CLOSED == 0 && PP_BREAKER_OPEN == 1 && PP_BREAKER_HALF_OPEN == 2,
                   "the names of states are in another order");
    struct hosts_list *s = pp_call_state(call, sizeof(*s));
    int sort = -1;

    s->state = -1;
    if (!read_choice(call, "state", states, &s->state) || !read_choice(call, "sort", sorts, &sort) ||
        !read_prefix(call, s))
        return;
    s->sort = (enum sort)(sort + 1);
    if (!pp_page_read(call, "hosts", pp_call_printf(call, "%d %d %s", s->state, sort, s->prefix)) ||
        !read_position(call, s))
        return;
    send_list(call);
}

void pp_api_list_breakers(struct pp_call *call)
{
    struct hosts_list *s = pp_call_state(call, sizeof(*s));

    s->state = -1;
    s->only_breakers = true;
    s->prefix = "";
    if (pp_page_read(call, "breakers", "") && read_position(call, s))
        send_list(call);
}

/* --- one host --- */

const char *pp_host_call_read(struct pp_call *call)
{
    struct pp_host_call *s = call->state;
    const char *text = call->args[0];
    bool bare = strchr(text, ':') && text[0] != '['; /* IPv6 without brackets, as answers show it */
    char host[PP_URL_MAX];
    struct pp_url_fault fault;

    int n = snprintf(host, sizeof(host), bare ? "[%s]" : "%s", text);
    if (n < 0 || (size_t)n >= sizeof(host))
        return "a host name of over 253 bytes";
    return pp_host_read(&s->name, host, (size_t)n, &fault) ? NULL : fault.cause;
}

/* Answers with the host. `waiting` may be NULL. */
static void send_host(struct pp_call *call, const struct pp_host_waiting *waiting)
{
    const struct pp_host_call *s = call->state;
    struct pp_host_shown shown;

    if (!pp_hosts_view(call->o->hosts, s->name.host, &shown)) {
        pp_call_not_found(call);
        return;
    }
    pp_host_write(&call->out, NULL, &shown, waiting, call->o->loop);
    pp_call_json(call, 200);
}

static void on_clients_read(struct pp_call *call)
{
    const struct pp_store_host_clients *w = &((struct pp_host_call *)call->state)->waiting;

    send_host(call, &(struct pp_host_waiting){.tasks = w->tasks, .clients = w->clients, .n = w->n});
}

static void on_clients_unknown(struct pp_call *call, enum pp_err err)
{
    (void)err; /* operators look at hosts while the store is down, too */
    send_host(call, NULL);
}

void pp_host_call_send(struct pp_call *call)
{
    struct pp_host_call *s = call->state;
    struct pp_host_shown shown;

    call->missing = "this process has heard of no photo of this host";
    if (!pp_hosts_view(call->o->hosts, s->name.host, &shown)) {
        pp_call_not_found(call);
        return;
    }
    s->waiting = (struct pp_store_host_clients){
        .domain = s->name.host, .limit = CLIENTS_MAX, .count_max = WAITING_MAX};
    call->on_error = on_clients_unknown;
    PP_CALL_ASK(call, call->o->store, host_clients, &s->waiting, "reading who waits for a host",
                on_clients_read);
}

void pp_api_get_host(struct pp_call *call)
{
    pp_call_state(call, sizeof(struct pp_host_call));
    const char *wrong = pp_host_call_read(call);
    if (wrong)
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "this is no host: %s", wrong);
    else
        pp_host_call_send(call);
}
