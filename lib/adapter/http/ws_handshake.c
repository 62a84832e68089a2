/* ws_handshake.c: see ws_handshake.h. */
#include "adapter/http/ws_handshake.h"

#include <string.h>

#include <openssl/evp.h>

static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* 1.3 */

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
