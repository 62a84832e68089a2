#!/usr/bin/env python3
"""Checks packaging/kubernetes: each object has the form of Kubernetes' API; the pods are hardened and
have probes; what names something names something that exists; and what other files say too is the
same there: docker/Dockerfile (user, port), docker/compose.yaml (roles), CMakeLists.txt (version),
cmd_up.c (the time to end).

tests/scenario/test_fleet_script.py checks photopool.yaml and the command lines with photopool.
"""
import json
import os
import re
import subprocess
import sys

from lint import ROOT, files, read

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import compose  # noqa: E402

FOLDER = "packaging/kubernetes/"
TOOL = os.path.join(ROOT, "tests", "support", "manifests")
CONFIG, SECRET, LIST = "photopool.yaml", "secret.example.yaml", "kustomization.yaml"
WORKLOADS = ("Deployment", "StatefulSet")


def other_files():
    """Returns what other files say."""
    dockerfile = read("docker/Dockerfile")
    roles = {}
    for name, _, words, _ in compose.ours():
        roles[name] = words[words.index("--roles") + 1]
    return {"user": [int(n) for n in re.search(r"^USER (\d+):(\d+)$", dockerfile, re.M).groups()],
            "close": int(re.search(r"^#define CLOSE_MS (\d+)$", read("cmd/photopool/cmd_up.c"), re.M)[1]) // 1000,
            "port": int(re.search(r"^EXPOSE (\d+)$", dockerfile, re.M)[1]), "roles": roles,
            "version": re.search(r"^project\(photopool VERSION (\S+)", read("CMakeLists.txt"), re.M)[1]}


def parse(texts):
    """Returns (objects, findings) of {name: text} of manifests: objects are (name, line, value)."""
    names = sorted(texts)
    run = subprocess.run([TOOL], input=json.dumps([texts[n] for n in names]).encode(), stdout=subprocess.PIPE, check=True)
    objects, found = [], []
    for name, result in zip(names, json.loads(run.stdout)):
        objects += [(name, o["line"], o["value"]) for o in result["objects"]]
        found += [(name, e["line"], e["what"]) for e in result["errors"]]
    return objects, found


def matches(selector, labels):
    """Returns true if these labels are selected."""
    values = all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
    return values and all(e["operator"] == "In" and labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))


def hardened(pod, container, other):
    user, group = other["user"]
    security = {k: v for k, v in pod.get("securityContext", {}).items() if not k.startswith("fsGroup")}
    if security != {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": group, "seccompProfile": {"type": "RuntimeDefault"}}:
        yield f"securityContext of the pod: runAsNonRoot, runAsUser {user} and runAsGroup {group} as docker/Dockerfile, seccompProfile RuntimeDefault"
    if container.get("securityContext") != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}:
        yield "securityContext of the container: no allowPrivilegeEscalation, readOnlyRootFilesystem, drop all capabilities"
    if pod.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken: false, for photopool does not call Kubernetes"
    if pod.get("enableServiceLinks") is not False:
        yield "enableServiceLinks: false, for the variables of a Service photopool would be taken for parameters"


def lives(pod, container, other, drain):
    """The life of a pod: probes, port, memory, time to end."""
    if container.get("ports") != [{"name": "http", "containerPort": other["port"]}]:
        yield f"ports: http, {other['port']}, as docker/Dockerfile"
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        if container.get(probe, {}).get("httpGet") != {"path": path, "port": "http"}:
            yield f"{probe}: GET {path} from the port http"
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
        yield "resources: requests of cpu and memory, and a limit of memory"
    before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    need = int(before[1]) + drain + other["close"]
    if pod.get("terminationGracePeriodSeconds", 30) < need:
        yield f"terminationGracePeriodSeconds: at least {need}, for preStop, worker.drain and the end"


