#!/usr/bin/env bash
# The one place that chooses a Python, for the scripts of jobs/ and analysis/, the tests and the jobs of `qtraj slurm`.
#   slurm/python.sh [MODULE...]
# Prints the path of the first interpreter that has the modules, by default those of analysis/: $PYTHON, .venv/bin/python beside this
# folder, python3, /usr/bin/python3. One that is not the first is named on stderr. Code 1 and the command that installs the modules:
# none has them. Sourced, it only names those modules.
python_modules="h5py numpy matplotlib xarray h5netcdf scipy statsmodels jinja2" # for pip
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

set -u
modules=${*:-$python_modules}
root=$(cd "$(dirname "$0")/.." && pwd)
first=
for python in ${PYTHON:+"$PYTHON"} "$root/.venv/bin/python" python3 /usr/bin/python3; do
    command -v "$python" >/dev/null || continue
    # looked for, not imported: that takes a second
    found=$("$python" -c 'import sys; from importlib.util import find_spec as find
all(map(find, sys.argv[1:])) or sys.exit(1)
print(sys.executable)' $modules 2>/dev/null) && break
    first=${first:-$python}
done
if [ -z "${found:-}" ]; then
    echo "no Python here has the modules $modules; PYTHON=PATH names another, or this installs them:" >&2
    echo "python3 -m venv '$root/.venv' && '$root/.venv/bin/pip' install $modules" >&2
    exit 1
fi
[ -z "$first" ] || echo "Python: $found, since $first lacks modules" >&2
echo "$found"
