/* doctor_local.c: the checks of `photopool doctor` that ask nobody but this machine. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/params.h"
#include "data_dir.h"
#include "doctor.h"
#include "pipeline/common/space.h"
#include "wire_parts.h"

enum { PATH_BYTES = 4096 };

/* --- the configuration --- */

void pp_doctor_config(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    size_t n, set = 0;

    (void)pp_params(&n);
    for (size_t i = 0; i < n; i++)
        set += c->origin[i].source != PP_SOURCE_DEFAULT;
    if (!pp_wire_stores_fit(c))
        pp_doctor_add(d, "configuration", PP_DOCTOR_FAIL, "correct the one that is wrong",
                      PP_WIRE_STORES_MISFIT);
    else
        pp_doctor_add(d, "configuration", PP_DOCTOR_OK, NULL, "%s; %zu of %zu parameters are set; for %s",
                      c->file[0] ? c->file : "no file", set, n,
                      d->fleet ? "photopool serve, a fleet" : "photopool up, one process");
}

void pp_doctor_auth(struct pp_doctor *d)
{
    struct pp_config_error error;

    if (pp_config_check(d->config, &error) != PP_OK)
        pp_doctor_add(d, "API keys", PP_DOCTOR_FAIL, "set auth.keys, or listen on 127.0.0.1", "%s",
                      error.text);
    else if (d->config->auth.keys.n > 0)
        pp_doctor_add(d, "API keys", PP_DOCTOR_OK, NULL, "%zu", d->config->auth.keys.n);
    else
        pp_doctor_add(d, "API keys", PP_DOCTOR_OK, NULL,
                      "none: only programs on this machine can use the API, and all of them can");
}

/* Asks whether a server accepts at a unix socket's path. Returns 0, or EADDRINUSE if one does. */
static int try_connect(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    if (fd < 0)
        return errno;
    int err = connect(fd, (const struct sockaddr *)&un, sizeof un) == 0 || errno == EAGAIN ? EADDRINUSE : 0;
    close(fd);
    return err;
}

/* Checks http.listen for a unix socket. */
static void look_at_unix(struct pp_doctor *d, const char *path)
{
    static const char another[] = "choose another file: --set http.listen=unix:PATH";
    char copy[PATH_BYTES];
    struct stat st;

    (void)snprintf(copy, sizeof copy, "%s", path);
    const char *dir = dirname(copy);
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        pp_doctor_add(d, "http.listen", PP_DOCTOR_FAIL, another, "unix:%s is a file, but no socket", path);
    else if (try_connect(path) == EADDRINUSE && d->in_use)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_OK, NULL, "unix:%s: a server listens there", path);
    else if (try_connect(path) == EADDRINUSE)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_WARN, another, "unix:%s: a program listens there", path);
    else if (access(dir, W_OK | X_OK) != 0)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_FAIL, another, "unix:%s can't be made: %s: %s", path, dir,
                      strerror(errno));
    else
        pp_doctor_add(d, "http.listen", PP_DOCTOR_OK, NULL, "unix:%s is free", path);
}

/* Binds a socket to the address of http.listen. Returns 0 or an errno. */
static int try_bind(const struct pp_config_listen *listen_at)
{
    struct sockaddr_storage at = {0};
    struct pp_addr addr;
    const int on = 1;

    if (!pp_addr_from_text(&addr, listen_at->host, strlen(listen_at->host)))
        return 0; /* the loader has checked it: a name of this machine */
    socklen_t n = addr.family == 4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (addr.family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&at;
        in->sin_family = AF_INET;
        in->sin_port = htons(listen_at->port);
        memcpy(&in->sin_addr, addr.b, sizeof in->sin_addr);
    } else {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)&at;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(listen_at->port);
        memcpy(&in->sin6_addr, addr.b, sizeof in->sin6_addr);
    }
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int err = bind(fd, (const struct sockaddr *)&at, n) == 0 && listen(fd, 1) == 0 ? 0 : errno;
    close(fd);
    return err;
}

