/* tally.c: counters per host and per URL. The hash tables use open addressing with linear probing
 * and are at most half full; only a reset removes entries. */
#include "tally.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "behave.h"

#define OG_HOSTS      65536u
#define OG_HOST_SLOTS (2 * OG_HOSTS)
#define OG_URLS       262144u
#define OG_URL_SLOTS  (2 * OG_URLS)
#define OG_HEAD       2048u
#define OG_JSON_HOSTS 4096u

struct url {
    uint64_t hash; /* hash of the URL; 0 means that the entry is free */
    uint64_t seen;
};

struct head {
    size_t n;
    char p[OG_HEAD];
};

struct og_tally {
    pthread_mutex_t lock; /* protects the tables; the counters are atomic */
    struct og_host **slot;
    struct og_host **host; /* all hosts, in the order of their first request */
    unsigned hosts;
    struct og_host others;
    struct url *url;
    unsigned urls;
    struct head *head; /* ring buffer of the request heads that were kept */
    unsigned heads, head_next, head_count;
    atomic_uint_fast64_t requests, bytes, accepted;
    atomic_int_fast64_t open, in_flight, max_in_flight;
};

struct og_tally *og_tally_new(unsigned heads)
{
    struct og_tally *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    t->slot = calloc(OG_HOST_SLOTS, sizeof(struct og_host *));
    t->host = calloc(OG_HOSTS, sizeof(struct og_host *));
    t->url = calloc(OG_URL_SLOTS, sizeof *t->url);
    t->head = calloc(heads > 0 ? heads : 1, sizeof *t->head);
    t->heads = heads;
    t->others.name = (char *)(uintptr_t) "(others)";
    t->others.n = 8;
    if (t->slot != NULL && t->host != NULL && t->url != NULL && t->head != NULL)
        return t;
    og_tally_free(t);
    return NULL;
}

void og_tally_free(struct og_tally *t)
{
    if (t == NULL)
        return;
    for (unsigned i = 0; i < t->hosts; i++) {
        free(t->host[i]->name);
        free(t->host[i]);
    }
    free(t->slot);
    free(t->host);
    free(t->url);
    free(t->head);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static struct og_host *add_host(struct og_tally *t, uint64_t hash, struct og_slice host)
{
    struct og_host *h = t->hosts < OG_HOSTS ? calloc(1, sizeof *h) : NULL;
    if (h == NULL)
        return &t->others;
    h->name = strndup(host.p, host.n);
    if (h->name == NULL) {
        free(h);
        return &t->others;
    }
    h->n = host.n;
    h->hash = hash;
    t->host[t->hosts++] = h;
    return h;
}

struct og_host *og_tally_host(struct og_tally *t, struct og_slice host)
{
    if (host.n == 0)
        host = (struct og_slice){"-", 1};
    if (host.n > 255)
        host.n = 255;
    uint64_t hash = og_hash(0, host.p, host.n);
    pthread_mutex_lock(&t->lock);
    unsigned i = hash % OG_HOST_SLOTS;
    while (t->slot[i] != NULL && (t->slot[i]->hash != hash || t->slot[i]->n != host.n ||
                                  memcmp(t->slot[i]->name, host.p, host.n) != 0))
        i = (i + 1) % OG_HOST_SLOTS;
    struct og_host *h = t->slot[i];
    if (h == NULL) {
        h = add_host(t, hash, host);
        if (h != &t->others)
            t->slot[i] = h;
    }
    pthread_mutex_unlock(&t->lock);
    return h;
}

static void raise_max(atomic_int_fast64_t *max, int_fast64_t v)
{
    int_fast64_t m = atomic_load(max);
    while (v > m && !atomic_compare_exchange_weak(max, &m, v))
        ;
}

void og_tally_begin(struct og_tally *t, struct og_host *h)
{
    atomic_fetch_add(&t->requests, 1);
    atomic_fetch_add(&h->requests, 1);
    raise_max(&t->max_in_flight, atomic_fetch_add(&t->in_flight, 1) + 1);
    raise_max(&h->max_in_flight, atomic_fetch_add(&h->in_flight, 1) + 1);
}

void og_tally_end(struct og_tally *t, struct og_host *h, uint64_t bytes)
{
    atomic_fetch_add(&t->bytes, bytes);
    atomic_fetch_sub(&t->in_flight, 1);
    atomic_fetch_sub(&h->in_flight, 1);
}

void og_tally_accepted(struct og_tally *t)
{
    atomic_fetch_add(&t->accepted, 1);
    atomic_fetch_add(&t->open, 1);
}

void og_tally_closed(struct og_tally *t)
{
    atomic_fetch_sub(&t->open, 1);
}

uint64_t og_tally_url(struct og_tally *t, uint64_t hash)
{
    if (hash == 0)
        hash = 1;
    pthread_mutex_lock(&t->lock);
    unsigned i = hash % OG_URL_SLOTS;
    while (t->url[i].hash != 0 && t->url[i].hash != hash)
        i = (i + 1) % OG_URL_SLOTS;
    uint64_t seen = UINT64_MAX;
    if (t->url[i].hash == hash) {
        seen = t->url[i].seen++;
    } else if (t->urls < OG_URLS) {
        t->url[i] = (struct url){hash, 1};
        t->urls++;
        seen = 0;
    }
    pthread_mutex_unlock(&t->lock);
    return seen;
}

void og_tally_keep_head(struct og_tally *t, const char *p, size_t n)
{
    if (t->heads == 0)
        return;
    pthread_mutex_lock(&t->lock);
    struct head *h = &t->head[t->head_next];
    h->n = n < OG_HEAD ? n : OG_HEAD;
    memcpy(h->p, p, h->n);
    t->head_next = (t->head_next + 1) % t->heads;
    if (t->head_count < t->heads)
        t->head_count++;
    pthread_mutex_unlock(&t->lock);
}

void og_tally_reset(struct og_tally *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->requests, 0);
    atomic_store(&t->bytes, 0);
    atomic_store(&t->accepted, 0);
    atomic_store(&t->max_in_flight, atomic_load(&t->in_flight));
    for (unsigned i = 0; i < t->hosts; i++) {
        atomic_store(&t->host[i]->requests, 0);
        atomic_store(&t->host[i]->max_in_flight, atomic_load(&t->host[i]->in_flight));
    }
    memset(t->url, 0, OG_URL_SLOTS * sizeof *t->url);
    t->urls = t->head_next = t->head_count = 0;
    pthread_mutex_unlock(&t->lock);
}

