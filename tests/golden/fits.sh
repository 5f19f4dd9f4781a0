#!/usr/bin/env bash
# The fits recover the coefficients that points were made from, with intervals that hold as often as they say; the command on
# tables and cubes; the texts of its figures.
. "$SOURCE/tests/tools/lib.sh"
: "${CUBES:?the cubes that golden.cubes has made}"
need_python h5py numpy pandas scipy statsmodels xarray h5netcdf matplotlib
export PYTHONPATH=$SOURCE/analysis

"$python" "$SOURCE/tests/tools/check_fits.py" || fail "the fits"
"$python" "$SOURCE/tests/tools/check_laws.py" || fail "laws that predict" # --long: 200 repetitions

fits() { "$python" -W error::UserWarning "$SOURCE/analysis/fits.py" "$@" >"$work/found" 2>"$work/err"; }

# a table of published points
printf '# made up\nmodel,parameters,tokens,bits,delta\n' >"$work/points.csv"
for tokens in 1e9 4e9 1.6e10; do for bits in 2 3 4; do
    echo "a,1e8,$tokens,$bits,$("$python" -c "print(0.017 * $tokens**0.5 / (1e8**0.2 * $bits**5))")" >>"$work/points.csv"
done; done
fits "$work/points.csv" || fail "a table of points: $(cat "$work/err")"
grep -q 'beta  *0\.5 .* 0\.5251$' "$work/found" || fail "$(cat "$work/found")"
grep -q 'alpha is not fitted: its variable has one value' "$work/found" || fail "$(cat "$work/found")"

# a cube of two runs and two branches: figures and JSON
cube=$CUBES/two_models.h5
fits "$cube" --figures "$work/figures" --draws 50 || fail "a cube: $(cat "$work/err")"
head -n 1 "$work/found" | grep -qx '128 points: 2 training runs, 4 with branches, 32 checkpoints' || fail "$(cat "$work/found")"
for name in token_law tokens_or_rate predictions; do
    [ -s "$work/figures/fit_$name.png" ] && [ -s "$work/figures/fit_$name.pdf" ] || fail "fit_$name was not drawn"
done
# forms that two bit-widths cannot tell apart: none is the best
grep -q '^  no form is the best: all predict equally well' "$work/found" && ! grep -q '(best)' "$work/found" || fail "forms: $(grep -A 6 'form of the law' "$work/found")"
[ ! -e "$work/figures/fit_full_precision.png" ] || fail "a law of two sizes was drawn"
fits "$cube" --json --draws 20 --quantizer gptq --bits 3 || fail "--json: $(cat "$work/err")"
"$python" - "$work/found" <<'PY' || fail "the JSON: $(head -c 2000 "$work/found")"
import json, sys
found = json.load(open(sys.argv[1]))
assert found["used"] == 32, found["used"]
law = found["token law"]["gptq, wikitext"]["logarithms"]
assert law["n"] == 32 and set(law["coefficients"]) == {"ln k", "beta"} and "HC3" in law["intervals"], law
assert found["tokens or learning rate"]["tokens and learning rate"]["intervals"]["checkpoints left out"]["ln rate"][0] < 0
PY

# a law in a file, and what it says
fits "$cube" --draws 20 --quantizer gptq --save "$work/fit.json" --form best || fail "--save: $(cat "$work/err")"
predict() { "$python" -W error::UserWarning "$SOURCE/analysis/predict.py" "$@" >"$work/found" 2>"$work/err"; }
predict "$work/fit.json" --tokens 1e10 --bits 3,4 --format csv || fail "predict.py: $(cat "$work/err")"
[ "$(wc -l <"$work/found")" = 3 ] && head -n 1 "$work/found" | grep -q 'delta,low,high,law_low,law_high,likelihood,level,trained,outside$' || fail "$(cat "$work/found")"
predict "$work/fit.json" --score "$cube" || fail "--score: $(cat "$work/err")"
grep -qx 'points: 64' "$work/found" || fail "the points of another method were scored: $(cat "$work/found")"
predict published --table --format json && grep -q '"tokens": 187251' "$work/found" || fail "--table: $(cat "$work/found" "$work/err")"
predict published --projection --figure "$work/figure.png" && [ -s "$work/figure.png" ] || fail "--projection: $(cat "$work/err")"
printf 'parameters,tokens,bits\n1e9,1e11,3\n7e9,1e13,3\n' >"$work/rows.csv"
predict published --map --rows "$work/rows.csv" --figure "$work/map.png" --width 3.3 --format csv && [ -s "$work/map.png" ] || fail "--map: $(cat "$work/err")"
grep -q ',undertrained$' "$work/found" && grep -q ',fully trained$' "$work/found" || fail "--map: $(head -n 3 "$work/found")"
predict published --parameters 1e9,7e9 --tokens 1e11,1e13 --bits 3,4 --format csv && [ "$(wc -l <"$work/found")" = 9 ] || fail "lists: $(cat "$work/found" "$work/err")"
cut -d, -f1-3 "$work/found" | grep -qx '7000000000.0,10000000000000.0,3.0' || fail "lists: $(cat "$work/found")"
predict published --rows "$work/rows.csv" || fail "--rows: $(cat "$work/err")"
grep -q 'tokens 1e+13 (at most 2.06e+11)$' "$work/found" || fail "$(cat "$work/found")"
"$python" - "$work/fit.json" "$work/peak.json" "$work/rate.json" <<'CODE'
import json
import sys

law = json.load(open(sys.argv[1]))
law["form"]["coefficients"].append("peak rate")
law["coefficients"]["peak rate"] = 0.0
law["ranges"]["peak_rate"] = [0.001, 0.006]
for name in ("covariance", "of runs"):
    if law.get(name):
        law[name] = [[*row, 0.0] for row in law[name]] + [[0.0] * (len(law[name]) + 1)]
