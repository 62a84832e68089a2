/* fuzz_json_split.c: fuzzes the JSON reader of `photopool submit`. It reads each input twice, whole
 * and in two pieces; both must give the same items. The first byte says where the input is
 * split. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "input.h"
#include "json_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum pp_err on_element(void *arg, const char *text, size_t n, uint64_t line)
{
    if (n == 0 || memchr(text, '\n', n))
        abort(); /* the reader must write an element as one line */
    pp_buf_printf(arg, "%llu ", (unsigned long long)line);
    pp_buf_put(arg, text, n);
    pp_buf_putc(arg, '\n');
    return PP_OK;
}

static enum pp_err on_member(void *arg, const char *name, const char *value, size_t n)
{
    pp_buf_printf(arg, ".%s=", name);
    pp_buf_put(arg, value, n);
    pp_buf_putc(arg, '\n');
    return PP_OK;
}

static enum pp_err split_in(const char *p, size_t n, size_t cut, struct pp_buf *b, char *error)
{
    static const struct pp_json_split_ops ops = {on_element, on_member};
    struct pp_json_split s;
    pp_buf_init(b, 64u << 20);
    pp_json_split_init(&s, "items", 1000, &ops, b);
    enum pp_err err = pp_json_split_feed(&s, p, cut);
    if (err == PP_OK)
        err = pp_json_split_feed(&s, p + cut, n - cut);
    if (err == PP_OK)
        err = pp_json_split_end(&s);
    if (err == PP_EINVAL && !*s.error)
        abort();
    memcpy(error, s.error, sizeof s.error);
    pp_json_split_fini(&s);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char one[PP_INPUT_ERROR], two[PP_INPUT_ERROR];
    struct pp_buf a, b;
    if (size == 0)
        return 0;
    const char *p = (const char *)data + 1;
    size_t n = size - 1, cut = data[0] < n ? data[0] : n;
    enum pp_err whole = split_in(p, n, n, &a, one), pieces = split_in(p, n, cut, &b, two);
    if (whole != pieces || strcmp(one, two) != 0 || a.n != b.n || (a.n && memcmp(a.p, b.p, a.n) != 0))
        abort();
    pp_buf_fini(&a);
    pp_buf_fini(&b);
    return 0;
}
