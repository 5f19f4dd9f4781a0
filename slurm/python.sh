#!/usr/bin/env bash
# The one place that chooses a Python, for the scripts of jobs/, the tests and the jobs of `qtraj slurm`.
#   slurm/python.sh [MODULE...]
# Prints the path of the first interpreter that has the modules, by default those of analysis/: $PYTHON, python3, /usr/bin/python3,
# .venv/bin/python beside this folder. Code 1 and a message: none has them. Sourced, it only names those modules.
python_modules="h5py numpy matplotlib xarray h5netcdf scipy statsmodels jinja2" # for pip
[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

set -u
modules=${*:-$python_modules}
for python in ${PYTHON:+"$PYTHON"} python3 /usr/bin/python3 "$(dirname "$0")/../.venv/bin/python"; do
    # looked for, not imported: that takes a second
    found=$("$python" -c 'import sys; from importlib.util import find_spec as find
all(map(find, sys.argv[1:])) or sys.exit(1)
print(sys.executable)' $modules 2>/dev/null) && echo "$found" && exit
done
echo "no python3 here has the modules $modules; PYTHON=PATH names another" >&2
exit 1