/* Writes a host name as part of a JSON string. The name comes from the network, so '?' replaces
 * each character that JSON would have to escape. */
static void put_name(FILE *out, const struct og_host *h)
{
    for (size_t i = 0; i < h->n; i++) {
        unsigned char c = (unsigned char)h->name[i];
        fputc(c > ' ' && c < 127 && c != '"' && c != '\\' ? c : '?', out);
    }
}

#define N(x) ((long long)atomic_load(&(x)))

void og_tally_json(struct og_tally *t, FILE *out)
{
    fprintf(out,
            "{\"requests\": %lld, \"in_flight\": %lld, \"max_in_flight\": %lld, \"accepted\": %lld, "
            "\"open\": %lld, "
            "\"bytes\": %lld, \"hosts\": {",
            N(t->requests), N(t->in_flight), N(t->max_in_flight), N(t->accepted), N(t->open), N(t->bytes));
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->hosts && i < OG_JSON_HOSTS; i++) {
        struct og_host *h = t->host[i];
        fputs(i > 0 ? ", \"" : "\"", out);
        put_name(out, h);
        fprintf(out, "\": {\"requests\": %lld, \"in_flight\": %lld, \"max_in_flight\": %lld}", N(h->requests),
                N(h->in_flight), N(h->max_in_flight));
    }
    pthread_mutex_unlock(&t->lock);
    fputs("}}\n", out);
}

void og_tally_lines(struct og_tally *t, FILE *out)
{
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->hosts; i++) {
        struct og_host *h = t->host[i];
        put_name(out, h);
        fprintf(out, " %lld %lld %lld\n", N(h->requests), N(h->in_flight), N(h->max_in_flight));
    }
    pthread_mutex_unlock(&t->lock);
}

void og_tally_heads(struct og_tally *t, struct og_slice host, FILE *out)
{
    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < t->head_count; i++) {
        struct head *h = &t->head[(t->head_next + t->heads - t->head_count + i) % t->heads];
        char copy[OG_HEAD];
        memcpy(copy, h->p, h->n);
        struct og_request r;
        bool ours = host.n == 0 || (og_request_parse(&r, copy, h->n) == OG_PARSE_OK && r.host.n == host.n &&
                                    memcmp(r.host.p, host.p, host.n) == 0);
        if (ours)
            fwrite(h->p, 1, h->n, out);
    }
    pthread_mutex_unlock(&t->lock);
}
