"""browser.py: drives a page in headless Chromium by the DevTools protocol over two pipes. A message
is JSON and ends with a NUL.

  page = Browser(case).open("http://127.0.0.1:8000/")
  page.value("document.title")

Standard library only. Raises Skipped on a machine without Chromium.
"""
import base64
import json
import os
import shutil
import subprocess
import threading

from harness import SLOW, Failed, Process, Skipped, check

NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser(Process):
    def __init__(self, case):
        program = next((p for p in map(shutil.which, NAMES) if p), None)
        if not program:
            raise Skipped("no chromium here: scripts/setup test installs it")
        super().__init__(case, "chromium", program)
        self.profile = case.name("profile")
        self.session, self.n, self.answers, self.arrived = None, 0, {}, threading.Condition()

    def start(self):
        """Starts Chromium with --no-sandbox, because root and containers have no sandbox. It opens
        only pages of the tests.
        """
        theirs, ours = os.pipe()
        answers, out = os.pipe()
        # Chromium reads commands from file descriptor 3 and answers on 4. bash moves the pipes to
        # these descriptors; other shells know no descriptors above 9.
        self.spawn_through_shell(theirs, out)
        os.close(theirs)
        os.close(out)
        self.to = os.fdopen(ours, "wb", 0)
        threading.Thread(target=self.read, args=(os.fdopen(answers, "rb"),), daemon=True).start()
        return self

    def spawn_through_shell(self, commands, answers):
        args = [self.program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
                f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", *args], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, pass_fds=(commands, answers))

    def read(self, f):
        rest = b""
        while chunk := f.read1(1 << 16):
            *whole, rest = (rest + chunk).split(b"\0")
            with self.arrived:
                for text in whole:
                    message = json.loads(text)
                    if "id" in message:
                        self.answers[message["id"]] = message
                self.arrived.notify_all()
        with self.arrived:
            self.answers[-1] = None  # Chromium has ended
            self.arrived.notify_all()

    def call(self, method, **params):
        self.n += 1
        n = self.n
        message = {"id": n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        with self.arrived:
            check(self.arrived.wait_for(lambda: n in self.answers or -1 in self.answers, 30 * SLOW), f"no answer to {method}")
            check(n in self.answers, "chromium has ended")
            answer = self.answers.pop(n)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url):
        target = self.call("Target.createTarget", url=url)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        return self

    def at_start(self, script):
        """Runs a script in each page that is opened from now on, before the page's own scripts."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def go(self, url):
        self.call("Page.navigate", url=url)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def press(self, key, code):
        """Presses and releases a key, such as ("Tab", 9)."""
        more = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path):
        """Writes what the page shows to a WebP."""
        data = self.call("Page.captureScreenshot", format="webp", quality=80)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def reload(self):
        self.call("Page.reload")

    def value(self, expression):
        """Returns the value of a JavaScript expression in the page, or None while the page loads."""
        try:
            result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        except Failed as e:
            if "context" in str(e):
                return None
            raise
        return result["result"].get("value")
