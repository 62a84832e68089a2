/* ws_frame.c: checks the key of WebSocket's opening handshake, and reads and writes frames. Section
 * numbers are those of RFC 6455. */
#include "adapter/http/ws_frame.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "photopool/port/http_server.h"

enum { FIN = 0x80, RESERVED = 0x70, OPCODE = 0x0f, CONTROL = 0x08, MASKED = 0x80, LENGTH = 0x7f };
enum { WS_HEAD = 2, MASK = 4 };

/* --- the opening handshake --- */

static const char guid[] =
    "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* the constant of section 1.3 that is hashed with the key */

bool pp_ws_key_valid(const char *key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return strlen(key) == PP_WS_KEY_N && strspn(key, digits) == PP_WS_KEY_N - 2 &&
           strcmp(key + PP_WS_KEY_N - 2, "==") == 0;
}

bool pp_ws_accept(char accept[PP_WS_ACCEPT_N + 1], const char *key)
{
    char text[PP_WS_KEY_N + sizeof guid];
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    memcpy(text, key, PP_WS_KEY_N);
    memcpy(text + PP_WS_KEY_N, guid, sizeof guid);
    if (EVP_Digest(text, sizeof text - 1, hash, &n, EVP_sha1(), NULL) != 1)
        return false;
    return EVP_EncodeBlock((unsigned char *)accept, hash, (int)n) == PP_WS_ACCEPT_N;
}

/* --- frames that clients send --- */

static enum pp_ws_got bad(struct pp_ws_in *in, unsigned code, const char *why)
{
    in->bad = true;
    in->code = (uint16_t)code;
    in->why = why;
    return PP_WS_BAD;
}

/* Checks the first two bytes of a frame (5.2). Returns MORE if they are valid, else BAD. */
static enum pp_ws_got judge(struct pp_ws_in *in)
{
    unsigned first = in->head[0], opcode = first & OPCODE;
    bool control = opcode & CONTROL;
    if (first & RESERVED)
        return bad(in, PP_WS_PROTOCOL_ERROR, "reserved bits without an extension");
    if (control ? opcode > PP_WS_OP_PONG : opcode > PP_WS_OP_BINARY)
        return bad(in, PP_WS_PROTOCOL_ERROR, "no such opcode");
    if (!(in->head[1] & MASKED))
        return bad(in, PP_WS_PROTOCOL_ERROR, "a frame that is not masked");
    if (opcode == PP_WS_OP_CONTINUATION)
        return bad(in, PP_WS_PROTOCOL_ERROR, "a continuation of nothing");
    if (!control)
        return bad(in, PP_WS_POLICY, "subscribers send control frames only");
    if (!(first & FIN))
        return bad(in, PP_WS_PROTOCOL_ERROR, "a fragmented control frame");
    if ((in->head[1] & LENGTH) > PP_WS_CONTROL_MAX)
        return bad(in, PP_WS_PROTOCOL_ERROR, "a control frame of more than 125 bytes");
    in->n = 0;
    return PP_WS_MORE;
}

/* Returns whether a client may send this close code (7.4): it is defined, registered (1012 to
 * 1014), or private. */
static bool may_be_sent(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

static enum pp_ws_got read_close(struct pp_ws_in *in)
{
    in->code = 0;
    if (in->n == 0)
        return PP_WS_GOT_CLOSE;
    if (in->n == 1)
        return bad(in, PP_WS_PROTOCOL_ERROR, "half a close code");
    unsigned code = (unsigned)in->payload[0] << 8 | in->payload[1];
    if (!may_be_sent(code))
        return bad(in, PP_WS_PROTOCOL_ERROR, "a close code that may not be sent");
    if (!pp_utf8_valid((const char *)in->payload + 2, in->n - 2u))
        return bad(in, PP_WS_BAD_DATA, "a close reason that is not UTF-8");
    in->code = (uint16_t)code;
    return PP_WS_GOT_CLOSE;
}

static enum pp_ws_got on_frame_end(struct pp_ws_in *in)
{
    unsigned opcode = in->head[0] & OPCODE;
    in->head_n = 0;
    if (opcode == PP_WS_OP_CLOSE)
        return read_close(in);
    return opcode == PP_WS_OP_PING ? PP_WS_GOT_PING : PP_WS_GOT_PONG;
}

enum pp_ws_got pp_ws_feed(struct pp_ws_in *in, const void *p, size_t n, size_t *used)
{
    const uint8_t *bytes = p;
    size_t at = 0;
    *used = n;
    if (in->bad)
        return PP_WS_BAD;
    while (at < n && in->head_n < WS_HEAD + MASK) {
        in->head[in->head_n++] = bytes[at++];
        if (in->head_n == WS_HEAD && judge(in) == PP_WS_BAD)
            return PP_WS_BAD;
    }
    if (in->head_n < WS_HEAD + MASK)
        return PP_WS_MORE;
    size_t length = in->head[1] & LENGTH;
    pp_assert(length <= PP_WS_CONTROL_MAX && in->n <= length, "a payload beyond its buffer");
    for (; at < n && in->n < length; in->n++)
        in->payload[in->n] = bytes[at++] ^ in->head[WS_HEAD + in->n % MASK];
    if (in->n < length)
        return PP_WS_MORE;
    *used = at;
    return on_frame_end(in);
}

/* --- frames that the server sends --- */

static void put_be(uint8_t *p, uint64_t v, int bytes)
{
    while (bytes-- > 0) {
        p[bytes] = (uint8_t)v;
        v >>= 8;
    }
}

size_t pp_ws_head(uint8_t head[PP_WS_HEAD_MAX], enum pp_ws_opcode opcode, uint64_t n)
{
    size_t length = pp_ws_head_n(n);
    head[0] = FIN | (uint8_t)opcode;
    if (length == 2) {
        head[1] = (uint8_t)n;
    } else {
        head[1] = length == 4 ? 126 : 127;
        put_be(head + 2, n, (int)length - 2);
    }
    return length;
}

size_t pp_ws_control(uint8_t buf[2 + PP_WS_CONTROL_MAX], enum pp_ws_opcode opcode, const void *p, size_t n)
{
    pp_assert(n <= PP_WS_CONTROL_MAX, "a control frame has too much payload");
    buf[0] = FIN | (uint8_t)opcode;
    buf[1] = (uint8_t)n;
    if (n > 0)
        memcpy(buf + 2, p, n);
    return 2 + n;
}

size_t pp_ws_close_frame(uint8_t buf[2 + PP_WS_CONTROL_MAX], unsigned code, const char *reason)
{
    uint8_t payload[PP_WS_CONTROL_MAX];
    if (code == 0)
        return pp_ws_control(buf, PP_WS_OP_CLOSE, NULL, 0);
    put_be(payload, code, 2);
    size_t n = reason ? strlen(reason) : 0;
    if (n > PP_WS_REASON_MAX)
        for (n = PP_WS_REASON_MAX; n > 0 && ((uint8_t)reason[n] & 0xc0) == 0x80;)
            n--;
    if (n > 0)
        memcpy(payload + 2, reason, n);
    return pp_ws_control(buf, PP_WS_OP_CLOSE, payload, 2 + n);
}
