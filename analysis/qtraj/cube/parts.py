"""Results by the name that users have for them: the cube, its sweep file, or parts of a sweep that are not merged yet, which the program
merges into a file that goes when Python ends."""

import atexit
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

FOR_NOW = set()  # files that merged() has made


def program() -> "str | None":
    """The program of this checkout that was built last, else the one in PATH."""
    built = [path for path in pathlib.Path(__file__).resolve().parents[3].glob("build/*/qtraj") if os.access(path, os.X_OK) and path.is_file()]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else shutil.which("qtraj")


@functools.cache
def merged(folder: pathlib.Path) -> str:
    """The path of one cube of all parts in a folder, as far as they are. ValueError: they cannot be merged."""
    qtraj = program()
    if qtraj is None:
        raise ValueError(f"{folder}: parts that are not merged, and no program qtraj is built or in PATH: qtraj merge OUT.h5 {folder} makes the cube")
    made = tempfile.mkdtemp(prefix="qtraj-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    out = os.path.join(made, folder.name.removesuffix(".parts").removesuffix(".h5") + ".h5")
    done = subprocess.run([qtraj, "merge", out, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode > 1 or not os.path.isfile(out):
        raise ValueError((done.stderr.strip().splitlines() or [f"{folder}: not merged"])[-1])
    FOR_NOW.add(out)
    return out


def located(name: "str | os.PathLike") -> str:
    """The file of results: that of the name, of the key `results` of a sweep file, or of parts that are merged for it.

    >>> qtraj.cube.parts.located("one.h5")
    'one.h5'
    """
    path = pathlib.Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        found = re.search(r"^results:\s*[\"']?([^\"'#\n]+?)[\"']?\s*(#.*)?$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if found is None:
            raise ValueError(f"{path}: it has no key results")
        path = path.parent / found.group(1)
    folder = path if path.is_dir() else path.with_name(path.name.removesuffix(".journal").removesuffix(".h5") + ".h5.parts")
    return str(path) if path.is_file() and path.suffix != ".journal" or not folder.is_dir() else merged(folder.resolve())
