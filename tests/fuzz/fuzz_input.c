/* fuzz_input.c: fuzzes the readers of `photopool submit`: the one that suits the input. It reads
 * each input twice, whole and in two pieces; both must give the same items. The first byte says
 * where the input is split. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum pp_err on_item(void *arg, const char *text, size_t n, uint64_t line)
{
    struct pp_buf *b = arg;
    if (memchr(text, '\n', n))
        abort(); /* the reader must write an item as one line */
    pp_buf_printf(b, "%llu ", (unsigned long long)line);
    pp_buf_put(b, text, n);
    pp_buf_putc(b, '\n');
    return PP_OK;
}

static enum pp_err on_member(void *arg, const char *name, const char *value, size_t n)
{
    pp_buf_printf(arg, ".%s=%.*s\n", name, (int)n, value);
    return PP_OK;
}

static void on_broken(void *arg, uint64_t line, const char *why)
{
    pp_buf_printf(arg, "%llu broken: %s\n", (unsigned long long)line, why);
}

static enum pp_err read_in(const char *p, size_t n, size_t cut, struct pp_buf *b, char *error)
{
    const struct pp_input_sink sink = {.item = on_item, .member = on_member, .broken = on_broken, .arg = b};
    const struct pp_input_format *format = pp_input_guess(p, n, true);
    pp_buf_init(b, 64u << 20);
    *error = 0;
    void *state = format->open(&sink, error);
    if (!state)
        abort();
    enum pp_err err = format->feed(state, p, cut);
    if (err == PP_OK)
        err = format->feed(state, p + cut, n - cut);
    if (err == PP_OK)
        err = format->end(state);
    format->close(state);
    if (err == PP_EINVAL && !*error)
        abort();
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
    enum pp_err whole = read_in(p, n, n, &a, one), pieces = read_in(p, n, cut, &b, two);
    if (whole != pieces || strcmp(one, two) != 0 || a.n != b.n || (a.n && memcmp(a.p, b.p, a.n) != 0))
        abort();
    pp_buf_fini(&a);
    pp_buf_fini(&b);
    return 0;
}
