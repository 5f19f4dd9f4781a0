# The Spack recipe and the Apptainer definition, as far as they can be checked without Spack and Apptainer: the recipe runs against
# stand-ins of Spack's functions and names the packages that docs/install.md names; the definition's scripts parse, and name scripts,
# presets and targets that exist. No package is installed.
. "$SOURCE/tests/tools/lib.sh"
need_python json
cd "$SOURCE" || exit 2

mkdir -p "$work/spack"
cat >"$work/spack/__init__.py" </dev/null
cat >"$work/spack/package.py" <<'PY'
needs = []
class CMakePackage: pass
def version(name, **how): pass
def generator(name): pass
def depends_on(spec, **how): needs.append(spec.split("@")[0].split()[0])
PY
PYTHONPATH=$work "$python" - jobs/spack/packages/qtraj/package.py docs/install.md <<'PY' || fail "the recipe"
import re, runpy, sys
from pathlib import Path
found = runpy.run_path(sys.argv[1])
import spack.package
text = Path(sys.argv[2]).read_text()
wanted = re.search(r"^spack install (.*)$", text, re.M)[1].replace("+hl", "").split()
known = {"openmpi": "mpi", "zlib": "zlib-api"}
missing = [name for name in wanted if known.get(name, name) not in spack.package.needs]
assert not missing, f"docs/install.md names {missing}, the recipe does not"
root = Path(found["Qtraj"].git[len("file://"):])
assert (root / "CMakeLists.txt").samefile("CMakeLists.txt"), root
PY

for section in post runscript test; do
    sed -n "/^%$section/,/^%/{/^%/!p}" jobs/qtraj.def >"$work/$section"
    [ -s "$work/$section" ] && bash -n "$work/$section" || fail "%$section of jobs/qtraj.def"
done
[ -x jobs/install.sh ] && grep -q '"name": "release"' CMakePresets.json || fail "what %post calls"
finish
