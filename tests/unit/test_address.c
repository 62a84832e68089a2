/* Compares the address policy with an oracle that is written differently: a sorted list of the
 * first and last address of each special range, copied from the registries' texts.
 *
 * The test asks about so many of the 2^32 IPv4 addresses that it finds any row of the policy's
 * table that is wrong, missing, or of the wrong length. For rows longer than a /24 it asks about
 * every address of each /16 in which a row or a range begins or ends; elsewhere it asks about some
 * addresses of every /24. PP_EVERY_ADDRESS=1 asks about all addresses, which takes a minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "core/address.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *first, *last;
} special[] = {
    {"0.0.0.0", "0.255.255.255"},       {"10.0.0.0", "10.255.255.255"},
    {"100.64.0.0", "100.127.255.255"},  {"127.0.0.0", "127.255.255.255"},
    {"168.63.129.16", "168.63.129.16"}, {"169.254.0.0", "169.254.255.255"},
    {"172.16.0.0", "172.31.255.255"},   {"192.0.0.0", "192.0.0.255"},
    {"192.0.2.0", "192.0.2.255"},       {"192.31.196.0", "192.31.196.255"},
    {"192.52.193.0", "192.52.193.255"}, {"192.88.99.0", "192.88.99.255"},
    {"192.168.0.0", "192.168.255.255"}, {"192.175.48.0", "192.175.48.255"},
    {"198.18.0.0", "198.19.255.255"},   {"198.51.100.0", "198.51.100.255"},
    {"203.0.113.0", "203.0.113.255"},   {"224.0.0.0", "239.255.255.255"},
    {"240.0.0.0", "255.255.255.254"},   {"255.255.255.255", "255.255.255.255"},
};

static const struct pp_address_policy production = {0};

static uint32_t number(const char *dotted)
{
    struct in_addr a;
    assert_int_equal(inet_pton(AF_INET, dotted, &a), 1);
    return ntohl(a.s_addr);
}

static struct pp_addr addr(const char *text)
{
    struct pp_addr a;
    assert_true(pp_addr_from_text(&a, text, strlen(text)));
    return a;
}

static bool allowed(const struct pp_address_policy *policy, const char *text)
{
    struct pp_addr a = addr(text);
    return pp_address_allowed(policy, &a);
}

static bool oracle_allows(uint32_t a)
{
    for (size_t i = 0; i < COUNT(special); i++) {
        if (a >= number(special[i].first) && a <= number(special[i].last))
            return false;
    }
    return true;
}

/* The part of the addresses that one thread checks. `wrong` counts the addresses from first to last
 * whose verdict is not `want`. */
struct walk {
    uint64_t first, last;
    uint64_t seen, wrong;
    /* Range i goes from edges[i] to edges[i + 1] - 1. The policy allows its addresses if i is
     * even. */
    uint64_t edges[2 * COUNT(special) + 2];
};

__attribute__((no_sanitize("address", "undefined"))) static void judge(struct walk *w, uint64_t from,
                                                                       uint64_t to, bool want)
{
    struct pp_addr a = {.family = 4};
    uint64_t wrong = 0;
    for (uint64_t v = from; v < to; v++) {
        uint32_t be = __builtin_bswap32((uint32_t)v);
        memcpy(a.b, &be, sizeof(be));
        wrong += pp_address_allowed(&production, &a) != want;
    }
    w->wrong += wrong;
    w->seen += to - from;
}

static uint64_t end_of(const struct walk *w, size_t range)
{
    return w->edges[range + 1];
}

/* Asks the policy about each address from first to last, and counts the wrong verdicts. */
static void judge_all(struct walk *w, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i + 1 < COUNT(w->edges); i++) {
        uint64_t from = w->edges[i] > first ? w->edges[i] : first;
        uint64_t to = end_of(w, i) <= last ? end_of(w, i) : last + 1;
        if (from < to)
            judge(w, from, to, i % 2 == 0);
    }
}

static void set_edges(struct walk *w)
{
    uint64_t *edge = w->edges;
    *edge++ = 0;
    for (size_t i = 0; i < COUNT(special); i++) {
        *edge++ = number(special[i].first);
        *edge++ = (uint64_t)number(special[i].last) + 1;
        assert_true(edge[-2] >= edge[-3] && edge[-1] > edge[-2]);
    }
    *edge = (uint64_t)1 << 32;
}

static void *walk_part(void *arg)
{
    struct walk *w = arg;
    judge_all(w, w->first, w->last);
    return NULL;
}

