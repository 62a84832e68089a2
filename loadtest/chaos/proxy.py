"""proxy.py: a TCP proxy that causes faults: it cuts connections, delays bytes, and loses the
answers to operations that the server has done.

  p = Proxy(("127.0.0.1", 6379)); p.port
  p.cut()                       # cuts all connections now
  p.late(0.2, 2.0)              # delays every chunk by 0.2 s, for 2 s
  p.lose_answer()               # drops the next bytes from the server and cuts that connection
  p.refuse(1.5)                 # cuts all connections and accepts none for 1.5 s

One thread serves all connections. The module needs only the standard library.
"""
import asyncio
import threading
import time


class Proxy:
    def __init__(self, target):
        self.target, self.links, self.delay, self.delay_until, self.refuse_until = target, set(), 0.0, 0.0, 0.0
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        self.port = None

        def run():
            asyncio.set_event_loop(self.loop)
            server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            self.loop.run_forever()

        threading.Thread(target=run, daemon=True).start()
        ready.wait()

    def call(self, function):
        self.loop.call_soon_threadsafe(function)

    def cut(self):
        self.call(lambda: [link.abort() for link in list(self.links)])

    def late(self, delay, seconds):
        self.delay, self.delay_until = delay, time.monotonic() + seconds

    def refuse(self, seconds):
        self.refuse_until = time.monotonic() + seconds
        self.cut()

    def lose_answer(self, links=1):
        def mark():
            for link in sorted(self.links, key=lambda link: -link.last)[:links]:
                link.losing = True
        self.call(mark)

    def heal(self):
        self.delay_until = self.refuse_until = 0.0
        self.call(lambda: [setattr(link, "losing", False) for link in self.links])

    async def serve(self, reader, writer):
        if time.monotonic() < self.refuse_until:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, writer, far_writer)
        self.links.add(link)
        await asyncio.gather(link.pump(reader, far_writer, False), link.pump(far_reader, writer, True))
        self.links.discard(link)


class Link:
    def __init__(self, proxy, near, far):
        self.proxy, self.near, self.far, self.losing, self.last = proxy, near, far, False, 0.0

    def abort(self):
        self.near.transport.abort()
        self.far.transport.abort()

    async def pump(self, reader, writer, answer):
        try:
            while data := await reader.read(1 << 16):
                self.last = time.monotonic()
                if answer and self.losing:
                    break
                if self.last < self.proxy.delay_until:
                    await asyncio.sleep(self.proxy.delay)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        self.abort()
