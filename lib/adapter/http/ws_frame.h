/* ws_frame.h: WebSocket (RFC 6455) as a server of events needs it: strict, incremental, pure.
 *
 * Clients may send control frames only, so a connection's input needs room for one control frame's
 * payload, 125 bytes, and no allocation. Hence no library: wslay and libwebsockets handle messages,
 * extensions and fragments, which this server refuses, and need 4 to 8 KiB for each of tens of
 * thousands of idle connections.
 *
 * The reader refuses a frame by its first two bytes, in this order: with 1002 for reserved bits, an
 * unknown opcode, a missing mask, a control frame that is fragmented or above 125 bytes, and a
 * continuation of nothing; with 1008 for text and binary. It refuses a close frame with 1002 if the
 * payload is a single byte or a code that must not be sent, and with 1007 if the reason is not
 * UTF-8. The result does not depend on how reads split the bytes.
 *
 * The server sends whole frames without a mask; pp_ws_head() makes their first bytes. */
#ifndef PP_ADAPTER_HTTP_WS_FRAME_H
#define PP_ADAPTER_HTTP_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PP_WS_KEY_N = 24,
    PP_WS_ACCEPT_N = 28,
    PP_WS_HEAD_MAX = 10,     /* most bytes of the head of a frame that the server sends */
    PP_WS_CONTROL_MAX = 125, /* most bytes of a control frame's payload */
    PP_WS_REASON_MAX = PP_WS_CONTROL_MAX - 2,
};

enum pp_ws_opcode {
    PP_WS_OP_CONTINUATION = 0,
    PP_WS_OP_TEXT = 1,
    PP_WS_OP_BINARY = 2,
    PP_WS_OP_CLOSE = 8,
    PP_WS_OP_PING = 9,
    PP_WS_OP_PONG = 10
};

/* Close codes for violations that the reader finds. enum pp_ws_close has the codes for users of the
 * port. */
enum { PP_WS_PROTOCOL_ERROR = 1002, PP_WS_BAD_DATA = 1007 };

enum pp_ws_got {
    PP_WS_MORE, /* all bytes are consumed, and the current frame is incomplete */
    PP_WS_GOT_PING,
    PP_WS_GOT_PONG,
    PP_WS_GOT_CLOSE, /* a close frame; `code` is the client's code, or 0 if the frame has none */
    PP_WS_BAD        /* the client broke a rule; the server must close with `code` and `why` */
};

/* Returns whether `key` is a valid Sec-WebSocket-Key (RFC 6455, 4.2): 16 bytes in base64. */
bool pp_ws_key_valid(const char *key);
/* Writes the value of Sec-WebSocket-Accept for a valid key. Returns false if OpenSSL has no
 * SHA-1. */
bool pp_ws_accept(char accept[PP_WS_ACCEPT_N + 1], const char *key);

/* The state of a reader of frames. The caller zeroes it before the first byte. */
struct pp_ws_in {
    uint8_t head[6]; /* the first two bytes of the frame, then the mask */
    uint8_t head_n;
    uint8_t n; /* bytes of `payload` so far */
    uint16_t code;
    bool bad;
    uint8_t payload[PP_WS_CONTROL_MAX];
    const char *why; /* which rule the client broke; a constant string */
};

/* Reads up to the end of the next frame, and sets `*used` to the bytes of p[0..n) that it consumed:
 * n, unless a frame ended. After a frame, in->payload[0..in->n) is its payload until the next call.
 * After PP_WS_BAD the reader ignores all bytes. */
enum pp_ws_got pp_ws_feed(struct pp_ws_in *in, const void *p, size_t n, size_t *used);

/* Writes the head of a frame with `n` bytes of payload. Returns the head's length: 2, 4 or 10. */
size_t pp_ws_head(uint8_t head[PP_WS_HEAD_MAX], enum pp_ws_opcode opcode, uint64_t n);
/* Returns the length that pp_ws_head() would return. */
static inline size_t pp_ws_head_n(uint64_t n)
{
    return n < 126 ? 2 : n <= UINT16_MAX ? 4 : 10;
}

/* These two functions write a whole control frame to buf, and return its length, 2 to 127. The
 * payload of a close frame is `code` and `reason`, or nothing if `code` is 0. A reason that is too
 * long is cut between characters; NULL: no reason. */
size_t pp_ws_control(uint8_t buf[2 + PP_WS_CONTROL_MAX], enum pp_ws_opcode opcode, const void *p, size_t n);
size_t pp_ws_close_frame(uint8_t buf[2 + PP_WS_CONTROL_MAX], unsigned code, const char *reason);

#endif
