#!/usr/bin/env bash
# The package qtraj of analysis/: installed by pip without a network, the examples of its documentation, several cubes as one.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy matplotlib pandas xarray h5netcdf scipy statsmodels jinja2

if "$python" -c 'from importlib.util import find_spec as f; assert f("pip") and f("setuptools") and f("wheel")' 2>/dev/null; then
    cp -r "$SOURCE/analysis" "$work/analysis"
    "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps --no-compile --disable-pip-version-check --root-user-action ignore \
        --target "$work/site" "$work/analysis" >"$work/pip" 2>&1 || fail "pip: $(cat "$work/pip")"
    for command in claims decide figures fits predict report; do
        [ -x "$work/site/bin/qtraj-$command" ] || fail "no command qtraj-$command was installed: $(ls "$work/site/bin")"
    done
    [ -s "$work/site/qtraj/report/report.html" ] || fail "not installed whole: $(find "$work/site" | head -n 50)"
    export PYTHONPATH=$work/site
else
    echo "no pip or setuptools here: nothing was installed"
    export PYTHONPATH=$SOURCE/analysis
fi
"$python" -W error::UserWarning "$SOURCE/tests/tools/check_package.py" "$CUBES" >"$work/found" 2>&1 || fail "$(tail -n 200 "$work/found")"
tail -n 1 "$work/found"
# the commands compute with one thread, or as many as the user says
threads() {
    env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS "$@" "$python" -c 'import os, sys
sys.path.insert(0, sys.argv[1])
import interpreter
import numpy
numpy.ones((300, 300)) @ numpy.ones((300, 300))
print(os.environ["OMP_NUM_THREADS"], os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))' "$SOURCE/analysis"
}
[ "$(threads)" = "1 1 1" ] || fail "threads: $(threads)"
[[ "$(threads OMP_NUM_THREADS=2)" == "2 2 "* ]] && [[ "$(threads OPENBLAS_NUM_THREADS=2)" == "1 2 "* ]] || fail "threads that were asked for: $(threads OMP_NUM_THREADS=2)"
finish
