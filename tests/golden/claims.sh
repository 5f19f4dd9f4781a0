#!/usr/bin/env bash
# Claims on runs with known effects: intervals hold as often as they say, false claims are rarely supported; the command on cubes.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy pandas scipy statsmodels xarray h5netcdf
export PYTHONPATH=$SOURCE/analysis

"$python" "$SOURCE/tests/tools/check_claims.py" || fail "claims" # --long: 200 repetitions

claims() { "$python" -W error::UserWarning "$SOURCE/analysis/claims.py" "$@" >"$work/found" 2>"$work/err"; }
claims "$CUBES/averages.h5" --bits 2,3 --json || fail "a cube: $(cat "$work/err")"
"$python" - "$work/found" "$CUBES/averages.h5" <<'PY' || fail "the JSON: $(head -c 2000 "$work/found")"
import json, sys
found = {row["name"]: row for row in json.load(open(sys.argv[1]))}
average = found["average-error"]
assert average["n"] == 1 and average["low"] < average["estimate"] < average["high"] and average["interval over"] == "the text, of 1 run alone", average
assert average["command"] == f"analysis/claims.py {sys.argv[2]} --bits 2,3 --only average-error", average["command"]
assert found["weight-decay"]["verdict"] == "cannot tell" and found["weight-decay"]["estimate"] is None, found["weight-decay"]
PY
claims "$CUBES/two_models.h5" --quantizer gptq --only bits-lower || fail "one claim: $(cat "$work/err")"
grep -q 'growth of the added loss with ln(bits): -4\..* (2 runs: no interval; 64 errors)$' "$work/found" || fail "$(cat "$work/found")"
claims "$CUBES/changes.h5" --only cause-noise --json || fail "imitations: $(cat "$work/err")"
grep -q '"n": 1,' "$work/found" || fail "$(cat "$work/found")"
claims "$CUBES/averages.h5" --bits 2,3 --only average-error || fail "one run: $(cat "$work/err")"
grep -q 'of 1 run alone; 1 run; .* errors)$' "$work/found" && grep -q ': cannot tell$' "$work/found" || fail "one run: $(cat "$work/found")"
claims "$CUBES/odd.h5" --only bits-lower || fail "unfinished: $(cat "$work/err")"
head -n 1 "$work/found" | grep -q '^1 cell is pending, 1 failed; this is of the others:$' || fail "unfinished: $(cat "$work/found")"
echo "no cube" >"$work/no.h5"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/claims.py" >"$work/found" <<EOF || fail "$(cat "$work/found")"
"no.h5: not a results cube" $work/no.h5
"there is no claim nothing; there are decay-rises" $CUBES/one.h5 --only nothing
"--bits few: expected numbers" $CUBES/one.h5 --bits few
"no method is called nobody; there are rtn, gptq" $CUBES/one.h5 --quantizer nobody
EOF
finish