law["draws"] = [[*row, 0.0] for row in law.get("draws") or []]
json.dump(law, open(sys.argv[2], "w"))
law["form"]["coefficients"][-1] = "rate"
law["coefficients"]["rate"] = law["coefficients"].pop("peak rate")
law["ranges"] |= {"learning_rate": [1e-4, 0.006], "rate": [0.1, 1.0]}
json.dump(law, open(sys.argv[3], "w"))
CODE
# a law of the rate over its peak compares with its points no other rate
predict "$work/rate.json" --tokens 1e10 --bits 3 --rate 0.5 --format csv && tail -n 1 "$work/found" | grep -q ',$' || fail "--rate 0.5: $(cat "$work/found" "$work/err")"
predict "$work/rate.json" --tokens 1e10 --bits 3 --rate 0.05 --format csv && tail -n 1 "$work/found" | grep -q ',rate 0.05 (at least 0.1)$' ||
    fail "--rate 0.05: $(cat "$work/found" "$work/err")"
printf 'parameters,tokens,bits\n1e9,1e9,3\n1e9,0,3\n' >"$work/zero.csv"
printf 'parameters,tokens,bits\n' >"$work/head.csv"
printf 'parameters,tokens,bits\n1e9,many,3\n' >"$work/word.csv"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/predict.py" >"$work/found" <<EOF || fail "$(cat "$work/found")"
"cannot tell others from it" $work/fit.json --parameters 7e9 --tokens 1e10 --bits 3
"the law needs parameters (8.506e+07 to 1.133e+10 at its points)" published --tokens 1e10 --bits 3
"the law needs peak_rate (0.001 to 0.006 at its points): the option of that name" $work/peak.json --tokens 1e10 --bits 3
"not a law that fits.py --save wrote" $work/points.csv --tokens 1e10 --bits 3
"what to predict" published
"--figure: of --projection and --map" published --table --figure $work/none.png
"--end: each goes with the other" published --ahead $cube
"it has no map over sizes" $work/fit.json --map
"--tokens 1e9,few: expected positive numbers" published --tokens 1e9,few --bits 3
"--bits 0: expected positive numbers" published --tokens 1e9 --bits 0
"--tokens inf: expected positive numbers" published --tokens inf --bits 3
"bits 17: expected more than 0, at most 16" $work/fit.json --tokens 1e10 --bits 17
"tokens -1: expected a positive number" $work/fit.json --tokens 1e10 --bits 3 --set tokens=-1
"--set trace: the law has no such column; it has tokens, bits" $work/fit.json --tokens 1e10 --bits 3 --set trace=-5
"--peak-rate 0: expected a positive number" $work/peak.json --tokens 1e10 --bits 3 --peak-rate 0
"peak_rate -1: expected a positive number" $work/peak.json --tokens 1e10 --bits 3 --set peak_rate=-1
"--rate 2: expected 0 to 1" $work/rate.json --tokens 1e10 --bits 3 --rate 2
"learning_rate -0.5: expected 0 to peak_rate (1)" $work/rate.json --tokens 1e10 --bits 3 --set learning_rate=-0.5
"--level 0: expected a positive number" published --map --level 0
"--width -1: expected a positive number" published --map --figure $work/none.png --width -1
"row 2: tokens 0: expected a positive number" published --rows $work/zero.csv
"no row to predict" published --rows $work/head.csv
"word.csv: column tokens, row 1 of the points: 'many' is not a number" published --rows $work/word.csv
"No such file or directory" published --projection --figure $work/none/none.png
"--set trace: expected a column and a number" published --set trace
EOF

# points that are too few: which variables they have, and how many it takes
PYTHONPATH=$SOURCE/analysis "$python" - "$CUBES/two_models.h5" <<'PY' || fail "too few points"
import sys
import qtraj
points = qtraj.points(sys.argv[1])
for fit in (qtraj.laws.compare_forms, qtraj.laws.predictions):
    try:
        fit(points[:7].reset_index(drop=True))
    except ValueError as error:
        assert "points with " in str(error) and "tokens" in str(error) and "12" in str(error), error
    else:
        raise AssertionError(fit.__name__)
PY

# bad input: one line that says what is wrong
printf 'model,bits\na,3\n' >"$work/wrong.csv"
printf 'model,parameters,tokens,bits,delta\na,1e8,1e9,3,0.1\na,1e8,many,3,0.1\n' >"$work/text.csv"
: >"$work/empty.csv"
echo "no cube" >"$work/no.h5"
"$python" "$SOURCE/tests/tools/refusals.py" "$SOURCE/analysis/fits.py" >"$work/found" <<EOF || fail "$(cat "$work/found")"
"wrong.csv: no column parameters, tokens, delta; a table of points has model, parameters, tokens, bits, delta" $work/wrong.csv
"text.csv: column tokens, row 2 of the points: 'many' is not a number" $work/text.csv
"empty.csv: not a table" $work/empty.csv
"no.csv" $work/no.csv
"no.h5: not a results cube" $work/no.h5
"no point has the quantizer awq; there are gptq, rtn" $cube --quantizer awq
"the law cannot tell other sizes from it" $cube --draws 0 --quantizer gptq --parameters 7e9
"--save: a law is of one quantizer; --quantizer chooses one of gptq, rtn" $cube --draws 0 --save $work/fit.json
"no point has these bits; there are 3, 4" $cube --bits 5
"--bits few: expected positive numbers" $cube --bits few
"--delta -1: expected a positive number" $cube --delta -1
"Not a directory" $cube --draws 0 --figures $work/no.h5/figures
EOF
finish