void pp_doctor_listen(struct pp_doctor *d)
{
    const struct pp_config_listen *at = &d->config->http.listen;

    if (at->unix_path[0]) {
        look_at_unix(d, at->unix_path);
        return;
    }
    int err = try_bind(at);
    if (err == EADDRINUSE && d->in_use)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_OK, NULL, "%s, port %u: a server listens there", at->host,
                      at->port);
    else if (err == EADDRINUSE)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_WARN,
                      "if it is another program, choose another address: --set http.listen=HOST:PORT",
                      "%s, port %u: a program listens there", at->host, at->port);
    else if (err != 0)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_FAIL, "choose another address: --set http.listen=HOST:PORT",
                      "%s, port %u: %s", at->host, at->port, strerror(err));
    else if (at->port == 0)
        pp_doctor_add(d, "http.listen", PP_DOCTOR_OK, NULL, "%s, any free port", at->host);
    else
        pp_doctor_add(d, "http.listen", PP_DOCTOR_OK, NULL, "%s, port %u is free", at->host, at->port);
}

/* --- folders --- */

/* Writes the deepest folder of the path that exists to `out`. Returns true if it is the whole
 * path. */
static bool existing(const char *path, char out[PATH_BYTES])
{
    struct stat st;
    bool whole = true;

    (void)snprintf(out, PATH_BYTES, "%s", path);
    while (stat(out, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(out, '/');
        whole = false;
        if (!slash)
            (void)snprintf(out, PATH_BYTES, ".");
        else if (slash == out)
            out[1] = '\0';
        else
            *slash = '\0';
    }
    return whole;
}

/* Writes and syncs a temporary file, and removes it. Returns 0 or an errno. */
static int try_write(const char *dir)
{
    static const char text[4096] = "photopool doctor";
    char name[64];
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return errno;
    (void)snprintf(name, sizeof name, ".photopool-doctor-%ld", (long)getpid());
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = fd < 0 ? errno : 0;
    if (fd >= 0) {
        ssize_t n = write(fd, text, sizeof text);
        if (n != (ssize_t)sizeof text || fsync(fd) != 0)
            err = n >= 0 && n != (ssize_t)sizeof text ? ENOSPC : errno;
        close(fd);
        (void)unlinkat(at, name, 0);
    }
    close(at);
    return err;
}

void pp_doctor_writable(struct pp_doctor *d, const char *check, const char *path, const char *name)
{
    char dir[PATH_BYTES];
    bool whole = existing(path, dir);
    int err = whole ? try_write(dir) : access(dir, W_OK | X_OK) == 0 ? 0 : errno;

    if (err == 0) {
        pp_doctor_add(d, check, PP_DOCTOR_OK, NULL, "%s %s", path,
                      whole ? "can be written" : "does not exist yet; a server makes it");
        return;
    }
    struct pp_finding f = {.check = check, .state = PP_DOCTOR_FAIL};
    (void)snprintf(f.found, sizeof f.found, "%.250s can't be %s: %s (%.250s)", path,
                   whole ? "written" : "made", strerror(err), dir);
    (void)snprintf(f.remedy, sizeof f.remedy, "let user %u write in %.200s, or choose another folder with %s",
                   (unsigned)geteuid(), dir, name);
    pp_doctor_say(d, &f);
}

void pp_doctor_data_dir(struct pp_doctor *d)
{
    const char *path = d->config->data_dir;
    struct pp_wire_error error;

    if (!pp_wire_needs_data(d->config, PP_ROLES_ALL)) {
        pp_doctor_add(d, "data directory", PP_DOCTOR_SKIPPED, NULL,
                      "not used: all data is in MongoDB and Redis, and ingest.journal is off");
        return;
    }
    enum pp_err err = pp_data_dir_look(path, &d->in_use, &error);
    if (err == PP_EIO)
        pp_doctor_add(d, "data directory", PP_DOCTOR_FAIL, "do as it says, then run doctor again", "%s",
                      error.text);
    else
        pp_doctor_writable(d, "data directory", path, "--data DIR");
    if (d->in_use)
        pp_doctor_add(d, "lock", PP_DOCTOR_OK, NULL, "a photopool that runs has %s", path);
}

void pp_doctor_disk(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    char blobs[PATH_BYTES], data[PATH_BYTES], why[PATH_BYTES + 200];
    bool files = strncmp(c->blobs.url, "file:", 5) == 0, uses = pp_wire_needs_data(c, PP_ROLES_ALL);
    struct pp_space space = {.min_free = (uint64_t)c->blobs.min_free_bytes,
                             .is_set = pp_config_is_set(c, "blobs.min_free")};

    if (files)
        (void)existing(c->blobs.url + 5, blobs);
    if (uses)
        (void)existing(c->data_dir, data);
    space.dir[PP_SPACE_BLOBS] = files ? blobs : NULL;
    space.dir[PP_SPACE_DATA] = uses ? data : NULL;
    if (!files && !uses)
        pp_doctor_add(d, "disk space", PP_DOCTOR_SKIPPED, NULL, "nothing is stored on this machine");
    else if (!pp_space_measure(&space, why, sizeof why))
        pp_doctor_add(d, "disk space", PP_DOCTOR_FAIL,
                      "free some space: workers fetch nothing while there is so little", "%.500s", why);
    else
        pp_doctor_add(d, "disk space", PP_DOCTOR_OK, NULL, "%llu MiB are free for %s",
                      (unsigned long long)(space.free_bytes[files ? PP_SPACE_BLOBS : PP_SPACE_DATA] >> 20),
                      files ? "photos" : "data");
}

/* --- limits of the process, time, addresses, files --- */

void pp_doctor_limits(struct pp_doctor *d)
{
    struct pp_finding f = {.check = "descriptors"};
    struct pp_wire_params w;
    struct rlimit r;

    enum pp_err err = pp_wire_params_init(&w, d->config);
    if (err == PP_OK && getrlimit(RLIMIT_NOFILE, &r) == 0) {
        uint32_t hard = r.rlim_max < PP_DESCRIPTORS_MAX ? (uint32_t)r.rlim_max : PP_DESCRIPTORS_MAX;
        const struct pp_budget_want want = pp_wire_want(&w.params, d->config, PP_ROLES_ALL, hard);
        pp_doctor_descriptors(&f, &want);
        pp_doctor_say(d, &f);
    } else {
        pp_doctor_add(d, f.check, PP_DOCTOR_SKIPPED, NULL, "the limit can't be read");
    }
    pp_wire_params_fini(&w);
}

void pp_doctor_sync(struct pp_doctor *d)
{
    struct timex t = {0};
    int state = adjtimex(&t);

    if (state < 0)
        pp_doctor_add(d, "clock", PP_DOCTOR_SKIPPED, NULL, "the kernel does not say: %s", strerror(errno));
    else if (state != TIME_ERROR && !(t.status & STA_UNSYNC))
        pp_doctor_add(d, "clock", PP_DOCTOR_OK, NULL, "the kernel's clock is synchronised");
    else if (d->fleet)
        pp_doctor_add(d, "clock", PP_DOCTOR_WARN, "run chrony or systemd-timesyncd on each machine",
                      "nothing tells the kernel that its clock is synchronised");
    else
        pp_doctor_add(d, "clock", PP_DOCTOR_OK, NULL,
                      "nothing tells the kernel that its clock is synchronised; one process needs no more");
}

void pp_doctor_addresses(struct pp_doctor *d)
{
    const struct pp_config *c = d->config;
    struct pp_finding photos = {.check = "address policy"}, hooks = {.check = "webhooks policy"};
    pp_doctor_policy(&photos, "fetch", &c->fetch.allow_networks, &c->fetch.allow_ports);
    pp_doctor_say(d, &photos);
    pp_doctor_policy(&hooks, "webhooks", &c->webhooks.allow_networks, &c->webhooks.allow_ports);
    pp_doctor_say(d, &hooks);
}

void pp_doctor_certificates(struct pp_doctor *d)
{
    const struct {
        const char *name, *path;
    } files[] = {{"fetch.ca_file", d->config->fetch.ca_file}, {"amqp.ca_file", d->config->amqp.ca_file}};
    struct pp_wire_error error;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i].path[0])
            continue;
        if (pp_wire_check_ca_file(files[i].name, files[i].path, &error) == PP_OK)
            pp_doctor_add(d, "certificates", PP_DOCTOR_OK, NULL, "%s %s", files[i].name, files[i].path);
        else
            pp_doctor_add(d, "certificates", PP_DOCTOR_FAIL, "name a file of certificates in PEM form", "%s",
                          error.text);
    }
    if (!d->config->http.tls.cert[0])
        return;
    enum pp_err err = pp_wire_check_tls(d->config, &error);
    if (error.text[0])
        pp_doctor_add(d, "certificates", err == PP_OK ? PP_DOCTOR_WARN : PP_DOCTOR_FAIL, "do as it says",
                      "%s", error.text);
    else
        pp_doctor_add(d, "certificates", PP_DOCTOR_OK, NULL, "http.tls.cert %s", d->config->http.tls.cert);
}
