#!/usr/bin/env python3
# scenario: main
"""After a crash the next start must remove objects whose record was never written, and keep all
others; after an orderly stop it must not search. A host that sends different bytes each time
leaves such objects after a kill -9.
"""
import os

from harness import Origin, Pool, check, same, scenario, wait_until

ORPHAN = "sha256/00/01/0001" + "a" * 60 + ".jpg"


def plant(pool):
    path = os.path.join(pool.photos, ORPHAN)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"bytes that no record names")
    return path


def test_orphans(case):
    origin = Origin(case, hosts="*.example bytes=2000-9000")
    pool = Pool(case, origin=origin, config={"clients.rpm": None})
    pool.start()
    items = [{"id": f"ad-{i}", "photos": [origin.url("a.example", f"/{i}.jpg")]} for i in range(50)]
    results = pool.wait_finished(pool.submit("42", items))
    objects = {p["object"] for r in results for p in r["data"]["photos"]}
    same(len(objects), 50, "objects stored")

    pool.kill()
    orphan = plant(pool)
    pool.start()
    wait_until(lambda: not os.path.exists(orphan), 10, "the object without a record is removed")
    for name in objects:
        check(os.path.exists(os.path.join(pool.photos, name)), f"{name} has a record and is kept")
    more = pool.wait_finished(pool.submit("42", [{"id": "more", "photos": [origin.url("a.example", "/more.jpg")]}]))
    same(more[0]["data"]["status"], "complete", "an item after the crash")

    pool.stop()
    orphan = plant(pool)
    pool.start()
    more = pool.wait_finished(pool.submit("42", [{"id": "last", "photos": [origin.url("a.example", "/last.jpg")]}]))
    same(more[0]["data"]["status"], "complete", "an item after an orderly stop")
    check(os.path.exists(orphan), "after an orderly stop nothing is removed")
    pool.stop()


def refused(pool):
    """Starts a process that must refuse to start, and returns what it says."""
    pool.spawn_up()
    check(pool.wait_exit(20) != 0, "a process with another's blob store starts")
    pool.process.stdout.close()
    return pool.text()


def test_two_installations(case):
    """Two installations with one place for photos: the second must not start, not even after a
    kill -9 of the first, and it must not remove the first one's photos or unfinished files.
    """
    origin = Origin(case, hosts="*.example bytes=2000-9000")
    shared = case.path("shared")
    config = {"clients.rpm": None, "blobs.url": "file:" + shared}
    first, second = (Pool(case, origin=origin, config=config) for _ in range(2))
    first.photos = shared
    first.start()
    results = first.wait_finished(first.submit("42", [{"id": f"a{i}", "photos": [origin.url("a.example", f"/{i}.jpg")]} for i in range(5)]))
    check("is in use by another photopool" in refused(second), "the reason while the first runs")
    first.kill()
    with open(os.path.join(shared, "tmp", "unfinished"), "wb"):
        pass
    check("belong to another installation" in refused(second), "the reason after the first was killed")
    check(os.path.exists(os.path.join(shared, "tmp", "unfinished")), "an unfinished file of the first is left")
    for r in results:
        for p in r["data"]["photos"]:
            check(os.path.exists(os.path.join(shared, p["object"])), f"{p['object']} is left")
    first.start()
    same(first.temp_files(), [], "unfinished files after the owner's start")
    first.kill()
    os.remove(os.path.join(shared, "photopool-owner"))  # an operator hands the photos over to the second
    orphan = plant(first)
    second.start()
    more = second.wait_finished(second.submit("42", [{"id": "x", "photos": [origin.url("a.example", "/x.jpg")]}]))
    same(more[0]["data"]["status"], "complete", "an item after the take-over")
    check(os.path.exists(orphan), "a start that adopts a blob store removes nothing")
    second.stop()


if __name__ == "__main__":
    scenario(test_orphans, test_two_installations)
