/* http_link.c: what connections send: plain bytes to libuv, others through TLS (tls.h). */
#include <sys/socket.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

int pp_conn_try_write(struct pp_conn *c, const uv_buf_t *bufs, unsigned n)
{
    return c->tls ? pp_tls_try_write(c->tls, bufs, n) : uv_try_write((uv_stream_t *)&c->tcp, bufs, n);
}

static void on_plain(uv_write_t *req, int status)
{
    struct pp_conn_write *w = pp_container_of(req, struct pp_conn_write, plain);
    w->cb(w, status);
}

static void on_tls(struct pp_tls_write *req, int status)
{
    struct pp_conn_write *w = pp_container_of(req, struct pp_conn_write, tls);
    w->cb(w, status);
}

int pp_conn_write(struct pp_conn *c, struct pp_conn_write *w, const uv_buf_t *bufs, unsigned n)
{
    pp_assert(w->cb, "a write has no callback");
    if (c->tls)
        return pp_tls_write(c->tls, &w->tls, bufs, n, on_tls);
    return uv_write(&w->plain, (uv_stream_t *)&c->tcp, bufs, n, on_plain);
}

size_t pp_conn_unsent(const struct pp_conn *c)
{
    return c->tls ? pp_tls_unsent(c->tls) : uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

void pp_conn_shut(struct pp_conn *c)
{
    uv_os_fd_t fd;
    if (c->tls)
        pp_tls_shut(c->tls);
    else if (uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0)
        shutdown(fd, SHUT_WR);
}

void pp_conn_say_bye(struct pp_conn *c)
{
    if (c->tls && c->state != PP_CONN_WRITE && pp_tls_unsent(c->tls) == 0)
        pp_tls_shut(c->tls);
}
