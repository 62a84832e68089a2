/* content.c: the content of an answer (a picture, a file or a fixed text) and its gzip coding. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "making.h"

#define OG_GZIP_MAX (UINT64_C(64) << 20)
#define OG_BOMB_MIB 4096u

static void content_fixed(struct making *m, const struct og_fixed_body *f)
{
    m->mime = f->mime;
    og_body_add(&m->body, f->p, f->n);
}

static void content_picture(struct making *m)
{
    struct og_behaviour *b = m->b;
    uint64_t format = b->format < OG_FORMATS ? b->format : m->id >> 40 & 7;
    struct og_image img = {
        .format = (enum og_format)format, .bytes = og_range_draw(b->bytes, m->id >> 8), .id = m->id};
    og_image_dimensions(m->id, img.bytes, &img.w, &img.h);
    if (b->w != OG_NOT_GIVEN)
        img.w = (uint32_t)b->w;
    if (b->h != OG_NOT_GIVEN)
        img.h = (uint32_t)b->h;
    m->mime = og_format_mime(img.format);
    uint8_t *scratch = og_answer_mem(m->a, OG_IMAGE_SCRATCH);
    if (scratch != NULL)
        og_image_build(&img, m->w->bulk, scratch, &m->body);
}

static const char *mime_of_name(const char *name)
{
    static const char *const table[][2] = {
        {".jpg", "image/jpeg"},  {".jpeg", "image/jpeg"}, {".png", "image/png"},     {".gif", "image/gif"},
        {".webp", "image/webp"}, {".bmp", "image/bmp"},   {".tif", "image/tiff"},    {".tiff", "image/tiff"},
        {".avif", "image/avif"}, {".heic", "image/heic"}, {".svg", "image/svg+xml"}, {".html", "text/html"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof table / sizeof table[0]; i++) {
        if (strcasecmp(dot, table[i][0]) == 0)
            return table[i][1];
    }
    return "application/octet-stream";
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t og_unescape(char *out, const char *p, size_t n)
{
    char *from = out;
    for (size_t i = 0; i < n; i++) {
        int hi = i + 2 < n && p[i] == '%' ? hex_digit(p[i + 1]) : -1;
        int lo = hi >= 0 ? hex_digit(p[i + 2]) : -1;
        if (lo >= 0) {
            *out++ = (char)(hi << 4 | lo);
            i += 2;
        } else {
            *out++ = p[i];
        }
    }
    return (size_t)(out - from);
}

/* Maps the file NAME of a request for /files/NAME into memory until the answer ends. Returns false
 * if there is no such file. */
static bool content_file(struct making *m)
{
    char name[1024];
    struct og_slice s = {m->r->path.p + 7, m->r->path.n - 7};
    if (m->w->files_fd < 0 || s.n == 0 || s.n >= sizeof name)
        return false;
    size_t n = og_unescape(name, s.p, s.n);
    name[n] = '\0';
    if (strlen(name) != n || name[0] == '/' || strstr(name, "..") != NULL)
        return false;
    int fd = openat(m->w->files_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    struct stat st;
    bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (good && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
        good = p != MAP_FAILED;
        if (good) {
            m->a->map = p;
            m->a->map_n = (size_t)st.st_size;
            og_body_add(&m->body, p, m->a->map_n);
        }
    }
    close(fd);
    m->mime = mime_of_name(name);
    return good;
}

void og_content(struct making *m)
{
    bool file = m->r->path.n > 7 && memcmp(m->r->path.p, "/files/", 7) == 0;
    if (m->status == 204 || m->status == 304 || m->status < 200)
        return;
    if (m->b->body > 0) {
        content_fixed(m, &og_fixed_bodies[m->b->body - 1]);
    } else if (m->status >= 300) {
        /* body 0 is an HTML page, body 3 is empty */
        content_fixed(m, &og_fixed_bodies[m->status >= 400 ? 0 : 3]);
    } else if (!file) {
        content_picture(m);
    } else if (!content_file(m)) {
        m->status = 404;
        content_fixed(m, &og_fixed_bodies[0]);
    }
}

/* ---- content coding ---- */

struct og_run og_bomb_prefix(const struct og_bulk *bulk)
{
    uint8_t scratch[OG_IMAGE_SCRATCH], copy[2048];
    struct og_image img = {.format = OG_JPEG, .w = 1000, .h = 1000, .bytes = 1, .id = 4711};
    struct og_body body;
    og_body_init(&body);
    og_image_build(&img, bulk, scratch, &body);
    /* Cuts the JPEG before its scan, because the bomb continues with zeros instead. */
    og_body_truncate(&body, 240);
    og_body_copy(&body, copy);
    return og_deflate_flushed(copy, body.n);
}

/* Makes the body a gzip bomb: a few MiB that decompress to a JPEG of 4 GiB. The gzip trailer is
 * wrong, but no reader gets that far. */
void og_code_bomb(struct making *m)
{
    const struct og_run *mib = &m->w->bulk->deflated[OG_DEFLATED - 1];
    og_body_init(&m->body);
    og_body_add(&m->body, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10);
    og_body_add(&m->body, m->w->bomb.p, m->w->bomb.n);
    og_body_repeat(&m->body, mib->p, mib->n, mib->n * OG_BOMB_MIB);
    og_body_add(&m->body, "\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", 10);
    m->encoding = "gzip";
}

void og_code_gzip(struct making *m)
{
    if (m->body.n == 0 || m->body.n > OG_GZIP_MAX)
        return;
    z_stream z = {0};
    uint8_t *plain = malloc(m->body.n);
    if (plain == NULL || deflateInit2(&z, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(plain);
        return;
    }
    og_body_copy(&m->body, plain);
    size_t cap = deflateBound(&z, m->body.n);
    uint8_t *out = og_answer_mem(m->a, cap);
    z.next_in = plain;
    z.avail_in = (uInt)m->body.n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    if (out != NULL && deflate(&z, Z_FINISH) == Z_STREAM_END) {
        og_body_init(&m->body);
        og_body_add(&m->body, out, cap - z.avail_out);
        m->encoding = "gzip";
    }
    deflateEnd(&z);
    free(plain);
}