def workload(value, config, secret, other):
    """Checks a Deployment or a StatefulSet."""
    spec, name = value["spec"], value["metadata"]["name"].removeprefix("photopool-")
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    container = pod["containers"][0]
    if labels != {"app.kubernetes.io/name": "photopool", "app.kubernetes.io/component": name} or spec["selector"] != {"matchLabels": labels}:
        yield f"labels and selector: app.kubernetes.io/name photopool, app.kubernetes.io/component {name}"
    if container["args"][:3] != ["serve", "--roles", other["roles"].get(name)]:
        yield f"args: serve --roles {other['roles'].get(name)}, as docker/compose.yaml"
    if container["image"] != "photopool":
        yield f"image: photopool; {LIST} says which"
    if [s.get("secretRef") for s in container.get("envFrom", [])] != [{"name": secret}]:
        yield f"envFrom: the Secret {secret}"
    volumes = {v["name"] for v in pod.get("volumes", [])} | {c["metadata"]["name"] for c in spec.get("volumeClaimTemplates", [])}
    if volumes != {m["name"] for m in container.get("volumeMounts", [])}:
        yield "volumes and volumeMounts differ"
    if set(container["args"][2].split(",")) & {"api", "worker"} and "/tmp" not in [m["mountPath"] for m in container.get("volumeMounts", [])]:
        yield "volumeMounts: a folder that can be written to at /tmp, for S3"
    maps = [v["configMap"]["name"] for v in pod.get("volumes", []) if "configMap" in v]
    if any(m not in config["maps"] for m in maps) or not maps:
        yield f"a ConfigMap that {LIST} makes"
    yield from hardened(pod, container, other)
    yield from lives(pod, container, other, config["drain"])


def refers(value, workloads):
    """Checks what an object says about workloads: {name: the object}."""
    kind, spec = value["kind"], value.get("spec", {})
    selector = {"Service": lambda: {"matchLabels": spec["selector"]}, "PodDisruptionBudget": lambda: spec["selector"],
                "NetworkPolicy": lambda: spec["podSelector"]}.get(kind)
    if selector and not any(matches(selector(), w["spec"]["template"]["metadata"]["labels"]) for w in workloads.values()):
        yield "the selector selects no pods"
    if kind == "Service" and any(p.get("targetPort") != "http" for p in spec["ports"]):
        yield "targetPort: http"
    if kind == "HorizontalPodAutoscaler":
        to = spec["scaleTargetRef"]
        target = workloads.get(to["name"])
        if not target or (target["apiVersion"], target["kind"]) != (to["apiVersion"], to["kind"]):
            yield "scaleTargetRef names no workload"
        elif "replicas" in target["spec"]:
            yield f"{to['name']} must have no `replicas`: applying it would undo the autoscaler"


def whole(texts, objects, other):
    """Checks the list of the files, and what belongs to every workload."""
    listed = next(v for n, _, v in objects if n == LIST)
    want = sorted(set(texts) - {CONFIG, SECRET, LIST})
    if sorted(listed.get("resources", [])) != want:
        yield LIST, 1, f"resources: {', '.join(want)}"
    if [i.get("newTag") for i in listed.get("images", []) if i["name"] == "photopool"] != [other["version"]]:
        yield LIST, 1, f"images: photopool, with the newTag {other['version']}, as CMakeLists.txt"
    spaces = {v["metadata"]["name"] for _, _, v in objects if v["kind"] == "Namespace"} | {v["metadata"]["namespace"] for _, _, v in objects if v["kind"] == "Secret"}
    if spaces != {listed.get("namespace")}:
        yield LIST, 1, f"namespace: the same here, in {SECRET} and as an object: {sorted(spaces)}"
    kinds = [(v["kind"], v["metadata"]["name"].removeprefix("photopool-")) for n, _, v in objects if n != LIST]
    for name in other["roles"]:
        for some in (WORKLOADS, ("PodDisruptionBudget",)):
            if sum((kind, name) in kinds for kind in some) != 1:
                yield LIST, 1, f"not one {' or '.join(some)} photopool-{name}, for the service of docker/compose.yaml"


