"""namespace.py: gives a test its own mounts and its own network. Only root may make them, and they
are gone when the process ends. Enter them before any thread or child starts.

In the network every address is local (`ip route add local default dev lo`), so the test can listen
on any address, and every connection goes over `lo`, where Watch sees it.
"""
import ctypes
import os
import socket
import struct
import threading

from harness import POLL, Skipped, time

CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
libc = ctypes.CDLL(None, use_errno=True)


def call(what, *args):
    if getattr(libc, what)(*args) != 0:
        raise Skipped(f"{what}: {os.strerror(ctypes.get_errno())}")


def own_mounts():
    """Gives the process its own mounts. Raises Skipped if that is not permitted."""
    if os.geteuid() != 0:
        raise Skipped("only root may mount")
    call("unshare", CLONE_NEWNS)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def mount_tmpfs(path, size):
    call("mount", b"tmpfs", path.encode(), b"tmpfs", 0, f"size={size},mode=0700".encode())


def small_disk(case, name, size):
    """Mounts a small tmpfs as a disk and returns its path, or None if mounting is not permitted. A
    SQLite WAL alone may take 16 MiB.
    """
    path = case.path(name)
    os.mkdir(path)
    try:
        own_mounts()
        mount_tmpfs(path, size)
    except Skipped as e:
        print(f"left out, a full disk: {e}", flush=True)
        return None
    return path


def fill(path):
    """Appends to the file `path` until its disk is full to the last byte."""
    with open(path, "ab", buffering=0) as f:
        for block in (1 << 20, 4096, 1):
            try:
                while True:
                    f.write(b"x" * block)
            except OSError:
                pass


def bind_file(source, target):
    call("mount", source.encode(), target.encode(), None, MS_BIND, None)


def attribute(kind, data):
    return struct.pack("HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def netlink(kind, body):
    """Sends one routing request to the kernel. Returns True if the kernel has done it."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:  # NETLINK_ROUTE
        s.bind((0, 0))
        # NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
        s.send(struct.pack("IHHII", 16 + len(body), kind, 0x1 | 0x4 | 0x400 | 0x100, 1, 0) + body)
        return struct.unpack_from("i", s.recv(4096), 16)[0] == 0


def everything_is_local(family):
    """Makes all addresses of a family local: adds a route (RTM_NEWROUTE) of type local to lo (index
    1).
    """
    # fields of rtmsg: family, dst_len, src_len, tos, table local, protocol boot, scope host, type
    # local, flags; then RTA_OIF
    return netlink(24, struct.pack("BBBBBBBBI", family, 0, 0, 0, 255, 3, 254, 2, 0) + attribute(4, struct.pack("i", 1)))


def give_address(address):
    """Adds an address to lo (RTM_NEWADDR), so that sockets can bind to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    # fields of ifaddrmsg: family, prefix length, IFA_F_NODAD, scope, index; then IFA_LOCAL,
    # IFA_ADDRESS
    return netlink(20, struct.pack("BBBBI", family, 8 * len(packed), 2, 0, 1) + attribute(2, packed) + attribute(1, packed))


def own_network(addresses):
    """Gives the process a network namespace that has only lo, with these addresses."""
    if os.geteuid() != 0:
        raise Skipped("only root may have a network namespace")
    call("unshare", CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING
        call("ioctl", s.fileno(), 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
    if not all(map(give_address, addresses)) or not all(map(everything_is_local, (socket.AF_INET, socket.AF_INET6))):
        raise Skipped("addresses and routes can't be made")


class Watch:
    """Notes every attempt to open a TCP connection in this network, as (address, port) in `seen`."""

    def __init__(self):
        self.seen, self.stop = [], False
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))  # all protocols
        self.socket.bind(("lo", 0))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        self.socket.settimeout(POLL)
        while not self.stop:
            try:
                packet, about = self.socket.recvfrom(65536)
            except TimeoutError:
                continue
            if about[2] == socket.PACKET_OUTGOING:
                self.note(packet)

    def note(self, p):
        if p[0] >> 4 == 4 and p[9] == socket.IPPROTO_TCP:
            at, to = (p[0] & 15) * 4, socket.inet_ntop(socket.AF_INET, p[16:20])
        elif p[0] >> 4 == 6 and p[6] == socket.IPPROTO_TCP:
            at, to = 40, socket.inet_ntop(socket.AF_INET6, p[24:40])
        else:
            return
        if p[at + 13] & 0x12 == 0x02:  # a SYN without ACK opens a connection
            self.seen.append((to, struct.unpack_from(">H", p, at + 2)[0]))

    def drops(self):
        """Returns the number of packets that the kernel dropped before this class could read them."""
        return struct.unpack("II", self.socket.getsockopt(263, 6, 8))[1]  # SOL_PACKET, PACKET_STATISTICS


class Names:
    """A name server on 127.0.0.1:53. answer(name, n) returns the addresses for the n-th question
    about a name, or None if the name does not exist. Questions are counted separately for each
    type.
    """

    def __init__(self, answer, ttl=0):
        self.answer, self.ttl, self.asked = answer, ttl, {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1").lower())
                at += 1 + query[at]
            kind = struct.unpack_from(">H", query, at + 1)[0]
            name = ".".join(labels)
            n = self.asked[(name, kind)] = self.asked.get((name, kind), 0) + 1
            family, length = (socket.AF_INET6, 16) if kind == 28 else (socket.AF_INET, 4)
            addresses = self.answer(name, n) if kind in (1, 28) else None
            records = [socket.inet_pton(family, a) for a in addresses or [] if (":" in a) == (kind == 28)]
            flags = 0x8180 if addresses is not None else 0x8183  # NXDOMAIN
            out = query[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + query[12:at + 5]
            for r in records:
                out += struct.pack(">HHHIH", 0xc00c, kind, 1, self.ttl, length) + r
            self.socket.sendto(out, peer)


def settle(watch):
    """Waits until `watch` has read all packets sent so far: opens a connection and waits until it
    is noted.
    """
    with socket.socket() as s:
        port = 1 + len(watch.seen) % 1000
        s.connect_ex(("192.0.2.255", port))
    end = time.monotonic() + 10
    while ("192.0.2.255", port) not in watch.seen and time.monotonic() < end:
        time.sleep(POLL)
    watch.seen.remove(("192.0.2.255", port))
