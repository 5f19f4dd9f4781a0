"""Estimates that claims are about, one a run."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from scipy import stats

from qtraj.claims.claim import Found, Value, over_columns, over_runs
from qtraj.claims.data import IMITATIONS, Data, Run
from qtraj.cube.activations import FULL
from qtraj.laws.regression import CLEAR

LEAST_POINTS = 3  # of a slope over checkpoints
LEAST_CORRELATED = 5  # of a correlation


def quantized(run: Run) -> np.ndarray:
    """Places of the cells of methods that quantize the weights and nothing else."""
    return np.array([i for i, cell in enumerate(run.cells) if not cell[0].startswith(IMITATIONS) and set(run.widths[i]) == {FULL}], int)


def with_inputs(run: Run, bits: int) -> np.ndarray:
    """Places of the cells that quantize the inputs of linears to so many bits and nothing else."""
    return np.array([i for i, cell in enumerate(run.cells) if cell[1] == FULL and run.widths[i] == (bits, FULL, FULL)], int)


# --- within a run ---


def clear(values, noise) -> bool:
    """Whether the mean of errors is CLEAR standard errors above zero. They share their text, so that the mean has their mean error;
    those that are unknown count as 0."""
    return len(values) > 0 and values.mean() > 0 and values.mean() >= CLEAR * np.nan_to_num(noise).mean()


def over_cells(found: "Sequence[Value]") -> Value:
    """The mean over cells and the mean of their standard errors, since cells share their text."""
    known = [one for one in found if np.isfinite(one.value)]
    counts = sum(one.points for one in known), sum(one.left_out for one in found)
    return Value(*(float(np.mean([one[k] for one in known])) for k in (0, 1)), *counts) if known else Value(left_out=counts[1])


def slope(x, y, groups):
    """Least-squares slope of y on x with a constant for each group; NaN where there is too little."""
    if len(x) < LEAST_POINTS:
        return np.nan
    at = np.unique(groups, return_inverse=True)[1]
    x, y = (v - (np.bincount(at, v) / np.bincount(at))[at] for v in (x, y))
    return (x @ y) / (x @ x) if (x**2).sum() > 1e-12 else np.nan


def growth(x, y, noise, groups, unit=None) -> Value:
    """The slope of errors y on x over the mean of y, or over that of the errors and noise `unit`: to first order the slope of ln y, but
    from errors of either sign. Left out where that mean is not clear of zero."""
    good = np.isfinite(x) & np.isfinite(y)
    count, found = int(good.sum()), slope(x[good], y[good], groups[good])
    values, noise = (np.asarray(one, float) for one in unit or (y[good], noise[good]))
    if not np.isfinite(found):
        return Value()
    return Value(found / values.mean(), points=count) if clear(values, noise) else Value(left_out=count)


def mean_growth(run, rows, cells, groups=None, added=False):
    """The mean over cells of the growth of the error, or of the added loss, with ln(tokens) over these rows."""
    x, groups = np.log(run.tokens[rows]), np.zeros(len(rows)) if groups is None else groups
    unit = run.loss if added else np.ones_like(run.error)
    return over_cells([growth(x, (run.error * unit)[rows, c], (run.noise * unit)[rows, c], groups) for c in cells])


def decays(run):
    """Rows of each decay, with the last checkpoint before it, and a label of the decay for each row."""
    rows, labels = [], []
    for model in dict.fromkeys(run.model):
        own = np.flatnonzero((run.model == model) & run.decaying)
        if len(own):
            before = np.flatnonzero(run.constant & (run.tokens < run.tokens[own[0]]))[-1:]
            rows += [*before, *own]
            labels += [model] * (len(before) + len(own))
    return np.array(rows, int), np.array(labels)


def growth_while_constant(run):
    return mean_growth(run, np.flatnonzero(run.constant), quantized(run))


def growth_while_decaying(run):
    rows, labels = decays(run)
    return mean_growth(run, rows, quantized(run), labels)


def growth_of_inputs_while_decaying(bits):
    """The same of the error of inputs of linears in so many bits."""

    def of_run(run):
        rows, labels = decays(run)
        return mean_growth(run, rows, with_inputs(run, bits), labels)

    return of_run


def growth_of_outliers_while_decaying(run):
    """Of the logarithm of the kurtosis, which has no noise but the text's."""
    rows, labels = decays(run)
    y = np.log(run.measured["outliers"][rows])
    good = np.isfinite(y)
    return Value(slope(np.log(run.tokens[rows])[good], y[good], labels[good]), points=int(good.sum())) if good.any() else Value()


