"""older.py: kills the processes of a fleet while they give the photos of an older database the keys
of their canonical URLs (lib/adapter/mongo/rekey.c).

The database is made from a new one: an import stores photos, then all of them get other keys, as
they had them before URLs had a canonical form. Every second photo keeps a document under its new
key, too, in which it has failed: another spelling of its URL that the host did not know. Then the
processes start, and some are killed while they start. In the end an import of the same photos is
answered from what is stored, without a request.
"""
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "scenario")]
from fleet import Fleet  # noqa: E402
from harness import Origin, check, same, wait_until  # noqa: E402

CLIENT, ITEMS, PER_ITEM = "old", 1500, 1
DATABASE, VERSION = "photopool", 5  # of the schema in which each spelling of a URL had its own key
KILLS = 6
NOT_FOUND = {"fc": 404, "fs": 1, "sk": 1, "fl": int(time.time() * 1000), "fd": "404"}


def make_older(wire):
    """Gives each photo of the database another key. Returns the number of photos."""
    photos, items, new = wire.find(DATABASE, "photos"), wire.find(DATABASE, "items", projection={"ph": 1}), {}
    for photo in photos:
        new[photo["_id"]] = bytes(b ^ 0x5A for b in photo["_id"])
    for i, was in enumerate(sorted(new)):
        wire.aggregate(DATABASE, "photos", [{"$match": {"_id": was}}, {"$set": {"_id": new[was]}}, {"$merge": {"into": "photos"}}])
        if i % 2:
            wire.run(DATABASE, {"delete": "photos", "deletes": [{"q": {"_id": was}, "limit": 1}]})
        else:
            wire.run(DATABASE, {"update": "photos", "updates": [{"q": {"_id": was}, "u": {"$unset": {"o": 1, "fa": 1}, "$set": NOT_FOUND}}]})
    for item in items:
        keys = {f"ph.{n}.k": new[photo["k"]] for n, photo in enumerate(item["ph"])}
        wire.run(DATABASE, {"update": "items", "updates": [{"q": {"_id": item["_id"]}, "u": {"$set": keys}}]})
    wire.run(DATABASE, {"update": "meta", "updates": [{"q": {"_id": "schema"}, "u": {"$set": {"v": VERSION}}}]})
    return len(photos)


def kill_while_it_moves(fleet, choices, say):
    """Starts replicas, and kills each KILLS times while it starts."""
    wire = fleet.mongo.wire
    for n in range(KILLS):
        for replica in fleet.replicas:
            replica.spawn_up()
        moved = wire.find(DATABASE, "meta", {"_id": "rekey"})
        before = moved[0]["after"] if moved else ""
        # kills after one or a few pages, at a random moment of the next one
        wait_until(lambda b=before: position(wire) != b, 60, "the next page is done")
        time.sleep(choices.uniform(0, 0.1))
        say(f"kill {n + 1}: photos are moved up to item {position(wire)}")
        for replica in fleet.replicas:
            replica.kill()


def position(wire):
    """Returns the last item whose photos have their new keys; None if all have."""
    state = wire.find(DATABASE, "meta", {"_id": "rekey"})
    version = wire.find(DATABASE, "meta", {"_id": "schema"})[0]["v"]
    return None if version > VERSION else state[0]["after"] if state else ""


def older(case, say):
    origin = Origin(case, hosts="*.example delay=1-5 bytes=600-2000", record=case.in_memory("record.txt"))
    fleet = Fleet(case, origin=origin, config={"clients.rpm": None, "clients.concurrency": 64, "blobs.fsync": "off"}).start()
    items = [{"id": f"i{i}", "photos": [origin.url(f"h{i % 20}.example", f"/c/{CLIENT}/{i}-{n}.jpg") for n in range(PER_ITEM)]}
             for i in range(ITEMS)]
    stored = fleet.api.wait_finished(fleet.api.submit(CLIENT, items), 300)
    same({p["outcome"] for r in stored for p in r["data"]["photos"]}, {"stored"}, "outcomes of the first import")
    fleet.stop()
    n = make_older(fleet.mongo.wire)
    same(n, ITEMS * PER_ITEM, "photos")
    kill_while_it_moves(fleet, random.Random(case.seed), say)
    requests = origin.stats()["requests"]
    for replica in fleet.replicas:
        replica.start()
    again = fleet.api.wait_finished(fleet.api.submit(CLIENT, items), 300)
    lost = [p["url"] for r in again for p in r["data"]["photos"] if p["outcome"] != "unchanged"]
    say(f"{n} photos with older keys, {KILLS} kills: {len(lost)} lost, {origin.stats()['requests'] - requests} fetched again")
    if lost:
        say(f"WRONG: I1: {len(lost)} photos have lost their bytes, such as {lost[0]}")
    fleet.stop()
    check(not lost, "photos are lost")
    same(origin.stats()["requests"], requests, "requests")
