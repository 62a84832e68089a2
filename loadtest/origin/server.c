/* server.c: the listeners, threads and signals of the fake photo host. */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tls.h"

#define OG_RELOADS 10000u

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "origin: %s: %s\n", what, why);
    return 1;
}

/* ---- listening ---- */

static void on_connection(uv_stream_t *listener, int status)
{
    struct og_loop *lp = listener->data;
    unsigned i = (unsigned)((uv_tcp_t *)listener - lp->listener);
    if (status == 0)
        og_conn_accept(lp, listener, lp->server->opt->listen[i].tls);
}

/* Binds the address with SO_REUSEPORT, which libuv does not set. If the port in `sa` is 0, replaces
 * it by the port that the kernel chose. Returns 0 or a libuv error. */
static int listen_on(struct og_loop *lp, uv_tcp_t *tcp, struct sockaddr_storage *sa, bool shared)
{
    int on = 1, fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    socklen_t n = sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)sa, n) != 0 || getsockname(fd, (struct sockaddr *)sa, &n) != 0) {
        int e = -errno;
        close(fd);
        return e;
    }
    int e = uv_tcp_open(tcp, fd);
    if (e != 0) {
        close(fd);
        return e;
    }
    tcp->data = lp;
    return uv_listen((uv_stream_t *)tcp, 4096, on_connection);
}

static unsigned port_of(const struct sockaddr_storage *sa)
{
    return ntohs(sa->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_port
                                           : ((const struct sockaddr_in *)sa)->sin_port);
}

/* Writes the port numbers to a temporary file and renames the file, so that readers never see half
 * of it. */
static bool write_ports(const char *path, const struct og_address *at, unsigned n)
{
    char aside[4096];
    if (snprintf(aside, sizeof aside, "%s.new", path) >= (int)sizeof aside)
        return false;
    FILE *f = fopen(aside, "we");
    if (f == NULL)
        return false;
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "%u\n", port_of(&at[i].sa));
    return fclose(f) == 0 && rename(aside, path) == 0;
}

/* ---- the loop of a thread ---- */

static void set_date(struct og_loop *lp)
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(lp->world.date, sizeof lp->world.date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
}

static void on_tick(uv_timer_t *t)
{
    struct og_loop *lp = t->data;
    og_record_flush(&lp->record);
    if (++lp->ticks % 10 == 0)
        set_date(lp);
    if (lp->ticks % 50 == 0)
        og_conn_sweep(lp);
}

static void on_stop(uv_async_t *a)
{
    struct og_loop *lp = a->data;
    if (lp->stopping)
        return;
    lp->stopping = true;
    for (unsigned i = 0; i < lp->server->opt->listens; i++)
        uv_close((uv_handle_t *)&lp->listener[i], NULL);
    og_conn_stop_all(lp);
    uv_close((uv_handle_t *)&lp->tick, NULL);
    uv_close((uv_handle_t *)&lp->stop, NULL);
}

static int loop_init(struct og_loop *lp, struct og_server *s, struct og_address *at)
{
    lp->server = s;
    pp_list_init(&lp->conns);
    og_record_init(&lp->record, s->record_fd);
    lp->world =
        (struct og_world){.bulk = s->bulk, .tally = s->tally, .files_fd = s->files_fd, .bomb = s->bomb};
    lp->lots = (uint64_t)(lp - s->loop) << 48;
    set_date(lp);
    int e = uv_loop_init(&lp->uv);
    if (e != 0)
        return fail("loop", uv_strerror(e));
    uv_async_init(&lp->uv, &lp->stop, on_stop);
    uv_timer_init(&lp->uv, &lp->tick);
    lp->stop.data = lp->tick.data = lp;
    uv_timer_start(&lp->tick, on_tick, 100, 100);
    for (unsigned i = 0; i < s->opt->listens; i++) {
        uv_tcp_init(&lp->uv, &lp->listener[i]);
        e = listen_on(lp, &lp->listener[i], &at[i].sa, s->opt->threads > 1);
        if (e != 0)
            return fail("listen", uv_strerror(e));
    }
    return 0;
}

static void run(void *arg)
{
    struct og_loop *lp = arg;
    uv_run(&lp->uv, UV_RUN_DEFAULT);
    og_record_flush(&lp->record);
}

/* ---- the server ---- */

bool og_server_reload(struct og_server *s, char *why, size_t why_n)
{
    if (s->opt->hosts == NULL) {
        snprintf(why, why_n, "there is no --hosts");
        return false;
    }
    struct og_rules *fresh = og_rules_load(s->opt->hosts, &s->opt->behaviour, why, why_n);
    if (fresh == NULL)
        return false;
    uv_mutex_lock(&s->reload_lock);
    bool room = s->retired_n < OG_RELOADS;
    if (room)
        s->retired[s->retired_n++] = atomic_exchange(&s->rules, fresh);
    uv_mutex_unlock(&s->reload_lock);
    if (!room) {
        snprintf(why, why_n, "reloaded too often");
        og_rules_free(fresh);
    }
    return room;
}