def find(texts, objects, other):
    """Returns the findings in {name: text}, without those of the tool."""
    listed = next(v for n, _, v in objects if n == LIST)
    drain = re.search(r"^worker\.drain: (\d+)s$", texts[CONFIG], re.M)
    config = {"drain": int(drain[1]) if drain else 30, "maps": [g["name"] for g in listed.get("configMapGenerator", []) if g["files"] == [CONFIG]]}
    secret = next(v["metadata"]["name"] for _, _, v in objects if v["kind"] == "Secret")
    workloads = {v["metadata"]["name"]: v for _, _, v in objects if v["kind"] in WORKLOADS}
    found = list(whole(texts, objects, other))
    for name, line, value in objects:
        if value["kind"] in WORKLOADS:
            found += [(name, line, what) for what in workload(value, config, secret, other)]
        elif name != LIST:
            found += [(name, line, what) for what in refers(value, workloads)]
    return found


# Mistakes that must be found: a file, and what is replaced by what.
TYPES = [("api.yaml", "readinessProbe:", "readynessProbe:"), ("api.yaml", "replicas: 2", "replicas: two"), ("worker.yaml", "kind: HorizontalPodAutoscaler", "kind: Autoscaler"),
         ("network.yaml", 'photopool-caller: "true"', "photopool-caller: on"), ("cron.yaml", "  replicas: 2", "  replicas: 2\n  replicas: 3"),
         ("ingest.yaml", "kind: PodDisruptionBudget", "")]
RULES = [("api.yaml", "runAsUser: 10001", "runAsUser: 10002"), ("worker.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
         ("cron.yaml", "drop: [ALL]", "drop: [NET_RAW]"), ("ingest.yaml", "path: /readyz", "path: /healthz"), ("ingest.yaml", "containerPort: 8080", "containerPort: 80"),
         ("api.yaml", "GracePeriodSeconds: 95", "GracePeriodSeconds: 94"), ("worker.yaml", "limits: {memory: 512Mi}", "limits: {}"),
         ("cron.yaml", '"cron,deliver"', "cron"), ("worker.yaml", "photopool-worker\nspec:\n  strategy:", "photopool-worker\nspec:\n  replicas: 3\n  strategy:"),
         ("worker.yaml", "kind: Deployment, name: photopool-worker", "kind: Deployment, name: worker"), ("api.yaml", "secretRef: {name: photopool}", "secretRef: {name: other}"),
         ("api.yaml", "component: api}\n  ports", "component: apis}\n  ports"), ("api.yaml", "{name: data, mountPath", "{name: dat, mountPath"),
         ("worker.yaml", "mountPath: /tmp", "mountPath: /var/tmp"),
         ("api.yaml", "configMap: {name: photopool}", "configMap: {name: other}"), ("ingest.yaml", "enableServiceLinks: false", "enableServiceLinks: true"),
         (CONFIG, "worker.drain: 30s", "worker.drain: 31s"), (LIST, "  - cron.yaml\n", ""), (LIST, "newTag: ", "newTag: 9"), (LIST, "namespace: photopool", "namespace: other")]


def broken(texts, examples):
    for name, old, new in examples:
        assert old in texts[name], (name, old)
        yield name, {**texts, name: texts[name].replace(old, new)}


def blind(n, name):
    print(f"tests/lint: check_kubernetes.py sees nothing wrong with its own example {n}, of {name}")
    return 2


def main():
    other = other_files()
    texts = {p.removeprefix(FOLDER): read(p) for p in files(".yaml") if p.startswith(FOLDER)}
    # One run of the tool for the files and for all examples: starting it takes most of the time.
    copies = list(broken(texts, TYPES + RULES))
    changed = {f"{n}/{name}": copy[name] for n, (name, copy) in enumerate(copies, 1) if name != CONFIG}
    objects, errors = parse({**{f"0/{name}": text for name, text in texts.items() if name != CONFIG}, **changed})

    def part(n, rows, but=None):
        return [(row[0].split("/")[1], *row[1:]) for row in rows if row[0].startswith(f"{n}/") and row[0] != f"{n}/{but}"]

    found = part(0, errors) or find(texts, part(0, objects), other)
    for name, line, what in found:
        print(f"{FOLDER}{name}:{line}: {what}")
    if found:
        return 1
    for n, (name, copy) in enumerate(copies, 1):
        seen = part(n, errors)
        if n <= len(TYPES):
            if not any(wrong == name for wrong, _, _ in seen):
                return blind(n, name)
        elif seen or not find(copy, part(0, objects, but=name) + part(n, objects), other):
            return blind(n, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