def difference_of_growths(run):
    """Decay minus constant, both slopes over the mean of the error of all their checkpoints."""
    rows, labels = decays(run)
    constant, found = np.flatnonzero(run.constant), []
    for c in quantized(run):
        every = np.unique([*rows, *constant])
        every = every[np.isfinite(run.error[every, c])]
        unit = run.error[every, c], run.noise[every, c]
        one, two = (growth(np.log(run.tokens[at]), run.error[at, c], run.noise[at, c], groups, unit)
                    for at, groups in ((rows, labels), (constant, np.zeros(len(constant)))))
        found.append(Value(one.value - two.value, points=one.points + two.points, left_out=one.left_out + two.left_out))
    return over_cells(found)


def ends(run):
    """The last row of each decay."""
    return [np.flatnonzero((run.model == model) & run.decaying)[-1] for model in dict.fromkeys(run.model[run.decaying])]


def change(pair, noise) -> Value:
    """The second error minus the first over the mean of both, with its standard error: to first order that of their logarithms."""
    pair, noise = np.asarray(pair, float), np.asarray(noise, float)
    if not np.isfinite(pair).all():
        return Value()
    if not clear(pair, noise):
        return Value(left_out=2)
    return Value((pair[1] - pair[0]) / pair.mean(), np.hypot(*noise) / pair.mean(), 2)


def branch_against_main(run):
    """The error of a branch's end against that of the run it left, at its greatest rate and equal tokens: change()."""
    main, found = np.flatnonzero(run.constant & (run.model == run.name)), []
    for end in ends(run):
        x = np.log(run.tokens[main])
        if run.model[end] == run.name or len(main) < 2 or not run.tokens[main[0]] <= run.tokens[end] <= run.tokens[main[-1]]:
            continue
        near = main[np.clip(np.searchsorted(x, np.log(run.tokens[end])) + [-1, 0], 0, len(main) - 1)]
        found.append(over_cells([change((np.interp(np.log(run.tokens[end]), x, run.error[main, c]), run.error[end, c]),
                                        (run.noise[near, c].max(), run.noise[end, c])) for c in quantized(run)]))
    return over_cells(found)


def growth_of_ends(run):
    return mean_growth(run, np.array([end for end in ends(run) if run.ended[end]], int), quantized(run))


def growth_with_tokens(run):
    """Growth of the added loss with ln(tokens) over all checkpoints of the run, each branch with a constant of its own."""
    rows = np.flatnonzero(run.constant | run.decaying)
    return mean_growth(run, rows, quantized(run), run.model[rows], added=True)


