/* webhook_bare.c: the bare loop over libcurl that bench_webhook compares photopool's deliveries
 * with. */
#include "bench/webhook_bare.h"

#include <curl/curl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/common.h"

enum { WIDTH_MAX = 512 };

static size_t drop(char *p, size_t size, size_t n, void *data)
{
    (void)p;
    (void)data;
    return size * n;
}

/* Returns the request's headers, without those that libcurl writes by itself. */
static struct curl_slist *headers_of(const char *head, const char *end)
{
    static const char *const own[] = {"Host:", "Accept:", "User-Agent:", "Content-Length:", "Expect:"};
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");

    for (const char *line = strstr(head, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n")) {
        char text[1024];
        size_t n = strcspn(line + 2, "\r");
        bool skip = n == 0;
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            skip = skip || strncasecmp(line + 2, own[i], strlen(own[i])) == 0;
        snprintf(text, sizeof text, "%.*s", (int)n, line + 2);
        if (!skip)
            list = curl_slist_append(list, text);
    }
    return list;
}

static CURL *make(const struct webhook_bare *b, struct curl_slist *headers, const char *body, size_t body_n)
{
    char url[64];
    CURL *easy = curl_easy_init();
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", b->port);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)body_n);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    return easy;
}

/* Starts another request on the handle of each ended request while requests are left to send.
 * Returns false if a request has failed. */
static bool turn_over(CURLM *multi, uint64_t *begun, uint64_t *ended, uint64_t n)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(multi, &left))) {
        CURL *easy = msg->easy_handle;
        long status = 0;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        if (msg->data.result != CURLE_OK || status != 204)
            return false;
        curl_multi_remove_handle(multi, easy);
        ++*ended;
        if (*begun < n) {
            ++*begun;
            curl_multi_add_handle(multi, easy);
        }
    }
    return true;
}

double webhook_bare(void *arg)
{
    const struct webhook_bare *b = arg;
    const char *end = memmem(b->request, b->request_n, "\r\n\r\n", 4);
    CURLM *multi = curl_multi_init();
    CURL *easy[WIDTH_MAX];
    uint64_t begun = 0, ended = 0;
    int running;

    if (!end || b->width > WIDTH_MAX)
        return NAN;
    bench_pin(b->cpu);
    struct curl_slist *headers = headers_of(b->request, end);
    size_t body_n = b->request_n - (size_t)(end + 4 - b->request);
    for (unsigned i = 0; i < b->width && begun < b->n; i++, begun++) {
        easy[i] = make(b, headers, end + 4, body_n);
        curl_multi_add_handle(multi, easy[i]);
    }
    while (ended < b->n) {
        curl_multi_perform(multi, &running);
        if (!turn_over(multi, &begun, &ended, b->n))
            return NAN;
        curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return bench_cpu_seconds(&u) * 1e6 / (double)b->n;
}
