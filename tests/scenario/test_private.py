#!/usr/bin/env python3
# scenario: timeout=60 main
"""What photopool keeps from others: only its user may read its files, a reload never removes the
last key, and subscriptions end with the key that opened them.
"""
import hashlib
import os
import signal
import re
import stat

from harness import Origin, Pool, check, same, scenario, wait_until
from streams import NodeWs, Raw, finish, poll


def modes_below(folder):
    """Returns {path: (is it a directory, permission bits)} of everything below a folder."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode
            found[os.path.relpath(path, folder)] = (stat.S_ISDIR(mode), stat.S_IMODE(mode))
    return found


def files(case):
    """The umask allows others everything. The data directory existed before, open to others."""
    origin = Origin(case, hosts="*.example bytes=1000")
    pool = Pool(case, origin=origin)
    before = os.umask(0)
    os.mkdir(pool.data, 0o755)
    pool.start()
    os.umask(before)
    pool.wait_finished(pool.submit("42", [{"id": "a", "photos": [origin.url("a.example", "/1.jpg")]}]))
    same(stat.S_IMODE(os.stat(pool.data).st_mode), 0o700, "mode of the data directory")
    check("data directory was open to others" in pool.text(), "the log says so")
    modes = modes_below(pool.data)
    check({"lock", "photopool.db", "photopool.db-wal", "deliveries.db", "ingest.db"} <= set(modes), f"files: {sorted(modes)}")
    for path, (is_folder, mode) in modes.items():
        is_photo = path == "photos" or path.startswith(("photos/sha256", "photos/tmp"))
        same(mode, (0o755 if is_folder else 0o644) if is_photo else 0o600, f"mode of {path}")
    pool.stop()


def reloaded(pool, **config):
    """Reloads the server with these parameters. Returns what the log says about it."""
    before = len(pool.text())
    pool.config.update(config)
    pool.write_config()
    pool.signal(signal.SIGHUP)
    wait_until(lambda: "configuration reloaded" in pool.text()[before:], 10, "the configuration is reloaded")
    return pool.text()[before:]


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


def entry(name, scopes, **more):
    return {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes, **more}


def subscriptions(case):
    """Streams and long-polls end when their key is removed or changed; those of other keys go on."""
    pool, node = Pool(case, config={"auth.keys": []}), NodeWs()
    pool.start()

    def follow(headers, query="key=results"):
        return (node.open(pool, query, headers=headers), Raw(pool, query, headers, sse=True),
                Raw(pool, query + "&wait=60", headers, read=False))

    def ended(ws, sse, waiting):
        same(ws.closed(), 1008, "code of the close frame")
        sse.read_to_end()
        waiting.read_head()
        same(waiting.problem(), (401, "unauthorized"), "the long-poll")

    anybody = follow({})
    wait_until(lambda: pool.metric("photopool_subscribers") == 3, 10, "the three subscriptions are open")
    admin, shop, bound = entry("admin", ["submit", "read", "admin"]), entry("shop", ["read"]), entry("bound", ["read"])
    said = reloaded(pool, **{"auth.keys": [admin, shop, bound]})
    same(re.findall(r"in force now parameter=(\S+)", said), ["auth.keys"], "what has changed")
    ended(*anybody)
    ticket = pool.post("/v1/tickets", {"keys": ["results"]}, bearer("shop")).json["ticket"]
    other = pool.post("/v1/tickets", {"keys": ["results"]}, bearer("bound")).json["ticket"]
    first, second, third = follow(bearer("shop")), follow(bearer("bound")), follow({}, f"ticket={ticket}")
    stays = follow(bearer("admin"))
    wait_until(lambda: pool.metric("photopool_subscribers") == 12, 10, "the subscriptions are open")
    reloaded(pool, **{"auth.keys": [admin, {**bound, "client": "42"}]})
    for what in (first, second, third):
        ended(*what)
    same(pool.get(f"/v1/events?ticket={other}").status, 401, "a ticket of the key before it was bound")
    finish(pool, "43", headers=bearer("admin"))
    same(stays[0].events(1)[0]["key"], ["results", "43"], "the event of the WebSocket that stays")
    same(stays[1].events(1)[0]["key"], ["results", "43"], "the event of the SSE that stays")
    stays[2].read_head()
    same(stays[2].status, 200, "the long-poll that stays")
    same(poll(pool, "key=results:42", bearer("bound"), after=0)[0], [], "the key that is bound now")
    node.close()
    pool.stop()


def keys(case):
    key = {"name": "a", "sha256": hashlib.sha256(b"secret").hexdigest(), "scopes": ["read"]}
    pool = Pool(case, config={"auth.keys": [key]})
    pool.start()
    for lost in ([], None):
        reloaded(pool)  # the log says the same error once a minute, unless a reload succeeds
        pool.config["auth.keys"] = lost
        if lost is None:
            del pool.config["auth.keys"]
        pool.write_config()
        n = pool.text().count("configuration not reloaded")
        pool.signal(signal.SIGHUP)
        wait_until(lambda: pool.text().count("configuration not reloaded") > n, 10, "a reload without keys is refused")
        check("no keys any more" in pool.text(), "the log says why")
        same(pool.get("/v1/batches").status, 401, "a request without a key")
        same(pool.get("/v1/batches", headers={"Authorization": "Bearer secret"}).status, 200, "a request with the key")
        pool.config["auth.keys"] = [key]
    pool.config["auth.keys"] = [{**key, "sha256": hashlib.sha256(b"other").hexdigest()}]
    pool.write_config()
    pool.signal(signal.SIGHUP)
    wait_until(lambda: pool.get("/v1/batches", headers={"Authorization": "Bearer other"}).status == 200, 10, "the new key is valid")
    same(pool.get("/v1/batches", headers={"Authorization": "Bearer secret"}).status, 401, "a request with the old key")
    pool.stop()


if __name__ == "__main__":
    scenario(files, keys, subscriptions)