def fall_with_bits(run):
    """Growth of the added loss with ln(bits), the mean over checkpoints, methods and texts that have several widths."""
    cells, found = quantized(run), []
    for other in dict.fromkeys((run.cells[c][0], run.cells[c][2]) for c in cells):
        of = [c for c in cells if (run.cells[c][0], run.cells[c][2]) == other]
        bits = np.log([run.cells[c][1] for c in of])
        for row in range(len(run.error)):
            good = np.isfinite(run.error[row, of])
            y, noise = ((one * run.loss)[row, of] for one in (run.error, run.noise))
            if good.sum() == 2:  # slope() asks for three points, of which two widths are
                bits2, y, noise = (np.repeat(one[good], 2) for one in (bits, y, noise))
                one = growth(bits2, y, noise, np.zeros(4))
                found.append(one._replace(points=one.points // 2, left_out=one.left_out // 2))
            else:
                found.append(growth(bits, y, noise, np.zeros(len(of))))
    return over_cells(found)


def correlation(x, y):
    """Spearman's."""
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() < LEAST_CORRELATED or not np.ptp(x[good]) > 0 or not np.ptp(y[good]) > 0:
        return np.nan
    return stats.spearmanr(x[good], y[good])[0]


def fisher(found, x, y, told) -> Value:
    """Fisher's transformation of the rank correlation of x and y, which spreads evenly over runs where the correlation, which ends at 1, does not; of n
    pairs less 1/n^2 of it, so that 1 has a value. told: whether the columns are told from noise; else it is left out."""
    count = int((np.isfinite(x) & np.isfinite(y)).sum())
    if not np.isfinite(found):
        return Value()
    return Value(float(np.arctanh(found * (1 - 1 / count**2))), points=count) if told else Value(left_out=count)


def told_apart(error, noise) -> bool:
    """Whether errors vary CLEAR times as much as their noise, which would hide a correlation."""
    known = np.isfinite(error)
    return known.any() and error[known].std() >= CLEAR * np.sqrt((np.nan_to_num(noise[known]) ** 2).mean())


def correlated(run, rows, cells, x, y) -> Value:
    """The rank correlation of two columns, transformed; left out where the errors of one of the cells hardly vary."""
    return fisher(correlation(x, y), x, y, all(told_apart(run.error[rows, c], run.noise[rows, c]) for c in cells))


def correlated_with(name):
    """Rank correlation of the relative error with what was measured, over a run's checkpoints; mean over cells."""

    def of_run(run):
        rows, values = np.flatnonzero(run.constant | run.decaying), run.measured[name]
        return over_cells([correlated(run, rows, [c], values[rows, c] if values.ndim == 2 else values[rows], run.error[rows, c]) for c in quantized(run)])

    return of_run


def agreement_over(place):
    """Rank correlation over a run's checkpoints between cells that differ in one thing alone: 0 the method, 2 the text."""

    def of_run(run):
        rows, cells, found = np.flatnonzero(run.constant | run.decaying), quantized(run), []
        for i, one in enumerate(cells):
            for two in cells[i + 1:]:
                a, b = run.cells[one], run.cells[two]
                if a[place] != b[place] and all(a[k] == b[k] for k in range(3) if k != place):
                    found.append(correlated(run, rows, [one, two], run.error[rows, one], run.error[rows, two]))
        return over_cells(found)

    return of_run


def beside(run, kind):
    """Places of the cells of `kind`, or `kind-x`, each with that of gptq, or `gptq-x`, of its width and text."""
    return [(c, i) for c, cell in enumerate(run.cells) if cell[0].startswith(kind) for i, other in enumerate(run.cells)
            if other[0] == cell[0].replace(kind, "gptq", 1) and other[1:] == cell[1:]]


def difference(one, two) -> Value:
    """The second value minus the first."""
    return Value(two.value - one.value, np.hypot(one.error, two.error), one.points + two.points, one.left_out + two.left_out)


def imitation(kind):
    """Growth of the error of gptq with ln(tokens) minus that of changes of its norm that are noise, permuted or flipped."""

    def of_run(run):
        rows = np.flatnonzero(run.constant | run.decaying)
        return over_cells([difference(*(mean_growth(run, rows, [at], run.model[rows]) for at in pair)) for pair in beside(run, kind)])

    return of_run


def decayed(kind):
    """What a decay changes of the error of a method, minus what it changes of that of gptq: change() from its first row to its last."""

    def of_run(run):
        rows, labels = decays(run)
        ends = [rows[labels == label][[0, -1]] for label in dict.fromkeys(labels) if (labels == label).sum() > 1]
        return over_cells([difference(*(change(run.error[at, c], run.noise[at, c]) for c in pair[::-1])) for at in ends for pair in beside(run, kind)])

    return of_run


def partial_correlation(x, y, given):
    """Spearman's of x and y with `given` held fixed: that of what ranks of x and y have beside a line in the ranks of `given`."""
    good = np.isfinite(x) & np.isfinite(y) & np.isfinite(given)
    if good.sum() <= LEAST_CORRELATED:
        return np.nan
    a, b, c = (stats.rankdata(one[good]) - (good.sum() + 1) / 2 for one in (x, y, given))
    if not c @ c > 0:
        return np.nan
    a, b = a - (a @ c) / (c @ c) * c, b - (b @ c) / (c @ c) * c
    size = np.sqrt((a @ a) * (b @ b))
    return a @ b / size if size > 1e-9 else np.nan


def same_cause(bits):
    """Partial rank correlation, given tokens, of the error of inputs and that of weights in so many bits, over a run's checkpoints and those
    of its branches, which have other rates at equal tokens; mean over methods and texts."""

    def of_run(run):
        rows, found = np.flatnonzero(run.constant | run.decaying), []
        for a in with_inputs(run, bits):
            for w in (c for c in quantized(run) if run.cells[c][1] == bits and run.cells[c][2] == run.cells[a][2]):
                one, two = run.error[rows, a], run.error[rows, w]
                told = all(told_apart(run.error[rows, c], run.noise[rows, c]) for c in (a, w))
                found.append(fisher(partial_correlation(one, two, run.tokens[rows]), one, two, told))
        return over_cells(found)

    return of_run


def each_run(of_run):
    """The claim's estimate from one value a run."""
    return lambda data: over_runs([of_run(run) for run in data.runs])


def as_correlation(found: Found) -> Found:
    """What was found of transformed correlations, as a correlation."""
    return replace(found, **{name: float(np.tanh(getattr(found, name))) for name in ("value", "low", "high")})


def each_correlation(of_run):
    """The mean of transformed correlations over runs and its interval, as correlations."""
    return lambda data: as_correlation(over_runs([of_run(run) for run in data.runs]))


def agreements_of_replicates(cube, group):
    """Of a family the place of each cell and replicate, and the transformed correlation of both errors, where there is one."""
    rows = [(line.model, place) for line in group for k, place in enumerate(line.places) if line.phase is None or line.phase[k] != "warmup"]
    if not rows:
        return
    model, place = (xr.DataArray(list(one), dims="row") for one in zip(*rows))
    error, noise, other = (cube[name].sel(model=model).isel(checkpoint=place).transpose("row", "bits", "quantizer", "dataset", ...).values
                           for name in ("loss_relative", "loss_relative_stderr", "loss_relative_replicate"))
    for b, m, d, r in np.ndindex(*other.shape[1:]):
        x, y = error[:, b, m, d], other[:, b, m, d, r]
        value = fisher(correlation(x, y), x, y, told_apart(x, noise[:, b, m, d]) and told_apart(y, noise[:, b, m, d]))
        if value.left_out or value.points:
            yield (b, m, d, r), value


def same_calibrations(data: Data) -> Found:
    """The rank correlation over a run's checkpoints between the errors after two calibrations: the cell's and a replicate's."""
    cube = data.cube
    if cube is None or "loss_relative_replicate" not in cube:
        return Found()
    found = []
    for groups in data.families():
        cells = {}  # from the first file that has it
        for group in groups:
            for place, value in agreements_of_replicates(cube, group):
                cells.setdefault(place, value)
        found.append(over_cells(list(cells.values())))
    return as_correlation(over_runs(found))


# --- what compares runs ---


def last_errors(data):
    """Runs with their last row, and the cells that all have there; none where no cell is common."""
    last = [(run, run.line(run.name)[-1]) for run in data.runs if len(run.line(run.name))]
    common = set.intersection(*({run.cells[c] for c in quantized(run) if np.isfinite(run.error[row, c])} for run, row in last)) if last else set()
    return [(run, row, [run.cells.index(cell) for cell in sorted(common)]) for run, row in last] if common else []


def across(errors, noise, columns) -> Found:
    """The slope of errors (runs, cells) on the first column with the others held fixed (over_columns). Each cell is divided by its mean
    over runs, and left out where that is not clear of zero; a run's value is the mean over cells: its logarithm where all runs are
    clear of zero, else the mean itself."""
    good = np.isfinite(columns).all(axis=1) & np.isfinite(errors).all(axis=1)
    errors, noise, columns = errors[good], np.nan_to_num(noise[good]), columns[good]
    kept = np.array([clear(one, of) for one, of in zip(errors.T, noise.T)], bool)
    counts = {"points": int(len(errors) * kept.sum()), "left_out": int(len(errors) * (~kept).sum())}
    if len(errors) < 4 or not kept.any() or np.ptp(columns[:, 0]) < 1e-9:
        return Found(n=len(errors), **counts)
    mean = errors[:, kept].mean(axis=0)
    value, error = (errors[:, kept] / mean).mean(axis=1), (noise[:, kept] / mean).mean(axis=1)
    logarithms = bool(((value > 0) & (value >= CLEAR * error)).all())
    found = over_columns(np.log(value) if logarithms else value, columns[:, 0],
                         [one for one in columns.T[1:] if not np.allclose(one, columns[:, 0])])
    return replace(found, logarithms=logarithms, **counts)


def over_last(x_of, added=False):
    """The slope of the error, or the added loss, at the end of runs on x_of(data, run), with sizes and tokens held fixed."""

    def measure(data: Data) -> Found:
        rows = last_errors(data)
        if not rows:
            return Found()
        errors, noise = (np.array([of(run)[row, cells] * (run.loss[row, cells] if added else 1.0) for run, row, cells in rows])
                         for of in (lambda run: run.error, lambda run: run.noise))
        return across(errors, noise, np.array([(x_of(data, run), np.log(run.parameters), np.log(run.tokens[row])) for run, row, _ in rows], float))

    return measure


def ln_peak(_, run):
    return np.log(run.peak) if run.peak > 0 else np.nan


def ln_parameters(_, run):
    return np.log(run.parameters)


def matched(data: Data) -> Found:
    """The slope on ln(peak rate) of the error interpolated at the lowest full-precision loss that all runs reach."""
    rows = last_errors(data)
    if not rows:
        return Found()
    names = [rows[0][0].cells[c] for c in rows[0][2]]
    target = {name: max(np.nanmin(run.loss[run.line(run.name), run.cells.index(name)]) for run, _, _ in rows) for name in names}
    errors, noise = (np.full((len(rows), len(names)), np.nan) for _ in range(2))
    for i, (run, _, _) in enumerate(rows):
        line = run.line(run.name)
        line = line[(run.constant | run.decaying)[line]]
        for k, name in enumerate(names if len(line) else []):
            c = run.cells.index(name)
            order = line[np.argsort(run.loss[line, c])]
            errors[i, k], noise[i, k] = (np.interp(target[name], run.loss[order, c], of[order, c]) for of in (run.error, run.noise))
    return across(errors, noise, np.array([(ln_peak(data, run), np.log(run.parameters)) for run, _, _ in rows], float))


def column(name, share=lambda value: float(value)):
    """A column of the trajectory tables, one value a run; NaN where the cube has none."""

    def of_run(data, run):
        cube = data.cube
        if cube is None or name not in cube.variables or "model" not in cube[name].dims:
            return np.nan
        values = np.ravel([cube[name].sel(model=model).values for model in map(str, cube.model.values) if data.name_of.get(model, model) == run.name])
        known = [value for value in values if value == value and str(value)]
        return share(known[-1]) if known else np.nan

    return of_run


def is_cosine(value):
    return float("cos" in str(value).lower())
