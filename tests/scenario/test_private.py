#!/usr/bin/env python3
# scenario: timeout=60 main
"""What photopool keeps from others: only its user may read its files, and a reload never removes the
last key.
"""
import hashlib
import os
import signal
import stat

from harness import Origin, Pool, check, same, scenario, wait_until


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


def keys(case):
    key = {"name": "a", "sha256": hashlib.sha256(b"secret").hexdigest(), "scopes": ["read"]}
    pool = Pool(case, config={"auth.keys": [key]})
    pool.start()
    for lost in ([], None):
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
    pool.config["auth.keys"] = [{**key, "sha256": hashlib.sha256(b"other").hexdigest()}]
    pool.write_config()
    pool.signal(signal.SIGHUP)
    wait_until(lambda: pool.get("/v1/batches", headers={"Authorization": "Bearer other"}).status == 200, 10, "the new key is valid")
    same(pool.get("/v1/batches", headers={"Authorization": "Bearer secret"}).status, 401, "a request with the old key")
    pool.stop()


if __name__ == "__main__":
    scenario(files, keys)
