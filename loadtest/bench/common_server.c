/* common_server.c: starts a photopool server beside a bench, and calls its HTTP API. */
#include "bench/server.h"

#include <curl/curl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/common.h"

struct text {
    char *p;
    size_t n;
};

static void __attribute__((noreturn, format(printf, 1, 2))) give_up(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

static size_t collect(char *p, size_t size, size_t n, void *data)
{
    struct text *t = data;
    t->p = realloc(t->p, t->n + size * n + 1);
    memcpy(t->p + t->n, p, size * n);
    t->n += size * n;
    t->p[t->n] = '\0';
    return size * n;
}

static long call(const struct bench_server *s, const char *method, const char *path, const char *body,
                 struct text *out)
{
    static CURL *easy; /* the only connection of the bench to the server */
    static struct curl_slist *headers;
    char url[1024];
    long status = 0;

    if (!easy) {
        easy = curl_easy_init();
        headers = curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), "Expect:");
    }
    curl_easy_reset(easy);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", s->port, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, out);
    if (body) {
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    }
    if (curl_easy_perform(easy) == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

char *bench_get_text(const struct bench_server *s, const char *path)
{
    struct text t = {0};
    long status = call(s, "GET", path, NULL, &t);
    if (status != 200)
        give_up("GET %s answered %ld", path, status);
    return t.p;
}

json_t *bench_call(const struct bench_server *s, const char *method, const char *path, const char *body)
{
    struct text t = {0};
    long status = call(s, method, path, body, &t);
    json_t *json = t.p ? json_loads(t.p, 0, NULL) : NULL;
    if (status < 200 || status > 299 || !json)
        give_up("%s %s answered %ld: %s", method, path, status, t.p ? t.p : "");
    free(t.p);
    return json;
}

char *bench_post(const struct bench_server *s, const char *client, const char *refresh, json_t *items)
{
    json_t *batch = json_pack("{s:s, s:s, s:o}", "client", client, "refresh", refresh, "items", items);
    char *body = json_dumps(batch, JSON_COMPACT);
    json_t *answer = bench_call(s, "POST", "/v1/batches", body);
    char *id = strdup(json_string_value(json_object_get(answer, "batch_id")));
    free(body);
    json_decref(batch);
    json_decref(answer);
    return id;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

void bench_wait(const struct bench_server *s, const char *batch, double max_seconds)
{
    char path[128];
    double until = bench_now() + max_seconds;

    snprintf(path, sizeof(path), "/v1/batches/%s", batch);
    for (;;) {
        json_t *b = bench_call(s, "GET", path, NULL);
        const char *state = json_string_value(json_object_get(b, "state"));
        bool done = state && strcmp(state, "finished") == 0;
        json_decref(b);
        if (done)
            return;
        if (bench_now() > until)
            give_up("batch %s is not finished after %.0f s", batch, max_seconds);
        pause_ms(20);
    }
}

double bench_rss(const struct bench_server *s)
{
    char path[64], line[256];
    long kib = 0;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)s->pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (double)kib / 1024.0;
}

double bench_metric(const struct bench_server *s, const char *prefix)
{
    char *text = bench_get_text(s, "/metrics");
    char *rest = NULL;
    double value = 0;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            value += strtod(strrchr(line, ' '), NULL);
    free(text);
    return value;
}

static const char *program(char path[4096])
{
    const char *env = getenv("PHOTOPOOL");
    if (env)
        return env;
    ssize_t n = readlink("/proc/self/exe", path, 4000);
    if (n < 0)
        give_up("/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    memcpy(strrchr(path, '/') + 1, "photopool", sizeof("photopool"));
    return path;
}

static void run_server(int cpu, const char *roles, const char *dir, int out, const char *const *sets)
{
    static const char *const always[] = {"http.listen=127.0.0.1:0",
                                         "fetch.allow_networks=127.0.0.0/8",
                                         "fetch.allow_ports=1-65535",
                                         "webhooks.allow_networks=127.0.0.0/8",
                                         "webhooks.allow_ports=1-65535",
                                         "clients.rpm=null",
                                         "clients.concurrency=4096",
                                         "blobs.fsync=off",
                                         NULL};
    char path[4096];
    const char *argv[128] = {program(path), roles ? "serve" : "up", "--data", dir};
    size_t n = 4;

    if (roles) {
        argv[n++] = "--roles";
        argv[n++] = roles;
    }
    for (const char *const *set = always; *set; set++, n += 2) {
        argv[n] = "--set";
        argv[n + 1] = *set;
    }
    for (const char *const *set = sets; set && *set && n < 124; set++, n += 2) {
        argv[n] = "--set";
        argv[n + 1] = *set;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(cpu);
    dup2(out, STDOUT_FILENO);
    argv[n] = "--set";
    argv[n + 1] = "log.level=warn";
    execv(argv[0], (char *const *)argv);
    give_up("%s: %s", argv[0], strerror(errno));
}

struct bench_server bench_server_start(int cpu, const char *const *sets)
{
    return bench_serve_start(cpu, NULL, sets);
}

struct bench_server bench_serve_start(int cpu, const char *roles, const char *const *sets)
{
    struct bench_server s = {0};
    char *dir = bench_dir(), line[1024] = "";
    int fds[2];
    double begin = bench_now();

    snprintf(s.dir, sizeof(s.dir), "%s", dir);
    free(dir);
    if (pipe(fds) != 0)
        give_up("pipe: %s", strerror(errno));
    fflush(NULL);
    s.pid = fork();
    if (s.pid == 0)
        run_server(cpu, roles, s.dir, fds[1], sets);
    close(fds[1]);
    FILE *f = fdopen(fds[0], "r");
    char *at = fgets(line, sizeof(line), f) ? strstr(line, "http://") : NULL;
    char *colon = at ? strchr(at + 7, ':') : NULL;
    if (!colon)
        give_up("photopool did not start");
    s.port = (uint16_t)strtoul(colon + 1, NULL, 10);
    fclose(f);
    struct text ready = {0};
    while (call(&s, "GET", "/readyz", NULL, &ready) != 200)
        pause_ms(2);
    free(ready.p);
    s.ready_seconds = bench_now() - begin;
    return s;
}

void bench_server_stop(struct bench_server *s)
{
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
    bench_remove(s->dir);
}
