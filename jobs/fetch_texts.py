#!/usr/bin/env python3
"""Writes the published calibration and evaluation texts as JSON lines that a sweep file can name.

    jobs/fetch_texts.py --dry-run                 list what would be downloaded; needs no network
    jobs/fetch_texts.py --out data                c4 and refinedweb, which the published sweeps use
    jobs/fetch_texts.py c4 --documents 128        one text, with another number of documents
    jobs/fetch_texts.py --from c4=FILE.json.gz    from a local copy of the hub's file, without network

Each text becomes OUT/NAME.jsonl with one {"FIELD": "..."} per line: the first documents of one file of its data set, in file
order (WikiText-2: one of all rows). OUT/texts.json records the origin and the digests of each text (SHA-256, and XXH128, which qtraj records, if
Python's xxhash is installed). A text that exists with the same origin and digest is not downloaded again, so you can restart
an interrupted run. Downloading needs the Python package huggingface_hub, reading parquet needs pyarrow.

Exit code 0: all texts exist; 2: bad arguments, a missing package, or a download or file that failed."""

import argparse
import fnmatch
import gzip
import hashlib
import itertools
import json
import os
import sys
import zlib

# `file` may be a pattern with one match, where a hub file's name ends in a digest.
TEXTS = {
    "c4": {
        "what": "calibration: the first documents of C4's second English training file, one document a sample",
        "repo": "allenai/c4",
        "file": "en/c4-train.00001-of-01024.json.gz",
        "field": "text",
        "documents": 1024,
        "sweep": "calibration: {{text: {path}, field: text, layout: document, length: none, min_length: 11, special_tokens: true}}",
    },
    "refinedweb": {
        "what": "evaluation: documents of RefinedWeb's first file, packed without separators",
        "repo": "tiiuae/falcon-refinedweb",
        "file": "data/train-00000-of-05534-*.parquet",
        "field": "content",
        "documents": 2000,  # about 5.4 million bytes: twice what a sweep draws
        "sweep": "evaluation: [{{name: refinedweb, text: {path}, field: content, length: 2048, bytes: 2700000, draw: 1}}]",
    },
    "wikitext2": {
        "what": "evaluation: the test part of WikiText-2, its rows joined by empty lines",
        "repo": "Salesforce/wikitext",
        "file": "wikitext-2-raw-v1/test-00000-of-00001.parquet",
        "field": "text",
        "documents": None,
        "join": "\n\n",
        "sweep": "evaluation: [{{name: wikitext2, text: {path}, field: text, layout: packed, length: 2048}}]",
    },
    "wikitext2-train": {
        "what": "calibration: the training part of WikiText-2, its rows joined by empty lines",
        "repo": "Salesforce/wikitext",
        "file": "wikitext-2-raw-v1/train-00000-of-00001.parquet",
        "field": "text",
        "documents": None,
        "join": "\n\n",
        "sweep": "calibration: {{text: {path}, field: text, layout: packed, length: 2048}}",
    },
    "fineweb-edu": {
        "what": "evaluation: the first documents of FineWeb-Edu's sample of 10 billion tokens",
        "repo": "HuggingFaceFW/fineweb-edu",
        "file": "sample/10BT/000_00000.parquet",
        "field": "text",
        "documents": 2000,
        "sweep": "evaluation: [{{name: fineweb-edu, text: {path}, field: text, layout: packed, length: 2048, bytes: 2700000, draw: 1}}]",
    },
    "c4-validation": {
        "what": "evaluation: the first documents of C4's first English validation file",
        "repo": "allenai/c4",
        "file": "en/c4-validation.00000-of-00008.json.gz",
        "field": "text",
        "documents": 2000,
        "sweep": "evaluation: [{{name: c4-validation, text: {path}, field: text, layout: packed, length: 2048, bytes: 2700000, draw: 1}}]",
    },
}
DEFAULT = ("c4", "refinedweb")
CHUNK = 1 << 20


class Failure(Exception):
    """A message for the user."""


def need(module, why):
    try:
        return __import__(module)
    except ImportError as error:
        raise Failure(f"{why} needs the Python package {module}: pip install {module}") from error


# --- origins ---


def download(text, revision):
    """Local path of the hub's file, and its revision. The hub's library resumes partial downloads."""
    hub = need("huggingface_hub", "downloading")
    try:
        commit = hub.HfApi().dataset_info(text["repo"], revision=revision).sha
        name = text["file"]
        if any(c in name for c in "*?["):
            files = hub.HfApi().list_repo_files(text["repo"], repo_type="dataset", revision=commit)
            found = sorted(fnmatch.filter(files, name))
            if len(found) != 1:
                raise Failure(f"{text['repo']}: {len(found)} files match {name}, expected one")
            name = found[0]
        path = hub.hf_hub_download(text["repo"], name, repo_type="dataset", revision=commit)
    except Failure:
        raise
    except Exception as error:  # the hub's library raises many types; show them all to the user
        raise Failure(f"{text['repo']}: {type(error).__name__}: {error}") from error
    return path, name, commit


def parquet_documents(path, field):
    need("pyarrow", f"{path}: parquet")
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    if field not in file.schema_arrow.names:
        raise Failure(f"{path}: no column {field}, only {', '.join(file.schema_arrow.names)}")
    for batch in file.iter_batches(batch_size=256, columns=[field]):
        yield from batch.column(0).to_pylist()


def line_documents(path, field):
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with (gzip.open if packed else open)(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line.decode("utf-8", errors="replace"))[field]
            except (ValueError, KeyError, TypeError) as error:
                raise Failure(f"{path}:{number}: no JSON object with the field {field} ({error})") from error


