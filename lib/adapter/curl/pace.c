/* pace.c: bounds the time and the bytes that one answer takes.
 *
 * Time: while bytes arrive faster than libcurl reads them, curl_multi_socket_action() does not
 * return (libcurl 7.88 sets a timeout that is due at once, and serves it in the same call). A host
 * could keep the loop for as long as it sends. So a transfer rests until the loop's next turn when
 * libcurl has run for SLICE_NS.
 *
 * Bytes: the user bounds the content. What a host sends besides (framing, code that decodes to
 * nothing) is bounded here, by what the kernel has received on the connection. libcurl calls only
 * its progress callback for such bytes. */
#include "adapter/curl/internal.h"
#include "base/tcp.h"

#define SLICE_NS  5000000
#define LOOK_EACH 8         /* a look costs a system call; most photos end before it */
#define BESIDES   (1 << 20) /* bytes that a host may send besides the content, */
#define RATIO     8         /* and this many more for each byte of content: tiny chunks */

/* Returns whether the host has sent too much besides the content. `body` is the length of the body
 * so far, before it is decoded. An HTTP/2 connection has other transfers, too, so what has come on
 * it says nothing. */
static bool is_wasteful(struct pp_curl_transfer *t, uint64_t body)
{
    uint64_t most = BESIDES + RATIO * t->content;

    if (t->head.encoded && body > most)
        return true;
    if (++t->looks % LOOK_EACH != 0 || !pp_curl_is_http1(t))
        return false;
    uint64_t all = pp_tcp_received(t->fd);
    if (t->looks == LOOK_EACH) /* the connection may be older than the transfer */
        t->received_before = all;
    return all > t->received_before && all - t->received_before > most;
}

int pp_curl_on_progress(void *data, curl_off_t in_all, curl_off_t in, curl_off_t out_all, curl_off_t out)
{
    struct pp_curl_transfer *t = data;

    (void)in_all, (void)out_all, (void)out;
    return t->x && t->state == PP_T_RUNNING && t->x->phase == PP_PHASE_BODY && !t->held &&
           is_wasteful(t, (uint64_t)in);
}

bool pp_curl_rests(struct pp_curl_transfer *t)
{
    if (uv_hrtime() - t->f->entered_ns <= SLICE_NS)
        return false;
    t->held = true;
    pp_curl_enlist(t, &t->f->resting);
    pp_curl_poll_kick(t->f);
    return true;
}
