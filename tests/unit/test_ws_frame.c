/* Tests WebSocket frames: which frames the parser accepts, wherever the bytes are cut; which frames
 * the writer makes; and the two values of the opening handshake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/http/ws_frame.h"
#include "base/text.h"

/* Feeds p[0..n), `step` bytes at a time, and writes a letter per frame to `seen`: i for ping, o for
 * pong, c for close, B for an error. *code is set to the last close code. */
static void read_all(const void *p, size_t n, size_t step, char *seen, unsigned *code, struct pp_ws_in *in)
{
    static const char letters[] = {
        [PP_WS_GOT_PING] = 'i', [PP_WS_GOT_PONG] = 'o', [PP_WS_GOT_CLOSE] = 'c', [PP_WS_BAD] = 'B'};
    const uint8_t *bytes = p;
    *in = (struct pp_ws_in){.n = 0};
    *code = 0;
    while (n > 0) {
        size_t some = step < n ? step : n, used = 0;
        enum pp_ws_got got = pp_ws_feed(in, bytes, some, &used);
        assert_in_range(used, 1, some);
        if (got == PP_WS_MORE)
            assert_int_equal(used, some);
        else
            *seen++ = letters[got];
        if (got == PP_WS_GOT_CLOSE || got == PP_WS_BAD)
            *code = in->code;
        if (got == PP_WS_BAD) {
            assert_non_null(in->why);
            /* after a failure the parser accepts nothing */
            assert_int_equal(pp_ws_feed(in, bytes, some, &used), PP_WS_BAD);
            assert_int_equal(used, some);
            break;
        }
        bytes += used;
        n -= used;
    }
    *seen = '\0';
}

#define M       "\x37\xfa\x21\x3d"       /* a mask of four bytes */
#define Z       "\0\0\0\0"               /* a mask of zeroes, which changes nothing */
#define S(text) (text), sizeof(text) - 1 /* a string that may contain NULs, and its length */

static const struct {
    const char *bytes;
    size_t n;
    const char *seen;
    unsigned code;
} cases[] = {
    {S("\x89\x80" M), "i", 0},
    {S("\x8a\x80" M), "o", 0},
    {S("\x88\x80" M), "c", 0},
    {S("\x89\x85" M "\x7f\x9f\x4d\x51\x58"), "i", 0},
    {S("\x89\x81" Z "a\x8a\x80" Z "\x88\x82" Z "\x03\xe8"), "ioc", 1000},
    {S("\x89\x80\x37"), "", 0},
    {S("\x89"), "", 0},
    /* frames with reserved bits or unknown opcodes */
    {S("\xc9\x80" M), "B", 1002},
    {S("\xa9\x80" M), "B", 1002},
    {S("\x99\x80" M), "B", 1002},
    {S("\xc1\x80" M), "B", 1002},
    {S("\x83\x80" M), "B", 1002},
    {S("\x87\x80" M), "B", 1002},
    {S("\x8b\x80" M), "B", 1002},
    {S("\x8f\x80" M), "B", 1002},
    /* frames with several errors: the parser reports the missing mask */
    {S("\x89\x00"), "B", 1002},
    {S("\x81\x01"
       "a"),
     "B", 1002},
    {S("\x88\x02\x03\xe8"), "B", 1002},
    /* control frames that are fragmented or too long */
    {S("\x09\x80" M), "B", 1002},
    {S("\x0a\x80" M), "B", 1002},
    {S("\x08\x80" M), "B", 1002},
    {S("\x89\xfe\x00\x7e" M), "B", 1002},
    {S("\x89\xff\x00\x00\x00\x00\x00\x00\x00\x01" M), "B", 1002},
    {S("\x88\xfe\x00\x7e" M), "B", 1002},
    /* data frames, which the parser refuses */
    {S("\x80\x80" M), "B", 1002},
    {S("\x00\x80" M), "B", 1002},
    {S("\x81\x80" M), "B", 1008},
    {S("\x01\x80" M), "B", 1008},
    {S("\x82\xfe\xff\xff" M), "B", 1008},
    {S("\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff" M), "B", 1008},
    {S("\x89\x80" Z "\x81\x80" Z "\x89\x80" Z), "iB", 1008},
    /* close frames: each has a code of two bytes, then a reason in UTF-8 */
    {S("\x88\x81" Z "\x03"), "B", 1002},
    {S("\x88\x84" Z "\x03\xe8ok"), "c", 1000},
    {S("\x88\x85" Z "\x03\xe8\xe2\x82\xac"), "c", 1000},
    {S("\x88\x84" Z "\x03\xe8\xc3("), "B", 1007},
    {S("\x88\x83" Z "\x03\xe8\xe2"), "B", 1007},
    {S("\x88\x85" Z "\x03\xe8\xed\xa0\x80"), "B", 1007},
};

