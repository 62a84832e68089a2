/* fuzz_address.c: fuzzes the parser of addresses, networks and port ranges. Checks that the text of
 * an accepted address parses to the same address, and that the policy and the network of an address
 * agree. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_address(const char *s, size_t n)
{
    struct pp_addr a, back;
    char text[PP_ADDR_TEXT_MAX];
    struct pp_address_policy policy = {0};
    if (!pp_addr_from_text(&a, s, n))
        return;
    pp_addr_text(&a, text);
    must(pp_addr_from_text(&back, text, strlen(text)));
    must(memcmp(&a, &back, sizeof(a)) == 0);
    struct pp_cidr self;
    must(pp_cidr_parse(&self, text, strlen(text)));
    policy.allow = &self;
    policy.n_allow = 1;
    must(pp_address_allowed(&policy, &a));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = size ? (const char *)data : "";
    struct pp_cidr net;
    check_address(s, size);
    if (pp_cidr_parse(&net, s, size)) {
        must(net.bits <= (net.addr.family == 4 ? 32 : 128));
        must(pp_cidr_contains(&net, &net.addr));
        struct pp_address_policy policy = {.allow = &net, .n_allow = 1};
        if (net.addr.family == 4)
            must(pp_address_allowed(&policy, &net.addr));
    }
    if (size >= 16) { /* takes the input as the raw bytes of an IPv6 address */
        struct pp_addr a = {.family = 6};
        struct pp_address_policy none = {0};
        memcpy(a.b, data, 16);
        if (pp_address_allowed(&none, &a))
            must(a.b[0] >> 5 == 1);
    }
    return 0;
}
