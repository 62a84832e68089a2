/* consumer.c: follows results over Server-Sent Events. Its output file is also its state.
 *
 *   cc -O2 -o consumer consumer.c $(pkg-config --cflags --libs libcurl jansson)
 *   PHOTOPOOL_KEY=... ./consumer http://127.0.0.1:8080 results.txt results:42
 *
 * Each new result is a line "SEQ ID STATUS SUBJECT" of the file, each gap a line "SEQ gap FROM".
 * One write stores a result together with its number: if the consumer is killed at any moment and
 * started again, it continues after the last whole line. photopool delivers results at least once,
 * so the consumer drops a result whose id it has already. If the server no longer has the events
 * that it missed, it reads the results of the batches instead. Ctrl-C ends it. */
#include <curl/curl.h>
#include <inttypes.h>
#include <jansson.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_MAX = 16 << 20, SILENCE_S = 60, PAUSE_MAX_MS = 30000 };

struct consumer {
    const char *server, *key;
    FILE *file;
    uint64_t seq; /* number of the last event that was stored */
    void *ids;    /* the ids of all stored results, as a tree of strings */
    char *line;   /* the current line of the stream, which is not yet complete */
    size_t n;
    char type[64]; /* type of the event that is arriving */
    uint64_t id;
    bool again; /* results of batches could not be read: a new connection may help */
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Remembers the id of a result. Returns false if the id was there already. */
static bool add_id(struct consumer *c, const char *id)
{
    char *copy = strdup(id), **found = copy ? tsearch(copy, &c->ids, compare) : NULL;
    if (!found)
        exit(1); /* out of memory */
    if (*found != copy)
        free(copy);
    return *found == copy;
}

/* Reads the output file to learn the last number and all ids. If a kill has cut off the last line,
 * removes the line. */
static bool read_state(struct consumer *c, const char *path)
{
    char line[2048], id[128];
    long good = 0;
    c->file = fopen(path, "a+");
    while (c->file && fgets(line, sizeof line, c->file) && strchr(line, '\n')) {
        char *end;
        c->seq = strtoull(line, &end, 10);
        snprintf(id, sizeof id, "%.*s", (int)strcspn(end + 1, " \n"), end + 1);
        add_id(c, id);
        good = ftell(c->file);
    }
    return c->file && ftruncate(fileno(c->file), good) == 0 && fseek(c->file, 0, SEEK_END) == 0;
}

static const char *text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "-";
}

/* Stores a result under a number. A real consumer would publish the item here, in one transaction
 * with the number. */
static void take_result(struct consumer *c, uint64_t seq, const json_t *result)
{
    if (add_id(c, text(result, "id")))
        fprintf(c->file, "%" PRIu64 " %s %s %.512s\n", seq, text(result, "id"),
                text(json_object_get(result, "data"), "status"), text(result, "subject"));
}

static CURL *new_request(void)
{
    CURL *curl = curl_easy_init();
    if (!curl)
        exit(1); /* out of memory */
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, getenv("PHOTOPOOL_KEY"));
    return curl;
}

/* Returns the answer of GET url, which json_decref() frees; NULL: there is none. */
static json_t *get(const char *url)
{
    CURL *curl = new_request();
    char *body = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&body, &n);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)SILENCE_S);
    CURLcode rc = curl_easy_perform(curl);
    fclose(f);
    json_t *answer = rc == CURLE_OK ? json_loadb(body, n, 0, NULL) : NULL;
    free(body);
    curl_easy_cleanup(curl);
    return answer;
}

/* Gives each row of a list of the API to take(), page by page. Returns false if not all rows could
 * be read. A list that is not there is empty: the server may have removed a batch meanwhile. */
static bool each_row(struct consumer *c, const char *url, const char *list,
                     bool (*take)(struct consumer *, const json_t *))
{
    char page[2048], after[512] = "";
    bool more = true, ok = true;
    while (more && ok) {
        size_t i;
        const json_t *row;
        snprintf(page, sizeof page, "%s&limit=200%s", url, after);
        json_t *answer = get(page);
        const json_t *rows = json_object_get(answer, list);
        ok = rows || strcmp(text(answer, "code"), "not_found") == 0;
        json_array_foreach(rows, i, row) ok = ok && take(c, row);
        more = json_is_string(json_object_get(answer, "next"));
        char *cursor = curl_easy_escape(NULL, text(answer, "next"), 0);
        snprintf(after, sizeof after, "&after=%s", cursor);
        curl_free(cursor);
        json_decref(answer);
    }
    return ok;
}