static void all_ipv4_addresses(void **state)
{
    struct walk parts[2] = {{.first = 0, .last = 0x7fffffff}, {.first = 0x80000000, .last = 0xffffffff}};
    pthread_t threads[2];
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        set_edges(&parts[t]);
        assert_int_equal(pthread_create(&threads[t], NULL, walk_part, &parts[t]), 0);
    }
    for (size_t t = 0; t < 2; t++)
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    assert_int_equal(parts[0].seen + parts[1].seen, (uint64_t)1 << 32);
    assert_int_equal(parts[0].wrong + parts[1].wrong, 0);
}

static void judge_block16(struct walk *w, uint64_t address)
{
    judge_all(w, address & ~(uint64_t)0xffff, address | 0xffff);
}

static void ipv4_addresses(void **state)
{
#define X(b0, b1, b2, b3, bits) {(uint32_t)(b0) << 24 | (b1) << 16 | (b2) << 8 | (b3), bits},
    static const struct {
        uint32_t base;
        unsigned bits;
    } rows[] = {PP_DENIED_IPV4(X)};
#undef X
    struct walk w = {.seen = 0};
    (void)state;
    set_edges(&w);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_in_range(rows[i].bits, 1, 32);
        judge_block16(&w, rows[i].base);
        judge_block16(&w, rows[i].base | (uint32_t)(((uint64_t)1 << (32 - rows[i].bits)) - 1));
    }
    for (size_t i = 0; i < COUNT(special); i++) {
        judge_block16(&w, number(special[i].first));
        judge_block16(&w, number(special[i].last));
    }
    size_t range = 0;
    for (uint64_t block = 0; block < (uint64_t)1 << 32; block += 256) {
        /* the addresses that end in .0, .1, .128 and .255 */
        for (uint64_t v = block; v < block + 256; v += v == block ? 1 : 127) {
            while (end_of(&w, range) <= v)
                range++;
            judge(&w, v, v + 1, range % 2 == 0);
        }
    }
    assert_true(w.seen > (uint64_t)4 << 24);
    assert_int_equal(w.wrong, 0);
}

static void ipv6_table(void **state)
{
    static const char *const good[] = {
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2001:db7:ffff::1",
        "2001:db9::1",
        "2003::1",
        "2620:4f:7fff::1",
        "2620:4f:8001::1",
        "3ffe:ffff::1",
        "2000::1",
        "3fff:1000::1",
        "2a01::5efe:8.8.8.8",
        "2a01::5eff:127.0.0.1",
        "240e::1",
    };
    static const char *const bad[] = {
        "::",
        "::1",
        "::2",
        "1fff:ffff::1",
        "4000::1",
        "64:ff9b::8.8.8.8",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::1",
        "64:ff9b:1:ffff::127.0.0.1",
        "100::1",
        "100:0:0:1::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:1::1",
        "2001:2::1",
        "2001:3::1",
        "2001:4:112::1",
        "2001:10::1",
        "2001:20::1",
        "2001:30::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2001:db8:ffff:ffff::1",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2620:4f:8000::1",
        "3fff::1",
        "3fff:fff:ffff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fdff::1",
        "fe80::1",
        "fe80::5efe:8.8.8.8",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff02::1",
        "ff0e::1",
        "::ffff:8.8.8.8",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:0:127.0.0.1",
        "::ffff:0:8.8.8.8",
        "::5efe:10.0.0.1",
        "2a01::5efe:10.0.0.1",
        "2a01::200:5efe:169.254.169.254",
        "2a01:1:2:3:0:5efe:127.0.0.1",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!allowed(&production, good[i]))
            fail_msg("denied: %s", good[i]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (allowed(&production, bad[i]))
            fail_msg("allowed: %s", bad[i]);
    }
}

/* The special ranges of IPv6, each by its first and last address. The policy must refuse exactly
 * the addresses in them. */
