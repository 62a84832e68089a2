#!/usr/bin/env python3
# scenario: build=release timeout=240 fleet
"""scripts/fleet must run docker/compose.yaml without containers: photopool knows its roles and
settings, the fleet fetches, starts a killed process again, and leaves nothing behind. photopool
must know the settings of packaging/kubernetes, too. The image must have the packages that the
program is linked with, the files that the Dockerfile copies must exist, and the health check must
distinguish ready from not ready.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

from fleet import need_mongod
from harness import PHOTOPOOL, Failed, Origin, Pool, Process, check, free_port, same, scenario, wait_until

ROOT = os.environ.get("PP_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
READY = os.path.join(ROOT, "docker", "photopool-ready")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import compose  # noqa: E402

KEYS = '[{name: all, scopes: [submit, read, admin], sha256: "' + 64 * "0" + '"}]'


def reader(case):
    """compose.py must read the part of YAML that compose.yaml uses, and refuse all other input."""
    text = 'a: &x\n  b: "1 # 2"   # what\n  c: [p, "q, r", {s: t#}]\nd:\n  <<: *x\n  b: {}\n  e:\n    - "f: g"\n    - h\n'
    same(compose.parse(text), {"a": {"b": "1 # 2", "c": ["p", "q, r", {"s": "t#"}]},
                               "d": {"b": {}, "c": ["p", "q, r", {"s": "t#"}], "e": ["f: g", "h"]}}, "what was read")
    for bad in ("a: |\n  x\n", "a:\n", "a: 1\na: 2\n", "a: [1\n", "a: *b\n", "a: 1\n  b: 2\n", "\ta: 1\n", "a: 1\n- b\n", "a: !x y\n"):
        try:
            compose.parse(bad)
        except compose.ComposeError:
            continue
        raise Failed(f"{bad!r} was read")


def settings(case):
    """Every photopool service of compose.yaml must use existing variables, allowed values and
    existing roles.
    """
    services = compose.ours()
    same({name: n for name, n, _, _ in services}, {"api": 1, "ingest": 1, "worker": 3, "cron": 1}, "services")
    names = subprocess.run([PHOTOPOOL, "config", "--markdown"], stdout=subprocess.PIPE, check=True).stdout.decode()
    for name, _, command, env in services:
        values = {k: re.sub(r"\$\{[^}]*\}", "0123abcd", v) for k, v in env.items()}
        values["PHOTOPOOL_AUTH_KEYS"] = KEYS
        for variable in env:
            check(f"`{variable}`" in names, f"{name}: there is no {variable}")
        run = subprocess.run([PHOTOPOOL, "config", "--check"], env={**os.environ, **values}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        same((run.returncode, run.stdout if run.returncode else b""), (0, b""), f"config --check of {name}")
        # The wrong last setting makes photopool exit, but only after it has checked all other
        # settings of the command line.
        run = subprocess.run([PHOTOPOOL, *command, "--set", "clients.rpm=0"], env={**os.environ, **values}, stderr=subprocess.PIPE, check=False, timeout=60)
        check(run.returncode == 2 and b"clients.rpm" in run.stderr, f"{name}: {command}: {run.stderr}")
        check("deliver" not in command or "roles" in " ".join(command), name)
    for name, service in compose.services().items():
        check("image" in service and service.get("restart") == "unless-stopped", f"{name} has an image and a restart policy")


def kubernetes(case):
    """photopool must accept photopool.yaml with the variables of the Secret, and the arguments of
    each pod. (The lint `kubernetes` checks the rest.)
    """
    folder = os.path.join(ROOT, "packaging", "kubernetes")
    names = ("secret.example.yaml", "api.yaml", "ingest.yaml", "worker.yaml", "cron.yaml")
    texts = []
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            texts.append(f.read())
    run = subprocess.run([os.path.join(ROOT, "tests", "support", "manifests")], input=json.dumps(texts).encode(), stdout=subprocess.PIPE, check=True)
    secret, *pods = [o["value"] for result in json.loads(run.stdout) for o in result["objects"] if "stringData" in o["value"] or "template" in o["value"]["spec"]]
    values = {k: v for k, v in os.environ.items() if not k.startswith("PHOTOPOOL_")}
    values.update({k: v.replace("64 HEX DIGITS", 64 * "0") for k, v in secret["stringData"].items()})
    same(len(pods), 4, "workloads")
    for pod in pods:
        words = [os.path.join(folder, "photopool.yaml") if w == "/etc/photopool/photopool.yaml" else w for w in pod["spec"]["template"]["spec"]["containers"][0]["args"]]
        config = words[words.index("--config"):][:2]
        run = subprocess.run([PHOTOPOOL, "config", "--check", *config], env=values, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        same((run.returncode, run.stdout if run.returncode else b""), (0, b""), f"config --check of {config}")
        # As above: the wrong setting is found last.
        run = subprocess.run([PHOTOPOOL, *words, "--set", "clients.rpm=0"], env=values, stderr=subprocess.PIPE, check=False, timeout=60)
        check(run.returncode == 2 and b"clients.rpm" in run.stderr, f"{words}: {run.stderr}")


def configures(case, kept):
    """The build of the image, `make install`, must need nothing that .dockerignore leaves out."""
    copy = case.path("context")
    for name in kept:
        source = os.path.join(ROOT, name)
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(copy, name))
        else:
            os.makedirs(os.path.dirname(os.path.join(copy, name)), exist_ok=True)
            shutil.copy(source, os.path.join(copy, name))
    for command in (["cmake", "-S", copy, "-B", copy + "/build", "-G", "Ninja", "-DPP_TESTS=OFF"], ["ninja", "-C", copy + "/build", "-n", "photopool", "pages"]):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        same(run.returncode, 0, f"{command[0]} with what is copied into the image: {run.stdout.decode()[-1500:]}")
    with open(os.path.join(copy, "build", "cmake_install.cmake"), encoding="utf-8") as f:
        installed = [name for name in re.findall(rf'"{re.escape(copy)}/([^"]+)"', f.read()) if not name.startswith("build/")]
    check(len(installed) > 3, f"what `make install` installs of the source: {installed}")
    for name in ["Makefile", *installed]:
        check(os.path.exists(os.path.join(copy, name)), f"`make install` needs {name}: kept out by .dockerignore")


def image(case):
    with open(os.path.join(ROOT, "docker", "Dockerfile"), encoding="utf-8") as f:
        lines = [line.split() for line in f if line.startswith("COPY ") and "--from=" not in line]
    with open(os.path.join(ROOT, "docker", "Dockerfile.dockerignore"), encoding="utf-8") as f:
        kept = [line[1:].strip() for line in f if line.startswith("!")]
    for _, *sources, _ in lines:
        for source in sources:
            check(os.path.exists(os.path.join(ROOT, source)), f"COPY {source}: not there")
            check(source == "." or any(source.startswith(k) for k in kept), f"COPY {source}: kept out by .dockerignore")
    configures(case, kept)
    if not shutil.which("dpkg") or not shutil.which("readelf"):
        print("no dpkg or readelf: skipping the packages")
        return
    with open(os.path.join(ROOT, "scripts", "packages"), encoding="utf-8") as f:
        packages = {p for line in f if line.startswith("run ") for p in line.split()[1:]}
    dynamic = subprocess.run(["readelf", "-d", PHOTOPOOL], stdout=subprocess.PIPE, check=True).stdout.decode()
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    owners = subprocess.run(["dpkg", "-S", *(f"*/{n}" for n in needed)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
    for library in needed:
        names = {line.split(":")[0] for line in owners.split("\n") if line.endswith("/" + library)}
        check(not names or names & (packages | {"libc6", "libgcc-s1"}), f"scripts/packages, run: none of {names}, for {library}")


def runs(case):
    need_mongod()
    same(subprocess.run([READY, str(free_port())], stderr=subprocess.DEVNULL, check=False).returncode, 1, "health of nobody")
    origin = Origin(case, hosts="*.example delay=100 bytes=1000")
    fleet = Process(case, "fleet", os.path.join(ROOT, "scripts", "fleet"))
    sets = {"fetch.allow_networks": "[127.0.0.0/8]", "fetch.allow_ports": f"[{origin.port}]", "fetch.resolve": f'["*:{origin.port}:127.0.0.1"]',
            "clients.rpm": "null", "worker.lease": "3s"}
    out = case.path("fleet.out")
    with open(out, "wb") as f:
        fleet.spawn(["--port", "0", *[w for k, v in sets.items() for w in ("--set", f"{k}={v}")]], stdout=f)

    def said():
        check(fleet.running(), f"scripts/fleet ended: {fleet.text()}")
        with open(out, encoding="utf-8", errors="replace") as f:
            return f.read()

    wait_until(lambda: "are ready" in said(), 90, said)
    same(sorted(re.findall(r"^(\w+) +\| photopool listens on ", said(), re.M)), ["api0", "cron0", "ingest0", "worker0", "worker1", "worker2"], "processes")
    folder = re.search(r"data in (\S+)", said()).group(1)
    pool = Pool(case)  # used only for its HTTP requests
    pool.port = int(re.search(r"--server http://127.0.0.1:(\d+)", said()).group(1))
    batch = pool.submit("42", [{"id": f"a{i}", "photos": [origin.url(f"h{i}.example", f"/{i}.jpg")]} for i in range(200)])
    os.kill(int(re.search(r"kill -9 (\d+)", said()).group(1)), signal.SIGKILL)
    results = pool.wait_finished(batch, 60)
    same({p["outcome"] for r in results for p in r["data"]["photos"]}, {"stored"}, "outcomes, with a worker killed")
    wait_until(lambda: re.search(r"^worker0 .*started again(.|\n)*^worker0 .*listens on", said(), re.M), 30, "worker0 is started again")
    same(sum(len(names) for _, _, names in os.walk(os.path.join(folder, "photos", "sha256"))), 200, "photos in the folder")
    fleet.signal(signal.SIGINT)
    same(fleet.wait_exit(90), 0, f"exit status; output {fleet.text()}")
    check(not os.path.exists(folder), f"{folder} is left")
    same(left_of(folder), [], "processes that are left")


def left_of(folder):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        if folder.encode() in line or folder.replace("/", "\\").encode() in line:
            found.append(json.dumps(line.decode(errors="replace")))
    return found


if __name__ == "__main__":
    scenario(reader, settings, kubernetes, image, runs)