/* A result keeps the old number, so that a kill before the line of the gap repeats the gap. */
static bool take_missed(struct consumer *c, const json_t *result)
{
    take_result(c, c->seq, result);
    return true;
}

static bool take_batch(struct consumer *c, const json_t *batch)
{
    char url[1024];
    snprintf(url, sizeof url, "%s/v1/batches/%s/results?", c->server, text(batch, "batch_id"));
    return each_row(c, url, "results", take_missed);
}

/* Reads the results of all batches that the server has. A consumer that knows for which batches it
 * waits asks for these only. */
static bool read_batches(struct consumer *c)
{
    char url[1024];
    bool one_client = strncmp(c->key, "results:", 8) == 0;
    if (!one_client && strcmp(c->key, "results") != 0)
        return true; /* a key of other events */
    snprintf(url, sizeof url, "%s/v1/batches?%s%s", c->server, one_client ? "client=" : "",
             one_client ? c->key + 8 : "");
    return each_row(c, url, "batches", take_batch);
}

/* Stores an event. A gap stands for events that the server no longer has. Returns false if their
 * results can't be read now. */
static bool take_event(struct consumer *c)
{
    json_t *event = json_loads(c->line + strlen("data: "), JSON_DECODE_INT_AS_REAL, NULL);
    double from = json_number_value(json_object_get(event, "from"));
    c->again = strcmp(c->type, "gap") == 0 && !read_batches(c);
    if (strcmp(c->type, "gap") == 0 && !c->again)
        fprintf(c->file, "%" PRIu64 " gap %.0f\n", c->id, from);
    else if (strcmp(c->type, "photopool.item.finished") == 0)
        take_result(c, c->id, json_object_get(event, "data"));
    json_decref(event);
    if (!c->again)
        c->seq = c->id;
    return !c->again;
}

/* Handles one line of the stream. Returns false if the connection must end. */
static bool take_line(struct consumer *c)
{
    c->line[c->n] = 0;
    c->n = 0;
    if (strncmp(c->line, "id: ", 4) == 0)
        c->id = strtoull(c->line + 4, NULL, 10);
    else if (strncmp(c->line, "event: ", 7) == 0)
        snprintf(c->type, sizeof c->type, "%s", c->line + 7);
    else if (strncmp(c->line, "data: ", 6) == 0)
        return take_event(c) && fflush(c->file) == 0;
    return true;
}

static size_t take_bytes(char *p, size_t size, size_t n, void *arg)
{
    struct consumer *c = arg;
    for (size_t i = 0; i < size * n; i++) {
        if (p[i] != '\n' && c->n < EVENT_MAX - 1)
            c->line[c->n++] = p[i];
        else if (p[i] == '\n' && !take_line(c))
            return 0;
    }
    return size * n;
}

/* Follows the stream until the connection ends. Returns false if a new connection would not
 * help. */
static bool follow(struct consumer *c, CURL *curl)
{
    char url[2048];
    long status = 0;
    snprintf(url, sizeof url, "%s/v1/events?key=%s&after=%" PRIu64, c->server, c->key,
             c->seq); /* after=0 starts at the oldest event that the server keeps */
    c->n = 0;
    c->again = false;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    CURLcode rc = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    fprintf(stderr, "HTTP %ld: %s; after %" PRIu64 "\n", status, curl_easy_strerror(rc), c->seq);
    return (rc != CURLE_WRITE_ERROR || c->again) && (status < 400 || status >= 500 || status == 429);
}

int main(int argc, char **argv)
{
    struct consumer c = {.line = malloc(EVENT_MAX)};
    if (argc != 4 || !c.line || !read_state(&c, argv[2])) {
        fprintf(stderr, "usage: consumer SERVER FILE KEY, as http://127.0.0.1:8080 results.txt results:42\n");
        return 2;
    }
    c.server = argv[1];
    c.key = argv[3];
    CURL *curl = new_request();
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, curl_slist_append(NULL, "Accept: text/event-stream"));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &c);
    /* The server sends something at least every 25 s. */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_S);
    uint64_t before = c.seq;
    for (long ms = 250; follow(&c, curl); before = c.seq) {
        ms = c.seq > before ? 250 : ms < PAUSE_MAX_MS / 2 ? 2 * ms : PAUSE_MAX_MS;
        /* random, so that not all consumers reconnect at the same moment */
        long wait = ms / 2 + (long)(arc4random() % ms) / 2;
        nanosleep(&(struct timespec){wait / 1000, wait % 1000 * 1000000}, NULL);
    }
    return 1;
}
