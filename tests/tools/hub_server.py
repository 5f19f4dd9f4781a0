"""A local hub: serves folders ROOT/OWNER/NAME/REVISION as the Hugging Face hub lays out models, for `hf download`.

usage: hub_server.py ROOT PORT_FILE LOG

It listens on a free port of 127.0.0.1, which it writes to PORT_FILE; each request is a line of LOG. The first download of each
weight file breaks off in the middle.
"""

import hashlib
import http.server
import json
import os
import pathlib
import sys
import urllib.parse

root, port_file, log = sys.argv[1:]
broken = set()


def commit_of(folder):
    return hashlib.sha1(str(folder.relative_to(root)).encode()).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        with open(log, "a") as out:
            print(self.command, self.path, self.headers.get("Range", ""), file=out)

    def answer(self, code, headers, body=b""):
        self.send_response(code)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def revision(self, owner, name, revision):
        """The folder of a revision, by its name or its commit."""
        model = pathlib.Path(root, owner, name)
        for folder in model.iterdir() if model.is_dir() else ():
            if revision in (folder.name, commit_of(folder)):
                return folder
        self.answer(404, {"X-Error-Code": "RevisionNotFound" if model.is_dir() else "RepoNotFound"})
        return None

    def info(self, folder, name):
        files = [{"rfilename": str(p.relative_to(folder))} for p in sorted(folder.rglob("*")) if p.is_file()]
        body = json.dumps({"_id": "1", "id": name, "modelId": name, "sha": commit_of(folder), "siblings": files, "private": False,
                           "tags": [], "downloads": 0, "likes": 0}).encode()
        self.answer(200, {"Content-Type": "application/json"}, body)

    def tree(self, folder):
        files = [{"type": "file", "path": str(p.relative_to(folder)), "size": p.stat().st_size, "oid": "0" * 40}
                 for p in sorted(folder.rglob("*")) if p.is_file()]
        self.answer(200, {"Content-Type": "application/json"}, json.dumps(files).encode())

    def file(self, folder, path):
        file = folder / path
        if not file.is_file():
            return self.answer(404, {"X-Error-Code": "EntryNotFound"})
        data = file.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit_of(folder), "Accept-Ranges": "bytes",
                   "Content-Length": len(data)}
        if self.command == "HEAD":
            return self.answer(200, headers)
        start = int(self.headers.get("Range", "bytes=0-").split("=")[1].split("-")[0])
        headers["Content-Length"] = len(data) - start
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if path.endswith(".safetensors") and file not in broken:
            broken.add(file)
            self.close_connection = True
            return self.answer(206 if start else 200, headers, data[start:start + (len(data) - start) // 2])
        return self.answer(206 if start else 200, headers, data[start:])

    def do_GET(self):
        parts = [urllib.parse.unquote(part) for part in urllib.parse.urlparse(self.path).path.strip("/").split("/")]
        api = parts[:2] == ["api", "models"]
        owner, name, what, revision = ((parts[2:6] if api else parts[:4]) + [""] * 4)[:4]
        folder = self.revision(owner, name, revision)
        if folder is None:
            return None
        if api and what == "revision":
            return self.info(folder, f"{owner}/{name}")
        if api and what == "tree":
            return self.tree(folder)
        return self.file(folder, "/".join(parts[4:]))

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
pathlib.Path(port_file + ".new").write_text(str(server.server_port))
os.rename(port_file + ".new", port_file)
server.serve_forever()
