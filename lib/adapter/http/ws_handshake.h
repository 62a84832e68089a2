/* ws_handshake.h: what of the opening handshake (RFC 6455 4.2) is more than headers. Pure. */
#ifndef PP_ADAPTER_HTTP_WS_HANDSHAKE_H
#define PP_ADAPTER_HTTP_WS_HANDSHAKE_H

#include <stdbool.h>

enum { PP_WS_KEY_N = 24, PP_WS_ACCEPT_N = 28 };

/* Sec-WebSocket-Key: 16 bytes in base64. */
bool pp_ws_key_valid(const char *key);
/* Sec-WebSocket-Accept to a valid key; false: SHA-1 is not to be had. */
bool pp_ws_accept(char accept[PP_WS_ACCEPT_N + 1], const char *key);

#endif