static const struct {
    const char *first, *last;
} special6[] = {
    {"::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"},
    {"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
};

static void oracle6_one(const struct pp_addr *a)
{
    char text[PP_ADDR_TEXT_MAX];
    bool want = true;
    for (size_t i = 0; i < COUNT(special6); i++) {
        struct pp_addr first = addr(special6[i].first), last = addr(special6[i].last);
        if (memcmp(a->b, first.b, 16) >= 0 && memcmp(a->b, last.b, 16) <= 0)
            want = false;
    }
    if (pp_address_allowed(&production, a) != want)
        fail_msg("%s must be %s", pp_addr_text(a, text), want ? "allowed" : "denied");
}

/* Adds `by`, which is +1 or -1, to the 128-bit number; the number wraps around. */
static void step6(struct pp_addr *a, int by)
{
    for (int i = 15; i >= 0; i--) {
        a->b[i] = (uint8_t)(a->b[i] + by);
        if (a->b[i] != (by > 0 ? 0 : 0xff))
            return;
    }
}

static void ipv6_edges(void **state)
{
    struct pp_rng rng;
    (void)state;
    pp_rng_seed(&rng, 2928);
    for (size_t i = 0; i < 2 * COUNT(special6); i++) {
        struct pp_addr a = addr(i % 2 ? special6[i / 2].last : special6[i / 2].first);
        oracle6_one(&a);
        step6(&a, i % 2 ? 1 : -1);
        oracle6_one(&a);
        /* an address near a range: the first bits of the range, then random bits */
        for (int round = 0; round < 2000; round++) {
            struct pp_addr b = addr(special6[i / 2].first);
            for (size_t k = pp_rng_below(&rng, 16); k < 16; k++)
                b.b[k] = (uint8_t)pp_rng_next(&rng);
            oracle6_one(&b);
        }
    }
}

/* The ways in which an IPv6 address can contain an IPv4 address, which begins at byte `at`. If
 * `any_denied`, the policy refuses the IPv6 address whichever IPv4 address it contains. */
static const struct embedding {
    const char *prefix;
    unsigned at;
    bool inverted, any_denied;
} embeddings[] = {
    {"::", 12, false, true},
    {"::ffff:0:0", 12, false, true},
    {"::ffff:0:0:0", 12, false, true},
    {"64:ff9b::", 12, false, true},
    {"64:ff9b:1::", 12, false, true},
    {"2002::", 2, false, true},
    {"2001:0::", 12, true, true},
    {"2001:0::", 4, false, true},
    {"2a01:77::5efe:0:0", 12, false, false},
    {"2a01:77::200:5efe:0:0", 12, false, false},
    {"fe80::5efe:0:0", 12, false, true},
};

static void embedded_one(const struct embedding *e, uint32_t v4)
{
    struct pp_addr a = addr(e->prefix);
    struct pp_addr inner = pp_addr_v4(e->inverted ? ~v4 : v4);
    char text[PP_ADDR_TEXT_MAX];
    memcpy(a.b + e->at, inner.b, 4);
    bool want = !e->any_denied && oracle_allows(v4);
    if (pp_address_allowed(&production, &a) != want)
        fail_msg("%s must be %s", pp_addr_text(&a, text), want ? "allowed" : "denied");
}

static void ipv6_embeddings(void **state)
{
    struct pp_rng rng;
    (void)state;
    pp_rng_seed(&rng, 6052);
    for (size_t e = 0; e < COUNT(embeddings); e++) {
        for (size_t i = 0; i < COUNT(special); i++) {
            uint32_t first = number(special[i].first), last = number(special[i].last);
            embedded_one(&embeddings[e], first);
            embedded_one(&embeddings[e], first - 1);
            embedded_one(&embeddings[e], last);
            embedded_one(&embeddings[e], last + 1);
            embedded_one(&embeddings[e], first + (uint32_t)pp_rng_below(&rng, (uint64_t)last - first + 1));
        }
        for (int i = 0; i < 2000; i++)
            embedded_one(&embeddings[e], (uint32_t)pp_rng_next(&rng));
    }
}

static struct pp_cidr cidr(const char *text)
{
    struct pp_cidr c;
    assert_true(pp_cidr_parse(&c, text, strlen(text)));
    return c;
}

static void allow_networks_win(void **state)
{
    struct pp_cidr nets[] = {cidr("127.0.0.0/8"), cidr("fd12::/17"), cidr("10.1.2.3"), cidr("::1")};
    struct pp_address_policy policy = {.allow = nets, .n_allow = COUNT(nets)};
    static const char *const good[] = {"127.0.0.1",    "127.255.255.255", "::ffff:127.0.0.1",
                                       "fd12:7fff::1", "10.1.2.3",        "::1",
                                       "8.8.8.8",      "::ffff:10.1.2.3"};
    static const char *const bad[] = {
        "10.1.2.2",    "10.1.2.4",           "fd12:8000::1",   "fd13::1",        "::2",
        "::127.0.0.1", "64:ff9b::127.0.0.1", "::ffff:8.8.8.8", "::ffff:10.1.2.4"};
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!allowed(&policy, good[i]))
            fail_msg("denied: %s", good[i]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (allowed(&policy, bad[i]))
            fail_msg("allowed: %s", bad[i]);
    }
    struct pp_cidr everything6 = cidr("::/0"), everything4 = cidr("0.0.0.0/0");
    policy = (struct pp_address_policy){.allow = &everything6, .n_allow = 1};
    assert_true(allowed(&policy, "::1"));
    assert_false(allowed(&policy, "::ffff:127.0.0.1"));
    assert_false(allowed(&policy, "127.0.0.1"));
    policy.allow = &everything4;
    assert_true(allowed(&policy, "::ffff:127.0.0.1"));
    assert_true(allowed(&policy, "255.255.255.255"));
    assert_false(allowed(&policy, "::1"));
    struct pp_addr unknown = {.family = 0};
    assert_false(pp_address_allowed(&policy, &unknown));
}