static void on_signal(uv_signal_t *h, int signum)
{
    struct og_server *s = h->data;
    char why[256];
    if (signum == SIGHUP) {
        if (!og_server_reload(s, why, sizeof why))
            fprintf(stderr, "origin: %s\n", why);
        return;
    }
    for (unsigned i = 0; i < s->opt->threads; i++)
        uv_async_send(&s->loop[i].stop);
}

static int prepare(struct og_server *s)
{
    const struct og_options *o = s->opt;
    char why[512];
    if (uv_mutex_init(&s->reload_lock) != 0)
        return fail("start", "no mutex");
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    signal(SIGPIPE, SIG_IGN);
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    s->wall_minus_mono_us =
        (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000 - (int64_t)(uv_hrtime() / 1000);
    s->bulk = og_bulk_new();
    s->tally = og_tally_new(o->keep_heads);
    s->retired = calloc(OG_RELOADS, sizeof(struct og_rules *));
    s->loop = calloc(o->threads, sizeof *s->loop);
    if (s->bulk == NULL || s->tally == NULL || s->retired == NULL || s->loop == NULL)
        return fail("start", "out of memory");
    s->bomb = og_bomb_prefix(s->bulk);
    if (o->files != NULL && (s->files_fd = open(o->files, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return fail(o->files, strerror(errno));
    if (o->record != NULL &&
        (s->record_fd = open(o->record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) < 0)
        return fail(o->record, strerror(errno));
    if (o->hosts != NULL) {
        s->rules = og_rules_load(o->hosts, &o->behaviour, why, sizeof why);
        if (s->rules == NULL)
            return fail("hosts", why);
    }
    if (o->cert != NULL && (s->tls_ctx = og_tls_context(o->cert, o->key, why, sizeof why)) == NULL)
        return fail("tls", why);
    return 0;
}

static void server_fini(struct og_server *s)
{
    for (unsigned i = 0; i < s->retired_n; i++)
        og_rules_free(s->retired[i]);
    og_rules_free(s->rules);
    uv_mutex_destroy(&s->reload_lock);
    free(s->retired);
    free(s->loop);
    free(s->bomb.p);
    og_tally_free(s->tally);
    og_bulk_free(s->bulk);
    og_tls_context_free(s->tls_ctx);
    if (s->files_fd >= 0)
        close(s->files_fd);
    if (s->record_fd >= 0)
        close(s->record_fd);
}

/* Opens the listeners of all loops, then starts the threads. The main thread runs loop 0 and
 * handles signals. */
static int serve(struct og_server *s)
{
    const struct og_options *o = s->opt;
    struct og_address at[OG_LISTENS];
    memcpy(at, o->listen, sizeof at);
    for (unsigned i = 0; i < o->threads; i++) {
        int code = loop_init(&s->loop[i], s, at);
        if (code != 0)
            return code;
    }
    uv_signal_t sig[3];
    const int nums[3] = {SIGTERM, SIGINT, SIGHUP};
    for (int i = 0; i < 3; i++) {
        uv_signal_init(&s->loop[0].uv, &sig[i]);
        sig[i].data = s;
        uv_signal_start(&sig[i], on_signal, nums[i]);
        uv_unref((uv_handle_t *)&sig[i]);
    }
    if (o->port_file != NULL && !write_ports(o->port_file, at, o->listens))
        return fail(o->port_file, strerror(errno));
    for (unsigned i = 0; i < o->listens; i++)
        fprintf(stderr, "origin: %s on port %u\n", at[i].tls ? "https" : "http", port_of(&at[i].sa));
    for (unsigned i = 1; i < o->threads; i++) {
        if (uv_thread_create(&s->loop[i].thread, run, &s->loop[i]) != 0)
            return fail("thread", "out of them");
    }
    run(&s->loop[0]);
    for (unsigned i = 1; i < o->threads; i++)
        uv_thread_join(&s->loop[i].thread);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&sig[i], NULL);
    for (unsigned i = 0; i < o->threads; i++) {
        uv_run(&s->loop[i].uv, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop[i].uv);
    }
    return 0;
}

int og_serve(const struct og_options *opt)
{
    struct og_server s = {.opt = opt, .files_fd = -1, .record_fd = -1};
    int code = prepare(&s);
    if (code == 0)
        code = serve(&s);
    if (code == 0)
        /* After an error the process ends, so the loops need not be closed one by one. */
        server_fini(&s);
    return code;
}
