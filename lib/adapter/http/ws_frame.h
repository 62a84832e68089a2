/* ws_frame.h: WebSocket frames (RFC 6455) as a server of events needs them: strict, incremental, pure.
 *
 * Subscribers may send control frames only, so that what is kept of a connection's input is one control
 * frame's payload, 125 bytes, and nothing is allocated. That is why there is no library here: wslay and
 * libwebsockets handle messages, extensions and fragments that are refused here anyway, and keep 4 to 8 KiB
 * for each connection, of which there are tens of thousands that are idle.
 *
 * Judged in this order, once the two bytes are in that each frame begins with: reserved bits, opcodes that
 * do not exist, masking, control frames that are fragmented or of more than 125 bytes, a continuation of
 * nothing: 1002. Text and binary: 1008. Then, of a close frame: one byte alone, or a code that may not be
 * sent: 1002; a reason that is not UTF-8: 1007. The verdict does not depend on how the bytes are cut.
 *
 * What we send: whole frames, not masked, of which pp_ws_head() makes the first bytes. */
#ifndef PP_ADAPTER_HTTP_WS_FRAME_H
#define PP_ADAPTER_HTTP_WS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PP_WS_HEAD_MAX = 10,     /* of a frame that we send */
    PP_WS_CONTROL_MAX = 125, /* payload of a control frame */
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

/* Codes that only this side's judgement gives; those that callers give: enum pp_ws_close. */
enum { PP_WS_PROTOCOL_ERROR = 1002, PP_WS_BAD_DATA = 1007 };

enum pp_ws_got {
    PP_WS_MORE, /* all bytes are used, no frame is complete */
    PP_WS_GOT_PING,
    PP_WS_GOT_PONG,
    PP_WS_GOT_CLOSE, /* `code` is theirs, 0 where they gave none */
    PP_WS_BAD        /* to be closed with `code` and `why`; no byte is looked at any more */
};

/* A reader; all zero at its beginning. */
struct pp_ws_in {
    uint8_t head[6]; /* two bytes, then the mask */
    uint8_t head_n;
    uint8_t n; /* of payload, in ping, pong and close */
    uint16_t code;
    bool bad;
    uint8_t payload[PP_WS_CONTROL_MAX];
    const char *why; /* a constant */
};

/* Reads up to the end of the next frame: `*used` of p[0..n), all of them unless a frame ended. After a frame,
 * payload[0..n) is its content, until the next call. */
enum pp_ws_got pp_ws_feed(struct pp_ws_in *in, const void *p, size_t n, size_t *used);

/* The beginning of a whole frame of `n` bytes; answers its length, 2, 4 or 10. */
size_t pp_ws_head(uint8_t head[PP_WS_HEAD_MAX], enum pp_ws_opcode opcode, uint64_t n);
/* The same without making it. */
static inline size_t pp_ws_head_n(uint64_t n)
{
    return n < 126 ? 2 : n <= UINT16_MAX ? 4 : 10;
}

/* A whole control frame in buf, 2 to 127 bytes: answers how many. A close frame's payload is `code`, unless
 * it is 0, and `reason`, cut at a character's beginning where it is too long; NULL is fine. */
size_t pp_ws_control(uint8_t buf[2 + PP_WS_CONTROL_MAX], enum pp_ws_opcode opcode, const void *p, size_t n);
size_t pp_ws_close_frame(uint8_t buf[2 + PP_WS_CONTROL_MAX], unsigned code, const char *reason);

#endif
