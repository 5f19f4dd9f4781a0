#!/usr/bin/env bash
# The fits recover laws that points were made from, with intervals that hold as often as they say.
. "$SOURCE/tests/tools/lib.sh"
need_python numpy pandas scipy xarray h5netcdf

PYTHONPATH=$SOURCE/analysis "$python" - <<'PY' || fail "the fits"
import numpy as np
import pandas
import fits

SIZES = {"160M": 8.5e7, "410M": 3.0e8, "1B": 8.1e8, "2.8B": 2.5e9, "6.9B": 6.4e9, "12B": 1.13e10}
STEPS = np.array([512, 1e3, 2e3, 4e3, 8e3, 14e3, 24e3, 43e3, 71e3, 98e3])

def points_of(rng, noise):
    """The law of arXiv 2411.17691 with its published coefficients, and a learning rate that falls as a cosine."""
    rows = []
    for name, n in SIZES.items():
        for step in STEPS:
            d = step * 2097152
            for bits in (2, 3, 4):
                delta = 0.017 * d**0.5251 / (n**0.2261 * bits**5.4967) * np.exp(noise * rng.standard_normal())
                rate = 0.1 + 0.45 * (1 + np.cos(np.pi * step / 143e3))
                rows.append((name, f"step{int(step)}", n, d, bits, rate, 3.0, delta, 0.02 * delta, delta / 3))
    return pandas.DataFrame(rows, columns=["model", "checkpoint", "parameters", "tokens", "bits", "learning_rate", "loss",
                                           "delta", "delta_stderr", "relative"]).assign(
        quantizer="gptq", dataset="t", trace=np.nan, sharpness=np.nan, distance=np.nan)

truth = fits.PUBLISHED
exact = points_of(np.random.default_rng(0), 0)
law = fits.token_law(exact, draws=20)
robust = fits.token_law_robust(exact, law)
for fit in (law, robust):
    for name, value in truth.items():
        assert abs(fit.coefficients[name] - value) < 1e-6 * abs(value), (fit.name, name, fit.coefficients)
assert abs(fits.tokens_needed(law.coefficients, 8.1e8, 3, float(0.017 * 1e11**0.5251 / (8.1e8**0.2261 * 3**5.4967))) / 1e11 - 1) < 1e-9

inside = {"law": dict.fromkeys(truth, 0), "robust": dict.fromkeys(truth, 0)}
for k in range(200):
    points = points_of(np.random.default_rng(k + 1), 0.25)
    x, names = fits.design(points, [])
    coefficients, intervals, _ = fits.least_squares(x, np.log(points.delta.to_numpy()), names)
    for name, value in truth.items():
        inside["law"][name] += intervals[name][0] <= value <= intervals[name][1]
print("coverage of 95 % intervals:", {n: c / 2 for n, c in inside["law"].items()})
for name, count in inside["law"].items():
    assert 182 <= count <= 198, (name, count)

# points that are dropped are counted; what does not vary is said; one outlier moves the robust fit little
some = points_of(np.random.default_rng(5), 0.1)
some.loc[:4, "delta"] = -0.001
fit = fits.token_law(some, draws=20)
assert fit.n == len(some) - 5 and any(n.startswith("5 points whose added loss") for n in fit.notes), fit.notes
assert set(fit.measures["bootstrap over runs"]) == set(truth)
one = fits.token_law(some[some.model == "1B"].reset_index(drop=True), draws=20)
assert "alpha" not in one.coefficients and any(n.startswith("alpha is not fitted") for n in one.notes)
some = points_of(np.random.default_rng(6), 0.05)
some.loc[40, "delta"] *= 100
assert abs(fits.token_law_robust(some, fits.token_law(some, draws=20)).coefficients["gamma"] - truth["gamma"]) < 0.3

# tokens against learning rate: the partial effects that were put in, with fixed effects of every run
rng = np.random.default_rng(7)
rows = points_of(rng, 0)
greatest = rows.groupby("model").learning_rate.transform("max")
level = rows.model.map({name: i for i, name in enumerate(SIZES)})
rows["loss"] = 3 - 0.1 * np.log(rows.tokens / 1e9) + 0.05 * rng.standard_normal(len(rows))
rows["relative"] = np.exp(-7 + 0.5 * level + 0.1 * np.log(rows.tokens) - 0.8 * np.log(rows.learning_rate / greatest)
                          - rows.bits + 0.05 * rng.standard_normal(len(rows)))
fit = fits.tokens_or_rate(rows)
for name, value in (("ln tokens", 0.1), ("ln rate", -0.8), ("loss", 0)):
    low, high = fit.intervals[name]
    assert low - 0.02 <= value <= high + 0.02 and high - low < (1 if name == "loss" else 0.1), (name, fit.intervals)

# curvature predicts better than tokens where it is what the error comes from
rows["trace"] = np.exp(5 + 0.5 * rng.standard_normal(len(rows)))
rows["distance"] = np.exp(1 - 0.5 * rows.bits + 0.1 * rng.standard_normal(len(rows)))
rows["relative"] = 1e-4 * rows.trace * rows.distance**2 * np.exp(0.05 * rng.standard_normal(len(rows)))
score = fits.predictions(rows)
key = "rms error of ln(relative error)"
assert score["curvature"][key] < 0.08 < 0.3 < score["token law"][key], score

# the full-precision law
n, d = (rows[name].to_numpy() for name in ("parameters", "tokens"))
rows["loss"] = ((4.74e19 / n) ** (0.045 / 0.399) + 7.63e10 / d) ** 0.399
found = fits.full_precision_law(rows).coefficients
assert abs(found["alpha_D"] / 0.399 - 1) < 1e-3 and abs(found["alpha_N"] / 0.045 - 1) < 1e-3, found
PY

# the command: a table of published points, a wrong one, none
printf '# made up\nmodel,parameters,tokens,bits,delta\n' >"$work/points.csv"
for tokens in 1e9 4e9 1.6e10; do for bits in 2 3 4; do
    echo "a,1e8,$tokens,$bits,$("$python" -c "print(0.017 * $tokens**0.5 / (1e8**0.2 * $bits**5))")" >>"$work/points.csv"
done; done
"$python" "$SOURCE/analysis/fits.py" "$work/points.csv" >"$work/found" || fail "a table of points"
grep -q 'beta .* 0.5 ' "$work/found" || fail "$(cat "$work/found")"
"$python" "$SOURCE/analysis/fits.py" "$work/points.csv" --json | "$python" -m json.tool >/dev/null || fail "--json"
printf 'model,bits\na,3\n' >"$work/wrong.csv"
"$python" "$SOURCE/analysis/fits.py" "$work/wrong.csv" 2>"$work/err" && fail "a table without columns"
grep -q 'wrong.csv: no column parameters, tokens, delta' "$work/err" || fail "$(cat "$work/err")"
finish
