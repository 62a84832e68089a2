/* wire_owner.c: makes sure that the blob store belongs to this installation. Otherwise this process
 * would remove photos of another as orphans: an orphan is an object that its own store does not
 * know. The id of the installation is in the task store, which has the records of the photos. The
 * owner object of a blob store has one of these lines:
 *
 *   up ID        a single process
 *   mongodb ID   a fleet, whose task store is in MongoDB
 *   fleet ID     a fleet whose blob store was adopted by an earlier version, which kept no id.
 *                Fleets remove nothing, so any may use it.
 *
 * A store without an owner object is adopted: it is new, or older than owner objects. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/text.h"
#include "format/ids.h"
#include "wire_parts.h"

#define ID_BYTES 16
#define ID_TEXT  (2 * ID_BYTES)

/* Writes the id that an earlier version has kept in the file `installation` of the data directory.
 * Returns false if there is none. */
static bool old_id(const char *data_dir, char id[ID_TEXT + 1])
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/installation", data_dir);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, id, ID_TEXT, 0) : 0;
    if (fd >= 0)
        close(fd);
    id[n > 0 ? n : 0] = '\0';
    return n == ID_TEXT && strspn(id, "0123456789abcdef") == ID_TEXT;
}

static void on_answer(struct pp_req *req)
{
    *(bool *)req->data = true;
}

/* Asks the task store for the id of this installation, and waits for the answer. If the store has
 * no id yet, it takes a new one. */
static enum pp_err installation_id(struct pp_pipeline *p, const struct pp_config *c,
                                   char id[PP_INSTALLATION_MAX])
{
    char mine[ID_TEXT + 1];
    uint8_t bytes[ID_BYTES];
    struct pp_arena arena;
    bool answered = false;

    if (pp_wire_is_fleet(c) || !old_id(c->data_dir, mine)) {
        pp_random_bytes(bytes, sizeof(bytes));
        pp_hex(mine, bytes, sizeof(bytes));
    }
    pp_arena_init(&arena, 0);
    struct pp_store_installation r = {.req = {.done = on_answer, .data = &answered, .arena = &arena},
                                      .mine = mine};
    enum pp_err err = p->store->ops->installation(p->store, &r);
    while (err == PP_OK && !answered)
        (void)pp_loop_turn(p->loop, true);
    (void)snprintf(id, PP_INSTALLATION_MAX, "%s", r.id);
    pp_arena_fini(&arena);
    return err == PP_OK ? r.req.err : err;
}

/* Returns true if the owner's line permits that this installation uses the store. */
static bool is_ours(const struct pp_blob_owner *owner, bool fleet)
{
    return strcmp(owner->found, owner->mine) == 0 || (fleet && strncmp(owner->found, "fleet ", 6) == 0);
}

/* Handles a task store that did not tell the id. A fleet's process starts also without MongoDB, and
 * then the owner stays unchecked until the process starts again. */
static enum pp_err no_id(struct pp_pipeline *p, bool fleet, enum pp_err err, struct pp_wire_error *error)
{
    p->params->orphans_since_ms = 0;
    if (!fleet)
        return pp_wire_explain(error, err, "store.url: the id of this installation can't be read: %s",
                               pp_err_text(err));
    pp_log(p->log, PP_LOG_WARN, "the owner of the blob store was not checked, because MongoDB failed",
           "reason", pp_err_text(err), NULL);
    return PP_OK;
}

enum pp_err pp_wire_own_blobs(struct pp_pipeline *p, const struct pp_config *c, struct pp_wire_error *error)
{
    bool fleet = pp_wire_is_fleet(c);
    struct pp_blob_owner owner = {.mine = ""};
    char id[PP_INSTALLATION_MAX], reason[200];

    enum pp_err err = installation_id(p, c, id);
    if (err != PP_OK)
        return no_id(p, fleet, err, error);
    (void)snprintf(owner.mine, sizeof(owner.mine), "%s %.*s", fleet ? "mongodb" : "up", ID_TEXT, id);
    pp_text_sha256(owner.sha256, owner.mine);
    err = p->blobs->ops->own(p->blobs, &owner);
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
