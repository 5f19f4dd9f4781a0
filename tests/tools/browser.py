"""A headless Chromium that is spoken to through a pipe (the DevTools protocol), without any module beyond Python's own."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SECONDS = 300  # without an answer, after which the browser counts as hanging


def find():
    """Path of a Chromium; None if there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab. events: everything that the browser reported, as (method, parameters)."""

    def __init__(self, browser):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # its helpers may still write
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()

        def place():  # the browser reads from file descriptor 3 and writes to 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [browser, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--disable-background-networking", f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def message(self):
        end = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            if not select.select([self.read], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.read, 1 << 16)
            if not more:
                raise EOFError("the browser ended")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, **parameters):
        """The result of a command."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))

    def open(self, path, width, height, phone=False):
        """Loads a file in a window of that size and waits until it and its pictures are there."""
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not any(method == "Page.loadEventFired" for method, _ in self.events):
            answer = self.message()
            if "method" in answer:
                self.events.append((answer["method"], answer["params"]))

    def value(self, script):
        """What the expression is in the page, a promise awaited."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def screenshot(self, path, whole=True):
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]))

    def print(self, path):
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.folder.cleanup()