def documents(path, field):
    with open(path, "rb") as raw:
        is_parquet = raw.read(4) == b"PAR1"
    try:
        for number, text in enumerate((parquet_documents if is_parquet else line_documents)(path, field), 1):
            if not isinstance(text, str):
                raise Failure(f"{path}: document {number}: {field} is {type(text).__name__}, expected text")
            yield text
    except (EOFError, ValueError, zlib.error, OSError) as error:  # includes pyarrow's errors
        raise Failure(f"{path}: damaged or cut off: {error}") from error


# --- digests ---


def hashers():
    found = {"sha256": hashlib.sha256()}
    try:
        import xxhash

        found["xxh128"] = xxhash.xxh3_128()
    except ImportError:
        pass
    return found


def digests(path):
    found = hashers()
    with open(path, "rb") as file:
        while block := file.read(CHUNK):
            for hasher in found.values():
                hasher.update(block)
    return {name: hasher.hexdigest() for name, hasher in found.items()}


# --- output ---


def json_line(field, text):
    """One line of JSON; escaped only where UTF-8 has no encoding (half of a surrogate pair)."""
    try:
        return (json.dumps({field: text}, ensure_ascii=False) + "\n").encode("utf-8")
    except UnicodeEncodeError:
        return (json.dumps({field: text}) + "\n").encode("ascii")


def publish(path, write):
    """Calls write(file) on a temporary file beside path, which replaces path when complete."""
    part = f"{path}.part.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def write_text(text, source, path):
    rows = list(itertools.islice(documents(source, text["field"]), text["documents"]))
    if len(rows) < (text["documents"] or 1):
        raise Failure(f"{source}: {len(rows)} documents, expected {text['documents'] or 'some'}")
    if "join" in text:
        rows = [text["join"].join(rows)]
    publish(path, lambda file: file.writelines(json_line(text["field"], document) for document in rows))
    return {"lines": len(rows), "characters": sum(map(len, rows))}


def read_manifest(path):
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Failure(f"{path}: {error}; move it away to start anew") from error
    if not isinstance(manifest, dict):
        raise Failure(f"{path}: expected an object; move it away to start anew")
    return manifest


def is_there(entry, asked, path):
    """Whether the text was made from the requested source and has not changed since."""
    if not isinstance(entry, dict) or any(entry.get(key) != value for key, value in asked.items()):
        return False
    return os.path.isfile(path) and digests(path)["sha256"] == entry.get("sha256")


def fetch(name, text, options, manifest):
    path = os.path.join(options.out, f"{name}.jsonl")
    local = options.origins.get(name)
    asked = {key: text[key] for key in ("repo", "file", "field", "documents")}
    asked["asked_revision"] = options.revision
    asked["local"] = local
    if is_there(manifest.get(name), asked, path):
        print(f"{path}: there already", file=sys.stderr)
        return
    if local:
        source, file, commit = local, os.path.basename(local), None
    else:
        source, file, commit = download(text, options.revision)
    print(f"{path}: {text['documents'] or 'all'} documents of {source}", file=sys.stderr)
    counts = write_text(text, source, path)
    manifest[name] = {**asked, "source_file": file, "revision": commit, "source_sha256": digests(source)["sha256"]}
    manifest[name].update(counts, bytes=os.path.getsize(path), **digests(path))
    shown = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    publish(os.path.join(options.out, "texts.json"), lambda file: file.write(shown.encode("utf-8")))


def explain(name, text, options):
    path = os.path.join(options.out, f"{name}.jsonl")
    origin = options.origins.get(name) or f"hub data set {text['repo']} ({options.revision}), {text['file']}"
    print(f"{path}\n  {text['what']}\n  from {origin}\n  {'the first ' + str(text['documents']) if text['documents'] else 'all'} documents, field {text['field']}")


# --- command line ---


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def origin(text):
    name, equals, path = text.partition("=")
    if name not in TEXTS or not equals or not path:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE with a name of {', '.join(TEXTS)}, found {text}")
    return name, path


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(TEXTS)} ({', '.join(DEFAULT)})")
    parser.add_argument("--out", default="data", metavar="DIR", help="where the texts go (data)")
    parser.add_argument("--documents", type=positive, metavar="N", help="documents of each text (the protocol's)")
    parser.add_argument("--revision", default="main", help="branch, tag or commit of the data sets (main)")
    parser.add_argument("--from", dest="origins", action="append", type=origin, default=[], metavar="NAME=FILE",
                        help="take this copy of the hub's file (parquet, or JSON lines, plain or gzip)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be fetched")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in TEXTS:
            parser.error(f"{name}: unknown; the texts are {', '.join(TEXTS)}")
    options.origins = dict(options.origins)
    for name in options.origins:
        if options.names and name not in options.names:
            parser.error(f"--from {name}=...: {name} is not among the texts asked for")
    return options


def main(argv):
    options = parse(argv)
    chosen = {name: dict(text) for name, text in TEXTS.items() if name in (options.names or {*DEFAULT, *options.origins})}
    for name, text in chosen.items():
        text["documents"] = options.documents or text["documents"]
        if options.dry_run:
            explain(name, text, options)
    if options.dry_run:
        return 0
    try:
        os.makedirs(options.out, exist_ok=True)
        manifest = read_manifest(os.path.join(options.out, "texts.json"))
        for name, text in chosen.items():
            fetch(name, text, options, manifest)
    except (Failure, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("# for the sweep file")
    for name, text in chosen.items():
        path = os.path.abspath(os.path.join(options.out, f"{name}.jsonl"))
        print(text["sweep"].format(path=json.dumps(path)))  # a JSON string is valid YAML
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
