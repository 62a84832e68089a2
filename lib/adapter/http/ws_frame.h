/* ws_frame.h: WebSocket (RFC 6455) as a server of events needs it: strict, incremental, pure.
 *
 * Subscribers may send control frames only, so a connection's input needs room for one control
 * frame's payload, 125 bytes, and no allocation. Hence no library: wslay and libwebsockets handle
 * messages, extensions and fragments, which we refuse, and need 4 to 8 KiB for each of tens of
 * thousands of idle connections.
 *
 * The reader refuses a frame by its first two bytes, in this order: with 1002 for reserved bits, an
 * unknown opcode, a missing mask, a control frame that is fragmented or above 125 bytes, and a
 * continuation of nothing; with 1008 for text and binary. It refuses a close frame with 1002 if the
 * payload is a single byte or a code that must not be sent, and with 1007 if the reason is not
 * UTF-8. The verdict does not depend on how reads split the bytes.
 *
 * We send whole frames without a mask; pp_ws_head() makes their first bytes. */
#ifndef PP_ADAPTER_HTTP_WS_FRAME_H
#define PP_ADAPTER_HTTP_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PP_WS_KEY_N = 24,
    PP_WS_ACCEPT_N = 28,
    PP_WS_HEAD_MAX = 10,     /* most bytes of the head of a frame that we send */
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

/* Close codes for violations found here; enum pp_ws_close has the codes for users of the port. */
enum { PP_WS_PROTOCOL_ERROR = 1002, PP_WS_BAD_DATA = 1007 };

enum pp_ws_got {
    PP_WS_MORE, /* all bytes are consumed, and no frame is complete */
    PP_WS_GOT_PING,
    PP_WS_GOT_PONG,
    PP_WS_GOT_CLOSE, /* a close frame; `code` is the client's code, or 0 if it sent none */
    PP_WS_BAD        /* the client broke a rule: the server closes with `code` and `why` */
};

/* Returns whether `key` is a valid Sec-WebSocket-Key (4.2): 16 bytes in base64. */
bool pp_ws_key_valid(const char *key);
/* Writes Sec-WebSocket-Accept for a valid key. Returns false if OpenSSL has no SHA-1. */
bool pp_ws_accept(char accept[PP_WS_ACCEPT_N + 1], const char *key);

/* Reads frames; zeroed before the first byte. */
struct pp_ws_in {
    uint8_t head[6]; /* two bytes, then the mask */
    uint8_t head_n;
    uint8_t n; /* bytes of payload; valid after ping, pong and close */
    uint16_t code;
    bool bad;
    uint8_t payload[PP_WS_CONTROL_MAX];
    const char *why; /* a constant */
};

/* Reads to the end of the next frame. `*used` bytes of p[0..n) are consumed: all of them unless a
 * frame ended. After a frame, in->payload[0..in->n) holds its payload until the next call. After
 * PP_WS_BAD the reader ignores all bytes. */
enum pp_ws_got pp_ws_feed(struct pp_ws_in *in, const void *p, size_t n, size_t *used);

/* Writes the head of a whole frame of `n` bytes; returns its length, 2, 4 or 10. */
size_t pp_ws_head(uint8_t head[PP_WS_HEAD_MAX], enum pp_ws_opcode opcode, uint64_t n);
/* Returns only the length of that head. */
static inline size_t pp_ws_head_n(uint64_t n)
{
    return n < 126 ? 2 : n <= UINT16_MAX ? 4 : 10;
}

/* Writes a whole control frame to buf; returns its length, 2 to 127. The payload of a close frame
 * is `code`, unless it is 0, and `reason`, which is cut between characters if it is too long; NULL:
 * no reason. */
size_t pp_ws_control(uint8_t buf[2 + PP_WS_CONTROL_MAX], enum pp_ws_opcode opcode, const void *p, size_t n);
size_t pp_ws_close_frame(uint8_t buf[2 + PP_WS_CONTROL_MAX], unsigned code, const char *reason);

#endif
