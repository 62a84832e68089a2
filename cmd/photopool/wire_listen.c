/* wire_listen.c: opens the HTTP server where http.listen says, with the certificate of
 * http.tls.cert. */
#include <stdio.h>
#include <string.h>

#include "adapter/http/http_server.h"
#include "adapter/http/tls_context.h"
#include "wire_parts.h"

static const char *file_of(const struct pp_config *c, const struct pp_tls_problem *problem)
{
    return problem->key ? c->http.tls.key : c->http.tls.cert;
}

static const char *parameter_of(const struct pp_tls_problem *problem)
{
    return problem->key ? "http.tls.key" : "http.tls.cert";
}

/* Reads certificate and key. Sets *out to NULL if the configuration names none. A warning goes to
 * `warning`, which is "" without one; a failure to `error`. */
static enum pp_err read_tls(const struct pp_config *c, struct pp_tls_context **out,
                            struct pp_wire_error *warning, struct pp_wire_error *error)
{
    struct pp_tls_problem problem;

    *out = NULL;
    warning->text[0] = '\0';
    if (!c->http.tls.cert[0])
        return PP_OK;
    enum pp_err err = pp_tls_context_open(c->http.tls.cert, c->http.tls.key, out, &problem);
    if (err == PP_ENOMEM)
        return pp_wire_explain(error, err, "out of memory");
    if (problem.text[0])
        (void)pp_wire_explain(err == PP_OK ? warning : error, PP_EINVAL, "%s %s %s", parameter_of(&problem),
                              file_of(c, &problem), problem.text);
    return err;
}

enum pp_err pp_wire_open_tls(const struct pp_config *c, struct pp_log *log, struct pp_tls_context **out,
                             struct pp_wire_error *error)
{
    struct pp_wire_error warning;
    enum pp_err err = read_tls(c, out, &warning, error);
    if (err == PP_OK && warning.text[0])
        pp_log(log, PP_LOG_WARN, warning.text, NULL);
    return err;
}

enum pp_err pp_wire_check_tls(const struct pp_config *c, struct pp_wire_error *text)
{
    struct pp_wire_error warning, error;
    struct pp_tls_context *tls;
    enum pp_err err = read_tls(c, &tls, &warning, &error);

    pp_tls_context_close(tls);
    *text = err == PP_OK ? warning : error;
    return err;
}

void pp_wire_url(const struct pp_config *c, uint16_t port, char out[PP_WIRE_URL_BYTES])
{
    const struct pp_config_listen *at = &c->http.listen;
    bool v6 = strchr(at->host, ':') != NULL;

    if (at->unix_path[0])
        (void)snprintf(out, PP_WIRE_URL_BYTES, "unix:%s", at->unix_path);
    else
        (void)snprintf(out, PP_WIRE_URL_BYTES, "http%s://%s%s%s:%u", c->http.tls.cert[0] ? "s" : "",
                       v6 ? "[" : "", at->host, v6 ? "]" : "", port);
}

/* Writes why the server can not listen to `error`. */
static enum pp_err explain(const struct pp_config *c, enum pp_err err, struct pp_wire_error *error)
{
    const struct pp_config_listen *at = &c->http.listen;
    bool v6 = strchr(at->host, ':') != NULL;

    if (at->unix_path[0])
        return pp_wire_explain(error, err, "http.listen unix:%s: %s", at->unix_path,
                               err == PP_EBUSY ? "a server listens there; stop it or choose another file "
                                                 "with --set http.listen=unix:PATH"
                                               : "no socket can be made there; the log says why");
    return pp_wire_explain(
        error, err, "http.listen %s%s%s:%u: %s", v6 ? "[" : "", at->host, v6 ? "]" : "", at->port,
        err == PP_EBUSY ? "address already in use; stop the other process or choose another "
                          "with --set http.listen=HOST:PORT"
                        : pp_err_text(err));
}

enum pp_err pp_wire_listen(struct pp_loop *loop, const struct pp_config *c,
                           const struct pp_http_options *options, const struct pp_http_handler *handler,
                           struct pp_http_server **out, struct pp_wire_error *error)
{
    const struct pp_config_listen *at = &c->http.listen;
    struct pp_http_options o = *options;
    enum pp_err err = pp_wire_open_tls(c, o.log, &o.tls, error);

    if (err != PP_OK)
        return err;
    o.host = at->unix_path[0] ? NULL : at->host;
    o.unix_path = at->unix_path[0] ? at->unix_path : NULL;
    o.port = at->port;
    err = pp_http_server_open(loop, &o, handler, out);
    if (err != PP_OK)
        pp_tls_context_close(o.tls);
    return explain(c, err, error);
}
