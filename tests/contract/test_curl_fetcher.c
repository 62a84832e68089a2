/* test_curl_fetcher.c: adapter/curl keeps the fetcher's contract. */
#include "adapter/curl/fetcher.h"
#include "suite_fetcher.h"

static enum pp_err open_curl(struct pp_loop *loop, const char *ca_file, struct pp_fetcher **out)
{
    const struct pp_curl_options o = {.ca_file = ca_file, .user_agent = "photopool/test"};

    return pp_curl_fetcher_open(loop, &o, out);
}

int main(void)
{
    return pp_suite_fetcher(&(struct pp_fetcher_subject){"fetcher: curl", open_curl});
}
