/* fuzz_ws.c: fuzzes the HTTP server's reader of WebSocket frames. It reads the input whole, and cut
 * at places that the input's bytes choose; both must end in the same way. Checks that payloads stay
 * below their limit, that a verdict is final and has a code that may be sent, and that the writer
 * produces each accepted control frame byte for byte. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/http/ws_frame.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_verdict(const struct pp_ws_in *in)
{
    uint8_t frame[2 + PP_WS_CONTROL_MAX];
    must(in->why != NULL && (in->code == 1002 || in->code == 1007 || in->code == 1008));
    size_t n = pp_ws_close_frame(frame, in->code, in->why);
    must(n > 4 && n <= sizeof frame && pp_utf8_valid((const char *)frame + 4, n - 4));
}

/* Writes the control frame that was just read, and checks that the reader accepts the written
 * frame. */
static void check_again(const struct pp_ws_in *in, enum pp_ws_got got)
{
    uint8_t frame[6 + PP_WS_CONTROL_MAX] = {0}, made[2 + PP_WS_CONTROL_MAX];
    struct pp_ws_in again = {.n = 0};
    size_t used;
    enum pp_ws_opcode op = got == PP_WS_GOT_PING   ? PP_WS_OP_PING
                           : got == PP_WS_GOT_PONG ? PP_WS_OP_PONG
                                                   : PP_WS_OP_CLOSE;
    must(in->n <= PP_WS_CONTROL_MAX);
    must(pp_ws_control(made, op, in->payload, in->n) == 2u + in->n);
    frame[0] = made[0];
    frame[1] = made[1] | 0x80; /* Sets the mask bit, as a client must; the mask is zeros. */
    memcpy(frame + 6, made + 2, in->n);
    must(pp_ws_feed(&again, frame, 6u + in->n, &used) == got);
    must(used == 6u + in->n && again.n == in->n && again.code == (got == PP_WS_GOT_CLOSE ? in->code : 0));
    must(memcmp(again.payload, in->payload, in->n) == 0);
}

/* Reads all frames and returns a checksum of what the reader gave: frames, payloads, codes. `cuts`
 * true: reads in portions whose length depends on the input. */
static uint64_t read_all(const uint8_t *p, size_t n, bool cuts)
{
    struct pp_ws_in in = {.n = 0};
    uint64_t sum = 0;
    for (size_t at = 0; at < n;) {
        size_t some = cuts ? 1 + p[at] % 9u : n - at, used = 0;
        if (some > n - at)
            some = n - at;
        enum pp_ws_got got = pp_ws_feed(&in, p + at, some, &used);
        must(used > 0 && used <= some && (got != PP_WS_MORE || used == some));
        at += used;
        if (got == PP_WS_MORE)
            continue;
        sum = sum * 31 + (uint64_t)got;
        if (got == PP_WS_BAD) {
            check_verdict(&in);
            must(pp_ws_feed(&in, p, 1, &used) == PP_WS_BAD && used == 1);
            return sum * 31 + in.code;
        }
        check_again(&in, got);
        for (size_t i = 0; i < in.n; i++)
            sum = sum * 31 + in.payload[i];
    }
    return sum;
}

static void check_key(const uint8_t *data, size_t size)
{
    char key[64], accept[PP_WS_ACCEPT_N + 1];
    size_t n = size < sizeof key - 1 ? size : sizeof key - 1;
    memcpy(key, data, n);
    key[n] = '\0';
    if (pp_ws_key_valid(key))
        must(strlen(key) == PP_WS_KEY_N && pp_ws_accept(accept, key) && strlen(accept) == PP_WS_ACCEPT_N);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    must(read_all(data, size, false) == read_all(data, size, true));
    check_key(data, size);
    return 0;
}
