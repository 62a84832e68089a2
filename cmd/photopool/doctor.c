/* doctor.c: findings of `photopool doctor`, and decisions from numbers. Pure, apart from showing a
 * finding. */
#include "doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/address.h"

#define TEXT_MAX 4096

void pp_doctor_say(struct pp_doctor *d, const struct pp_finding *f)
{
    d->counts[f->state]++;
    d->show(d->data, f);
}

void pp_doctor_add(struct pp_doctor *d, const char *check, enum pp_doctor_state state, const char *remedy,
                   const char *fmt, ...)
{
    struct pp_finding f = {.check = check, .state = state};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.found, sizeof f.found, fmt, ap);
    va_end(ap);
    snprintf(f.remedy, sizeof f.remedy, "%s", remedy ? remedy : "");
    pp_doctor_say(d, &f);
}

/* --- descriptors --- */

/* Returns true if these descriptors are enough for everything that is wanted. */
static bool is_enough(struct pp_budget_want want, uint32_t descriptors)
{
    struct pp_budget b;
    want.descriptors = descriptors;
    return pp_budget_divide(&want, &b) == PP_OK && b.transfers >= want.transfers && b.posts >= want.posts &&
           b.callers >= want.callers && b.streams >= want.streams;
}

/* Returns the smallest power of two that is enough. */
static uint32_t enough(const struct pp_budget_want *want)
{
    uint32_t n = 1024;
    while (n < UINT32_C(1) << 30 && !is_enough(*want, n))
        n *= 2;
    return n;
}

void pp_doctor_descriptors(struct pp_finding *f, const struct pp_budget_want *want)
{
    uint32_t limit = want->descriptors, most = enough(want);
    struct pp_budget b;

    snprintf(f->remedy, sizeof f->remedy, "raise the hard limit: ulimit -n %u, or LimitNOFILE=%u in the unit",
             most, most);
    if (pp_budget_divide(want, &b) != PP_OK) {
        f->state = PP_DOCTOR_FAIL;
        snprintf(f->found, sizeof f->found, "%u descriptors; photopool needs at least %u", limit,
                 pp_budget_needed(want));
    } else if (b.transfers < want->transfers) {
        f->state = PP_DOCTOR_WARN;
        snprintf(f->found, sizeof f->found,
                 "%u descriptors: %u transfers at once, and not %u (fetch.tiers), %u connections of callers",
                 limit, b.transfers, want->transfers, b.callers);
    } else {
        f->state = PP_DOCTOR_OK;
        int n = snprintf(f->found, sizeof f->found,
                         "%u descriptors: %u transfers at once, %u connections of callers, %u event streams",
                         limit, b.transfers, b.callers, b.streams);
        if (limit < most && n > 0)
            snprintf(f->found + n, sizeof f->found - (size_t)n, "; all that is configured takes up to %u",
                     most);
        f->remedy[0] = '\0';
    }
}

/* --- the clock --- */

enum { CLOCK_WARN_MS = 1000 };

void pp_doctor_clock(struct pp_finding *f, const char *server, int64_t ahead_ms, int64_t error_ms,
                     int64_t lease_ms)
{
    int64_t off = llabs(ahead_ms), sure = off > error_ms ? off - error_ms : 0;

    f->state = sure > lease_ms / 2 ? PP_DOCTOR_FAIL : sure > CLOCK_WARN_MS ? PP_DOCTOR_WARN : PP_DOCTOR_OK;
    f->remedy[0] = '\0';
    if (f->state == PP_DOCTOR_OK) {
        snprintf(f->found, sizeof f->found, "this machine's clock agrees with that of %s", server);
        return;
    }
    snprintf(f->found, sizeof f->found, "this machine's clock is %" PRId64 ".%" PRId64 " s %s that of %s",
             off / 1000, off % 1000 / 100, ahead_ms > 0 ? "ahead of" : "behind", server);
    snprintf(f->remedy, sizeof f->remedy,
             "synchronise the clocks of both machines (chrony, systemd-timesyncd); a lease is %" PRId64 " s",
             lease_ms / 1000);
}

/* --- the address policy --- */

static const struct {
    const char *what, *network;
} special[] = {{"loopback", "127.0.0.0/8"},
               {"loopback", "::1/128"},
               {"link-local: metadata servers of clouds", "169.254.0.0/16"},
               {"link-local", "fe80::/10"},
               {"private", "10.0.0.0/8"},
               {"private", "172.16.0.0/12"},
               {"private", "192.168.0.0/16"},
               {"private", "fc00::/7"},
               {"shared by a provider's customers", "100.64.0.0/10"}};

/* Returns what is in the network that strangers must not reach, or NULL. */
static const char *danger(const char *text)
{
    struct pp_cidr net, other;
    if (!pp_cidr_parse(&net, text, strlen(text)))
        return NULL;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (pp_cidr_parse(&other, special[i].network, strlen(special[i].network)) &&
            (pp_cidr_contains(&net, &other.addr) || pp_cidr_contains(&other, &net.addr)))
            return special[i].what;
    return NULL;
}

void pp_doctor_policy(struct pp_finding *f, const char *section, const struct pp_config_strings *networks,
                      const struct pp_config_ports *ports)
{
    struct pp_buf b;

    pp_buf_init(&b, TEXT_MAX);
    f->state = PP_DOCTOR_OK;
    f->remedy[0] = '\0';
    pp_buf_printf(&b, "public addresses%s", networks->n > 0 ? " and" : "");
    for (size_t i = 0; i < networks->n; i++) {
        const char *what = danger(networks->item[i]);
        pp_buf_printf(&b, "%s %s%s%s%s", i > 0 ? "," : "", networks->item[i], what ? " (" : "",
                      what ? what : "", what ? ")" : "");
        if (what)
            f->state = PP_DOCTOR_WARN;
    }
    pp_buf_printf(&b, "; ports");
    for (size_t i = 0; i < ports->n; i++) {
        pp_buf_printf(&b, "%s %u", i > 0 ? "," : "", ports->item[i].first);
        if (ports->item[i].last != ports->item[i].first)
            pp_buf_printf(&b, "-%u", ports->item[i].last);
    }
    snprintf(f->found, sizeof f->found, "%.*s", (int)b.n, b.n > 0 ? (const char *)b.p : "");
    pp_buf_fini(&b);
    if (f->state == PP_DOCTOR_WARN)
        snprintf(f->remedy, sizeof f->remedy,
                 "callers can make photopool connect there: remove these networks from "
                 "%s.allow_networks, unless all callers are trusted",
                 section);
}
