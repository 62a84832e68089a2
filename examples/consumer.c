/* consumer.c: follows results over Server-Sent Events. Its output file is also its state.
 *
 *   cc -O2 -o consumer consumer.c $(pkg-config --cflags --libs libcurl jansson)
 *   PHOTOPOOL_KEY=... ./consumer http://127.0.0.1:8080 results.txt results:42
 *
 * Each new result is a line "SEQ ID STATUS SUBJECT" of the file, each gap a line "SEQ gap FROM".
 * One write stores a result together with its number: if the consumer is killed at any moment and
 * started again, it continues after the last whole line. photopool delivers results at least once,
 * so the consumer drops a result whose id it has already. Ctrl-C ends it. */
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
    FILE *file;
    uint64_t seq; /* number of the last event that was stored */
    void *ids;    /* the ids of all stored results, as a tree of strings */
    char *line;   /* the current line of the stream, which is not yet complete */
    size_t n;
    char type[64]; /* type of the event that is arriving */
    uint64_t id;
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

/* Stores an event. A real consumer would publish the item here, in one transaction with the number.
 * A gap stands for events that the server no longer keeps: a real consumer would then read GET
 * /v1/batches/{id}/results of the batches for which it waits. */
static void take_event(struct consumer *c)
{
    json_t *event = json_loads(c->line + strlen("data: "), JSON_DECODE_INT_AS_REAL, NULL);
    const json_t *result = json_object_get(event, "data");
    if (strcmp(c->type, "gap") == 0)
        fprintf(c->file, "%" PRIu64 " gap %.0f\n", c->id, json_number_value(json_object_get(event, "from")));
    else if (strcmp(c->type, "photopool.item.finished") == 0 && add_id(c, text(result, "id")))
        fprintf(c->file, "%" PRIu64 " %s %s %.512s\n", c->id, text(result, "id"),
                text(json_object_get(result, "data"), "status"), text(result, "subject"));
    json_decref(event);
    c->seq = c->id;
}

/* Handles one line of the stream. Returns false if the file can't be written. */
static bool take_line(struct consumer *c)
{
    c->line[c->n] = 0;
    c->n = 0;
    if (strncmp(c->line, "id: ", 4) == 0)
        c->id = strtoull(c->line + 4, NULL, 10);
    else if (strncmp(c->line, "event: ", 7) == 0)
        snprintf(c->type, sizeof c->type, "%s", c->line + 7);
    else if (strncmp(c->line, "data: ", 6) == 0)
        take_event(c);
    return fflush(c->file) == 0;
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
static bool follow(struct consumer *c, CURL *curl, const char *server, const char *key)
{
    char url[2048];
    long status = 0;
    snprintf(url, sizeof url, "%s/v1/events?key=%s&after=%" PRIu64, server, key,
             c->seq); /* after=0 starts at the oldest event that the server keeps */
    c->n = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    CURLcode rc = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    fprintf(stderr, "HTTP %ld: %s; after %" PRIu64 "\n", status, curl_easy_strerror(rc), c->seq);
    return rc != CURLE_WRITE_ERROR && (status < 400 || status >= 500 || status == 429);
}

int main(int argc, char **argv)
{
    CURL *curl = curl_easy_init();
    struct consumer c = {.line = malloc(EVENT_MAX)};
    if (argc != 4 || !curl || !c.line || !read_state(&c, argv[2])) {
        fprintf(stderr, "usage: consumer SERVER FILE KEY, as http://127.0.0.1:8080 results.txt results:42\n");
        return 2;
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, curl_slist_append(NULL, "Accept: text/event-stream"));
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, getenv("PHOTOPOOL_KEY"));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &c);
    /* The server sends something at least every 25 s. */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENCE_S);
    uint64_t before = c.seq;
    for (long ms = 250; follow(&c, curl, argv[1], argv[3]); before = c.seq) {
        ms = c.seq > before ? 250 : ms < PAUSE_MAX_MS / 2 ? 2 * ms : PAUSE_MAX_MS;
        /* random, so that not all consumers reconnect at the same moment */
        long wait = ms / 2 + (long)(arc4random() % ms) / 2;
        nanosleep(&(struct timespec){wait / 1000, wait % 1000 * 1000000}, NULL);
    }
    return 1;
}