static void cidr_texts(void **state)
{
    static const char *const bad[] = {"",
                                      "/8",
                                      "10.0.0.0/",
                                      "10.0.0.0/33",
                                      "10.0.0.0/-1",
                                      "10.0.0.0/8x",
                                      "10.0.0.1/8",
                                      "fd00::/129",
                                      "fd00::1/64",
                                      "10.0.0/8",
                                      "10.0.0.0/08000",
                                      "host/8",
                                      "[::1]/128",
                                      "::1%eth0",
                                      "0x7f.0.0.1",
                                      "010.0.0.0/8",
                                      "1.2.3.4 ",
                                      "10.0.0.0//8",
                                      "256.0.0.0/8",
                                      "127.1"};
    struct pp_cidr c;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (pp_cidr_parse(&c, bad[i], strlen(bad[i])))
            fail_msg("accepted: %s", bad[i]);
    }
    assert_false(pp_cidr_parse(&c, "10.0.0.0\0", 9));
    c = cidr("::ffff:10.0.0.0/104");
    assert_int_equal(c.addr.family, 4);
    assert_int_equal(c.bits, 8);
    c = cidr("::/95");
    assert_int_equal(c.addr.family, 6);
}

/* For random prefixes of every length, the function must find the same addresses in the prefix as a
 * comparison bit by bit. */
static void cidr_containment(void **state)
{
    struct pp_rng rng;
    (void)state;
    pp_rng_seed(&rng, 4632);
    for (int round = 0; round < 20000; round++) {
        bool v6 = round & 1;
        unsigned width = v6 ? 128 : 32;
        struct pp_cidr net = {.addr.family = v6 ? 6 : 4, .bits = (uint8_t)pp_rng_below(&rng, width + 1)};
        struct pp_addr a = {.family = net.addr.family};
        unsigned same = (unsigned)pp_rng_below(&rng, width + 1);
        for (unsigned i = 0; i < width; i++) {
            uint8_t bit = (uint8_t)(0x80u >> (i % 8));
            bool one = pp_rng_next(&rng) & 1;
            if (one && i < net.bits)
                net.addr.b[i / 8] |= bit;
            bool in_net = i < net.bits ? one : false;
            if (i == same ? !in_net : i < same ? in_net : (pp_rng_next(&rng) & 1) != 0)
                a.b[i / 8] |= bit;
        }
        assert_int_equal(pp_cidr_contains(&net, &a), same >= net.bits);
    }
}

static void texts_round_trip(void **state)
{
    static const char *const same[] = {
        "1.2.3.4", "255.255.255.255", "::", "::1", "2001:db8::1:0:0:1", "::ffff:1.2.3.4"};
    char buf[PP_ADDR_TEXT_MAX];
    struct pp_rng rng;
    (void)state;
    for (size_t i = 0; i < COUNT(same); i++) {
        struct pp_addr a = addr(same[i]);
        assert_string_equal(pp_addr_text(&a, buf), same[i]);
    }
    pp_rng_seed(&rng, 5952);
    for (int i = 0; i < 5000; i++) {
        struct pp_addr a = {.family = i & 1 ? 6 : 4}, back;
        for (int k = 0; k < (i & 1 ? 16 : 4); k++)
            a.b[k] = (uint8_t)(pp_rng_next(&rng) % 3 ? pp_rng_next(&rng) : 0);
        pp_addr_text(&a, buf);
        assert_true(pp_addr_from_text(&back, buf, strlen(buf)));
        assert_memory_equal(&a, &back, sizeof(a));
    }
}

static void ports(void **state)
{
    static const struct pp_port_range r[] = {{443, 443}, {8000, 8002}};
    struct pp_address_policy policy = {.ports = r, .n_ports = 2};
    (void)state;
    for (unsigned p = 0; p <= 65535; p++)
        assert_int_equal(pp_port_allowed(&policy, (uint16_t)p), p == 443 || (p >= 8000 && p <= 8002));
    policy.n_ports = 0;
    assert_false(pp_port_allowed(&policy, 443));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ipv4_addresses),
        cmocka_unit_test(ipv6_table),
        cmocka_unit_test(ipv6_edges),
        cmocka_unit_test(ipv6_embeddings),
        cmocka_unit_test(allow_networks_win),
        cmocka_unit_test(cidr_texts),
        cmocka_unit_test(cidr_containment),
        cmocka_unit_test(texts_round_trip),
        cmocka_unit_test(ports),
        cmocka_unit_test(all_ipv4_addresses),
    };
    size_t n = COUNT(tests) - (getenv("PP_EVERY_ADDRESS") ? 0 : 1);
    return _cmocka_run_group_tests("address policy", tests, n, NULL, NULL);
}
