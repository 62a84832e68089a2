/* wire_owner.c: makes sure that the blob store belongs to this installation. Otherwise this process
 * would remove photos of another as orphans: an orphan is an object that its own store does not
 * know. The owner object of a blob store has one of these lines:
 *
 *   up ID      a single process; ID is in the file `installation` of its data directory
 *   fleet ID   a fleet; ID is that of the first worker. Fleets remove nothing, so any may use it.
 *
 * A store without an owner object is adopted: it is new, or older than owner objects. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/private_file.h"
#include "base/text.h"
#include "format/ids.h"
#include "wire_parts.h"

#define ID_BYTES 16
#define ID_TEXT  (2 * ID_BYTES)

static void new_id(char id[ID_TEXT + 1])
{
    uint8_t bytes[ID_BYTES];
    pp_random_bytes(bytes, sizeof(bytes));
    pp_hex(id, bytes, sizeof(bytes));
}

/* Reads the id of this installation from an open file, or makes it and writes it. */
static bool read_id(int fd, char id[ID_TEXT + 1])
{
    ssize_t n = pread(fd, id, ID_TEXT, 0);
    if (n < 0)
        return false;
    id[n] = '\0';
    if (n == ID_TEXT && strspn(id, "0123456789abcdef") == ID_TEXT)
        return true;
    new_id(id); /* there was none yet, or a crash cut it short before it was used */
    return pwrite(fd, id, ID_TEXT, 0) == ID_TEXT && fsync(fd) == 0;
}

static enum pp_err installation_id(const char *data_dir, char id[ID_TEXT + 1], struct pp_wire_error *error)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/installation", data_dir);
    int fd = pp_private_open(AT_FDCWD, path);
    bool ok = fd >= 0 && read_id(fd, id);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    return pp_wire_explain(error, ok ? PP_OK : PP_EIO, "%s can't be used: %s", path, strerror(saved));
}

/* Returns true if the owner's line permits that this installation uses the store. */
static bool is_ours(const struct pp_blob_owner *owner, bool fleet)
{
    return fleet ? strncmp(owner->found, "fleet ", 6) == 0 : strcmp(owner->found, owner->mine) == 0;
}

enum pp_err pp_wire_own_blobs(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    bool fleet = pp_wire_is_fleet(c);
    struct pp_blob_owner owner = {.mine = ""};
    char id[ID_TEXT + 1], reason[200];

    if (fleet)
        new_id(id);
    else if (installation_id(c->data_dir, id, error) != PP_OK)
        return PP_EIO;
    (void)snprintf(owner.mine, sizeof(owner.mine), "%s %s", fleet ? "fleet" : "up", id);
    pp_text_sha256(owner.sha256, owner.mine);
    enum pp_err err = p->blobs->ops->own(p->blobs, &owner);
    if (err != PP_OK || owner.adopted) /* nothing shows that objects without a record are ours */
        p->params->orphans_since_ms = 0;
    if (err != PP_OK) {
        p->blobs->ops->reason(p->blobs, reason, sizeof(reason));
        pp_log(p->log, PP_LOG_WARN, "the owner of the blob store could not be read", "reason", reason, NULL);
        return PP_OK;
    }
    return pp_wire_explain(error, is_ours(&owner, fleet) ? PP_OK : PP_EMISMATCH,
                           "blobs.url: the photos there belong to another installation (\"%s\"; this one is "
                           "\"%s\"). Choose another place with --set blobs.url=file:PATH. If that "
                           "installation is gone for good, take its photos over: remove " PP_BLOB_OWNER_NAME
                           " from the store, and start again",
                           owner.found, owner.mine);
}
