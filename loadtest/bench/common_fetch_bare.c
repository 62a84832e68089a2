/* common_fetch_bare.c: the program that bench_fetch compares photopool with: a plain loop over one
 * libcurl multi handle, as a programmer would write it in an afternoon. It hashes and writes each
 * chunk as it arrives. At the end it renames the file to its hash, in the same directory tree as
 * photopool. */
#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/fetch_ours.h"

struct slot {
    CURL *easy;
    EVP_MD_CTX *hash;
    int fd;
    char temp[300];
};

static size_t on_data(char *p, size_t size, size_t n, void *data)
{
    struct slot *s = data;
    EVP_DigestUpdate(s->hash, p, size * n);
    return write(s->fd, p, size * n) == (ssize_t)(size * n) ? size * n : 0;
}

void fetch_url(const struct fetch_job *job, unsigned i, char url[128])
{
    snprintf(url, 128, "http://127.0.0.1:%u/%u/%u.jpg?bytes=76800", job->port, job->round, i);
}

static void start(CURLM *multi, struct slot *s, const struct fetch_job *job, unsigned i, const EVP_MD *sha256)
{
    char url[128];

    fetch_url(job, i, url);
    snprintf(s->temp, sizeof(s->temp), "%s/tmp-%u", job->dir, i);
    s->fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    EVP_DigestInit_ex(s->hash, sha256, NULL);
    curl_easy_setopt(s->easy, CURLOPT_URL, url);
    curl_multi_add_handle(multi, s->easy);
}

static bool finish(struct slot *s, const struct fetch_job *job, CURLcode code)
{
    unsigned char sha[32];
    char hex[65], path[512];
    long status = 0;

    close(s->fd);
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200)
        return false;
    EVP_DigestFinal_ex(s->hash, sha, NULL);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", sha[i]);
    snprintf(path, sizeof(path), "%s/%.2s/%.2s/%s.jpg", job->dir, hex, hex + 2, hex);
    if (rename(s->temp, path) == 0)
        return true;
    char part[300];
    snprintf(part, sizeof(part), "%s/%.2s", job->dir, hex);
    mkdir(part, 0755);
    snprintf(part, sizeof(part), "%s/%.2s/%.2s", job->dir, hex, hex + 2);
    mkdir(part, 0755);
    return rename(s->temp, path) == 0;
}

double fetch_bare(void *arg)
{
    const struct fetch_job *job = arg;
    struct slot *slots = calloc(job->width, sizeof(*slots));
    EVP_MD *sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    CURLM *multi = curl_multi_init();
    unsigned next = 0, done = 0;

    bench_pin(job->cpu);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)job->width);
    double begin = bench_now();
    for (unsigned i = 0; i < job->width && next < job->n; i++) {
        struct slot *s = &slots[i];
        s->hash = EVP_MD_CTX_new();
        s->easy = curl_easy_init();
        curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_data);
        curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
        curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
        curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
        start(multi, s, job, next++, sha256);
    }
    while (done < job->n) {
        int running, left;
        CURLMsg *msg;
        curl_multi_perform(multi, &running);
        while ((msg = curl_multi_info_read(multi, &left))) {
            struct slot *s;
            CURLcode code = msg->data.result;
            CURL *easy = msg->easy_handle;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &s);
            curl_multi_remove_handle(multi, easy);
            if (!finish(s, job, code))
                return 0;
            done++;
            if (next < job->n)
                start(multi, s, job, next++, sha256);
        }
        if (done < job->n)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    return job->n / (bench_now() - begin);
}

double fetch_bare_one_free(void *arg)
{
    const struct fetch_job *job = arg;
    struct rusage all;

    if (fetch_bare(arg) == 0)
        return 0;
    getrusage(RUSAGE_SELF, &all);
    return job->n / bench_cpu_seconds(&all);
}
