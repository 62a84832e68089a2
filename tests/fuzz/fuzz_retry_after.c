/* fuzz_retry_after.c: fuzzes the parsers of Retry-After and of HTTP dates. The first 8 bytes of the
 * input choose the present time. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/retry_after.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t seed = 0;
    if (size < sizeof seed)
        return 0;
    memcpy(&seed, data, sizeof seed);
    int64_t now_ms = (int64_t)(seed % 253402300800000); /* the present time: a year from 1970 to 9999 */
    const char *s = (const char *)data + sizeof seed;
    size_t n = size - sizeof seed;
    int64_t wait = pp_retry_after_ms(s, n, now_ms), at_ms = 0;
    if (wait < -1 || wait > PP_RETRY_AFTER_MAX_MS)
        abort();
    if (!pp_http_date_parse(s, n, now_ms, &at_ms))
        return 0;
    /* An accepted date is a whole second of the years 1 to 9999. As Retry-After it is the time
     * until then, or 0 if it is past. */
    if (at_ms % 1000 != 0 || at_ms < -62135596800000 || at_ms > 253402300800000)
        abort();
    if (wait != (at_ms <= now_ms                          ? 0
                 : at_ms - now_ms < PP_RETRY_AFTER_MAX_MS ? at_ms - now_ms
                                                          : PP_RETRY_AFTER_MAX_MS))
        abort();
    return 0;
}