static void verdicts(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 2, 3, 5, 7, 1000};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            char seen[16];
            unsigned code;
            struct pp_ws_in in;
            read_all(cases[i].bytes, cases[i].n, steps[j], seen, &code, &in);
            if (strcmp(seen, cases[i].seen) != 0 || code != cases[i].code)
                print_error("case %zu, step %zu: %s %u\n", i, steps[j], seen, code);
            assert_string_equal(seen, cases[i].seen);
            assert_int_equal(code, cases[i].code);
        }
    }
}

static bool sendable(unsigned code)
{
    static const unsigned defined[] = {1000, 1001, 1002, 1003, 1007, 1008,
                                       1009, 1010, 1011, 1012, 1013, 1014};
    for (size_t i = 0; i < sizeof defined / sizeof *defined; i++) {
        if (code == defined[i])
            return true;
    }
    return code >= 3000 && code <= 4999;
}

static void close_codes(void **state)
{
    (void)state;
    for (unsigned code = 0; code <= UINT16_MAX; code++) {
        uint8_t frame[] = {0x88, 0x82, 0, 0, 0, 0, (uint8_t)(code >> 8), (uint8_t)code};
        struct pp_ws_in in = {.n = 0};
        size_t used;
        enum pp_ws_got got = pp_ws_feed(&in, frame, sizeof frame, &used);
        assert_int_equal(got, sendable(code) ? PP_WS_GOT_CLOSE : PP_WS_BAD);
        assert_int_equal(in.code, sendable(code) ? code : 1002);
    }
}

/* Feeds control frames of every size with random masks, cut at any byte. The parser must return the
 * payload unchanged. */
static void payloads(void **state)
{
    (void)state;
    struct pp_rng rng;
    pp_rng_seed(&rng, 7);
    struct pp_ws_in in = {.n = 0};
    for (int i = 0; i < 20000; i++) {
        uint8_t frame[6 + PP_WS_CONTROL_MAX], payload[PP_WS_CONTROL_MAX];
        size_t n = pp_rng_below(&rng, 3) ? pp_rng_below(&rng, 126) : 125 * pp_rng_below(&rng, 2);
        bool ping = pp_rng_below(&rng, 2);
        frame[0] = ping ? 0x89 : 0x8a;
        frame[1] = 0x80 | (uint8_t)n;
        for (int j = 2; j < 6; j++)
            frame[j] = (uint8_t)pp_rng_next(&rng);
        for (size_t j = 0; j < n; j++) {
            payload[j] = (uint8_t)pp_rng_next(&rng);
            frame[6 + j] = payload[j] ^ frame[2 + j % 4];
        }
        size_t at = 0, used;
        enum pp_ws_got got = PP_WS_MORE;
        while (got == PP_WS_MORE) {
            assert_true(at < 6 + n);
            got = pp_ws_feed(&in, frame + at, pp_rng_below(&rng, 6 + n - at) + 1, &used);
            at += used;
        }
        assert_int_equal(at, 6 + n);
        assert_int_equal(got, ping ? PP_WS_GOT_PING : PP_WS_GOT_PONG);
        assert_int_equal(in.n, n);
        assert_memory_equal(in.payload, payload, n);
    }
}

/* --- the writer --- */

