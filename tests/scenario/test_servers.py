#!/usr/bin/env python3
# scenario: build=release timeout=400 fleet
"""The servers that tests run must keep acknowledged writes over kill -9 and starts; a replica set
of three must elect another primary; fail points must fail what they should; a frozen server must
answer after a thaw; all servers must end when the process that started them ends.
"""
import os
import signal
import subprocess

from fleet import SUPPORT, MongoServers, RedisServers, need_mongod
from harness import Failed, check, same, scenario, wait_until
from mongo_wire import Date, Long, Mongo, MongoError, ObjectId, decode, encode, stages
from redis_wire import Redis, RedisError
from servers import StartError, state_of


def bson(case):
    """Encodes and decodes BSON, and compares one document of bsonspec.org byte for byte."""
    due = {"a": 1, "b": Long(1), "c": 2.5, "d": "x\u00e9", "e": None, "f": True, "g": [1, {"h": -1}], "i": Date(5), "j": b"\0\1",
           "k": ObjectId(bytes(range(12))), "l": 1 << 40}
    same(decode(encode(due)), due, "a document there and back")
    same(encode({"hello": "world"}), b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0", "bytes of a document")
    check(isinstance(decode(encode(due))["i"], Date), "a date is no number")


def refused(function, kind, text):
    try:
        function()
    except kind as e:
        check(text in str(e), f"{e} does not say {text}")
        return
    raise Failed(f"no {kind.__name__} for {text}")


def mongo_one(case):
    servers = MongoServers(case).begin().wait_up()
    mongo = servers.wire
    mongo.run("test", {"insert": "c", "documents": [{"_id": i, "a": i % 3} for i in range(500)], "writeConcern": {"w": "majority", "j": True}})
    servers.restart()
    same((mongo.count("test", "c"), mongo.count("test", "c", {"a": 1})), (500, 167), "documents after kill -9")
    same([row["_id"] for row in mongo.find("test", "c", {"a": 1}, sort={"_id": -1}, batchSize=10)], list(range(499, 0, -3)), "found in batches")
    same(mongo.collections("test"), ["c"], "collections")
    check("COLLSCAN" in stages(mongo.explain("test", {"find": "c", "filter": {"a": 1}})), "explain shows the scan")
    same(stages(mongo.explain("test", {"find": "c", "filter": {"_id": 1}})) & {"COLLSCAN"}, set(), "a look-up scans nothing")
    with mongo.fail_command(["insert"], times=1, errorCode=91):
        refused(lambda: mongo.run("test", {"insert": "c", "documents": [{"_id": "x"}]}), MongoError, "ShutdownInProgress")
        mongo.run("test", {"insert": "c", "documents": [{"_id": "x"}]})
    refused(lambda: mongo.run("test", {"insert": "c", "documents": [{"_id": "x"}]}), MongoError, "duplicate key")
    same(mongo.step_down(), servers.url.split("/")[2], "who stepped down")
    mongo.primary()
    servers.freeze()
    same(mongo.primary_now(timeout=0.2), None, "a frozen server's answer")
    servers.thaw()
    servers.end()
    same(mongo.primary_now(), None, "a server that was shut down")
    servers.start()
    same(mongo.count("test", "c"), 501, "documents after a clean end")
    crashed(servers)
    servers.wipe()
    refused(lambda: servers.do("nonsense"), StartError, "nonsense")
    goes_with_its_parent(servers, signal.SIGKILL)


def crashed(servers):
    """A server under wine reports a crash: the script must kill it, because it might hang forever."""
    server = state_of(servers.dir)["servers"][0]
    if not os.path.isdir(os.path.join(servers.dir, "wine")):
        return
    with open(server["log"], "a", encoding="ascii") as f:
        f.write('{"c":"CONTROL","id":23134,"msg":"Unhandled exception"}\n')
    wait_until(lambda: servers.pids() == [None] and gone(server["pid"]), 30, "it is killed")
    check("has crashed" in servers.text(), f"it reports the crash: {servers.text()}")
    servers.start()
    same(servers.wire.count("test", "c"), 501, "documents after a crash")


def mongo_three(case):
    servers = MongoServers(case, 3).begin().wait_up()
    mongo, pids = servers.wire, servers.pids()
    same(len(set(pids)), 3, "processes")
    mongo.run("test", {"insert": "c", "documents": [{"_id": 1}], "writeConcern": {"w": "majority", "j": True}})
    first = mongo.primary()
    servers.kill_one(mongo.servers.index(first))
    check(mongo.primary().address != first.address, "another primary")
    same(mongo.count("test", "c"), 1, "what was written with majority")
    servers.start(mongo.servers.index(first))
    old = mongo.step_down(10)
    check(mongo.primary().address != old, "another primary after a step-down")
    goes_with_its_parent(servers, signal.SIGTERM)


def redis_one(case):
    servers = RedisServers(case).begin().wait_up()
    redis = servers.wire
    redis.run("SET", "a", b"\0\r\n1")
    servers.restart()
    redis = servers.wire
    same(redis.run("GET", "a"), b"\0\r\n1", "what was written before kill -9")
    same(redis.run("EVAL", "return {1, false, {'x', redis.status_reply('y')}}", 0), [1, None, [b"x", b"y"]], "a reply of all kinds")
    refused(lambda: redis.run("INCR", "a"), RedisError, "not an integer")
    same((redis.info("persistence")["aof_enabled"], redis.keys()), ("1", [b"a"]), "append-only file, and keys")
    servers.wipe()
    servers.start()
    same(servers.wire.run("DBSIZE"), 0, "keys of one that was wiped")
    goes_with_its_parent(servers, signal.SIGKILL)


def redis_cluster(case):
    servers = RedisServers(case, True, "--fsync", "everysec").begin().wait_up()
    nodes = [Redis(f"127.0.0.1:{s['port']}") for s in state_of(servers.dir)["servers"]]
    moved = 0
    for n in range(30):
        for node in nodes:
            try:
                same(node.run("SET", f"k{n}", n), b"OK", "SET")
            except RedisError as e:
                check(str(e).startswith("MOVED "), str(e))
                moved += 1
    same(moved, 60, "keys that belong to another node, of 30 on 3 nodes")
    # With appendfsync everysec, writes that wait for a slow disk are not in the file yet and die
    # with the process.
    wait_until(lambda: all(int(node.info("persistence")["aof_buffer_length"]) == 0 for node in nodes), 30, "all writes are in the file")
    servers.restart(1)
    same(sum(Redis(node.address[0] + f":{node.address[1]}").run("DBSIZE") for node in nodes), 30, "keys in all")
    goes_with_its_parent(servers, signal.SIGTERM)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def goes_with_its_parent(servers, how):
    pids = [p for p in servers.pids() if p]
    servers.signal(how)
    servers.wait_exit()
    wait_until(lambda: all(map(gone, pids)), 30, f"servers are gone after {how.name}")


def command(case):
    """A script runs COMMAND: COMMAND must get the URL, the script must exit with COMMAND's status,
    and its temporary folder must disappear.
    """
    env = {**os.environ, "TMPDIR": case.path(".")}
    for script, variable in (("mongod", "MONGO"), ("redis", "REDIS")):
        run = subprocess.run([os.path.join(SUPPORT, script), "--", "sh", "-c", f"echo ${variable}_URL ${variable}_DIR; exit 7"], env=env,
                             stdout=subprocess.PIPE, check=False, timeout=120)
        url, folder = run.stdout.decode().split()
        same((run.returncode, os.path.exists(folder)), (7, False), f"status and folder of {script}")
        check("://127.0.0.1:" in url, url)
    run = subprocess.run([os.path.join(SUPPORT, "mongod"), "--", "true"], env={**env, "MONGOD": "/nowhere/mongod"}, stderr=subprocess.PIPE,
                         check=False, timeout=60)
    check(run.returncode == 1 and b"/nowhere/mongod" in run.stderr, f"a mongod that is not there: {run}")


def urls(case):
    same([s.address for s in Mongo("mongodb://a:1,b/photopool?replicaSet=rs0").servers], ["a:1", "b:27017"], "addresses in a URL")


if __name__ == "__main__":
    scenario(bson, urls, lambda case: need_mongod(), mongo_one, mongo_three, redis_one, redis_cluster, command)