static void heads(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *head;
        size_t head_n;
    } table[] = {
        {0, S("\x81\x00")},
        {1, S("\x81\x01")},
        {125, S("\x81\x7d")},
        {126, S("\x81\x7e\x00\x7e")},
        {65535, S("\x81\x7e\xff\xff")},
        {65536, S("\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00")},
        {UINT64_C(0x123456789a), S("\x81\x7f\x00\x00\x00\x12\x34\x56\x78\x9a")},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint8_t head[PP_WS_HEAD_MAX];
        assert_int_equal(pp_ws_head(head, PP_WS_OP_TEXT, table[i].n), table[i].head_n);
        assert_int_equal(pp_ws_head_n(table[i].n), table[i].head_n);
        assert_memory_equal(head, table[i].head, table[i].head_n);
    }
}

static void control_frames(void **state)
{
    (void)state;
    uint8_t frame[2 + PP_WS_CONTROL_MAX];
    char full[PP_WS_CONTROL_MAX];
    memset(full, 'x', sizeof full);
    assert_int_equal(pp_ws_control(frame, PP_WS_OP_PING, NULL, 0), 2);
    assert_memory_equal(frame, "\x89\x00", 2);
    assert_int_equal(pp_ws_control(frame, PP_WS_OP_PONG, full, sizeof full), 127);
    assert_memory_equal(frame, "\x8a\x7d", 2);
    assert_memory_equal(frame + 2, full, sizeof full);
    assert_int_equal(pp_ws_close_frame(frame, 0, "no code, no reason"), 2);
    assert_memory_equal(frame, "\x88\x00", 2);
    assert_int_equal(pp_ws_close_frame(frame, 1001, NULL), 4);
    assert_memory_equal(frame, "\x88\x02\x03\xe9", 4);
    assert_int_equal(pp_ws_close_frame(frame, 1008, "why"), 7);
    assert_memory_equal(frame, "\x88\x05\x03\xf0why", 7);
}

/* The writer cuts off a reason that is too long, but never within a character. */
static void long_reasons(void **state)
{
    (void)state;
    for (size_t before = 110; before < 130; before++) {
        char reason[160];
        uint8_t frame[2 + PP_WS_CONTROL_MAX];
        memset(reason, 'x', before);
        snprintf(reason + before, sizeof reason - before, "\xf0\x9f\x93\xb7\xe2\x82\xac\xc3\xa9 and more");
        size_t n = pp_ws_close_frame(frame, 1000, reason), kept = n - 4;
        assert_in_range(n, before < 120 ? 124 : 4 + 120, 127);
        assert_int_equal(frame[1], n - 2);
        assert_memory_equal(frame + 4, reason, kept);
        assert_true(pp_utf8_valid((const char *)frame + 4, kept));
    }
}

/* --- the handshake --- */

static void keys(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        bool valid;
    } table[] = {
        {"dGhlIHNhbXBsZSBub25jZQ==", true},  {"AAAAAAAAAAAAAAAAAAAAAA==", true},
        {"+/+/+/+/+/+/+/+/+/+/+w==", true},  {"", false},
        {"dGhlIHNhbXBsZSBub25jZQ=", false},  {"dGhlIHNhbXBsZSBub25jZQ===", false},
        {"dGhlIHNhbXBsZSBub25jZQA=", false}, {"dGhlIHNhbXBsZSBub25jZQAA", false},
        {"dGhlIHNhbXBsZSBub25j", false},     {"dGhlIHNhbXBsZSBub25-ZQ==", false},
        {"dGhlIHNhbXBs=SBub25jZQ==", false}, {"dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ==", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(pp_ws_key_valid(table[i].key), table[i].valid);
    char accept[PP_WS_ACCEPT_N + 1];
    /* the example of RFC 6455, 1.3 */
    assert_true(pp_ws_accept(accept, "dGhlIHNhbXBsZSBub25jZQ=="));
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts), cmocka_unit_test(close_codes),    cmocka_unit_test(payloads),
        cmocka_unit_test(heads),    cmocka_unit_test(control_frames), cmocka_unit_test(long_reasons),
        cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
