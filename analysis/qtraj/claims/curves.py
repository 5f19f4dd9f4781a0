"""Estimates that claims are about, one a run."""

import numpy as np

from qtraj.claims.claim import Found, over_columns, over_runs
from qtraj.claims.data import IMITATIONS, Data, Run
from qtraj.cube import paired
from qtraj.cube.trajectories import families

LEAST_POINTS = 3  # of a slope
LEAST_CORRELATED = 5  # of a correlation
SAME_TOKENS = 0.05  # relative: tokens that count as equal


def mean_of(values, errors=None):
    """The mean over cells and the mean of their errors, since cells share their text; (NaN, NaN) of none."""
    values = np.asarray(values, float)
    good = np.isfinite(values)
    if not good.any():
        return np.nan, np.nan
    return values[good].mean(), np.asarray(errors, float)[good].mean() if errors is not None else np.nan


def quantized(run: Run) -> np.ndarray:
    """Places of the cells of methods that quantize."""
    return np.array([i for i, cell in enumerate(run.cells) if not cell[0].startswith(IMITATIONS)], int)


def slope(x, y, groups):
    """Least-squares slope of y on x with a constant for each group; NaN where there is too little."""
    good = np.isfinite(x) & np.isfinite(y)
    x, y, groups = x[good], y[good], groups[good]
    at = np.unique(groups, return_inverse=True)[1] if len(x) else np.array([], int)
    count = np.maximum(np.bincount(at), 1) if len(x) else np.ones(1)
    x, y = (v - (np.bincount(at, v) / count)[at] if len(x) else v for v in (x, y))
    if len(x) < LEAST_POINTS or not (x**2).sum() > 1e-12:
        return np.nan
    return (x @ y) / (x @ x)


def mean_slope(run, rows, cells, groups=None, values=None):
    """The mean over cells of the slope of ln(relative error), or of other values, on ln(tokens) over these rows."""
    x, values = np.log(run.tokens[rows]), run.error if values is None else values
    groups = np.zeros(len(rows)) if groups is None else groups
    return mean_of([slope(x, values[rows, c], groups) for c in cells])[0]


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


def slope_while_constant(run):
    return mean_slope(run, np.flatnonzero(run.constant), quantized(run)), np.nan


def slope_while_decaying(run):
    rows, labels = decays(run)
    return (mean_slope(run, rows, quantized(run), labels) if len(rows) else np.nan), np.nan


def difference_of_slopes(run):
    return slope_while_decaying(run)[0] - slope_while_constant(run)[0], np.nan


def ends(run):
    """The last row of each decay."""
    return [np.flatnonzero((run.model == model) & run.decaying)[-1] for model in dict.fromkeys(run.model[run.decaying])]


def branch_against_main(run):
    """ln(relative error) of a branch's end minus that of the run it left, at its greatest rate and equal tokens."""
    main, found = np.flatnonzero(run.constant & (run.model == run.name)), []
    for end in ends(run):
        x = np.log(run.tokens[main])
        if run.model[end] == run.name or len(main) < 2 or not run.tokens[main[0]] <= run.tokens[end] <= run.tokens[main[-1]]:
            continue
        cells = quantized(run)
        at = np.array([np.interp(np.log(run.tokens[end]), x, run.error[main, c]) for c in cells])
        near = main[np.clip(np.searchsorted(x, np.log(run.tokens[end])) + [-1, 0], 0, len(main) - 1)]
        noise = run.noise[near][:, cells].max(axis=0)
        found.append(mean_of(run.error[end, cells] - at, np.hypot(run.noise[end, cells], noise)))
    return tuple(np.mean(found, axis=0)) if found else (np.nan, np.nan)


def slope_of_ends(run):
    rows = np.array(ends(run), int)
    return (mean_slope(run, rows, quantized(run)) if len(rows) else np.nan), np.nan


def growth_with_tokens(run):
    """Slope of ln(added loss) on ln(tokens) over all checkpoints of the run, each branch with a constant of its own."""
    values = run.error + np.log(np.where(run.loss > 0, run.loss, np.nan))
    rows = np.flatnonzero(run.constant | run.decaying)
    return mean_slope(run, rows, quantized(run), run.model[rows], values), np.nan


def fall_with_bits(run):
    """Slope of ln(added loss) on ln(bits), with a constant for each checkpoint, method and text."""
    cells = quantized(run)
    values = (run.error + np.log(np.where(run.loss > 0, run.loss, np.nan)))[:, cells]
    bits = np.broadcast_to(np.log([run.cells[c][1] for c in cells]), values.shape)
    other = np.unique([f"{run.cells[c][0]}/{run.cells[c][2]}" for c in cells], return_inverse=True)[1]
    groups = np.arange(len(values))[:, None] * (other.max(initial=0) + 1) + other[None]
    return slope(bits.ravel(), values.ravel(), groups.ravel()), np.nan


def correlation(x, y):
    good = np.isfinite(x) & np.isfinite(y)
    if good.sum() < LEAST_CORRELATED or not np.ptp(x[good]) > 0 or not np.ptp(y[good]) > 0:
        return np.nan
    return np.corrcoef(x[good], y[good])[0, 1]


def correlated_with(name):
    """Pearson's correlation of ln(relative error) with the logarithm of what was measured, over a run's checkpoints; mean over cells."""

    def of_run(run):
        rows, values = np.flatnonzero(run.constant | run.decaying), run.measured[name]
        return mean_of([correlation(values[rows, c] if values.ndim == 2 else values[rows], run.error[rows, c]) for c in quantized(run)])[0], np.nan

    return of_run


def agreement_over(place):
    """Correlation over a run's checkpoints between cells that differ in one thing alone: 0 the method, 2 the text."""

    def of_run(run):
        rows, cells, found = np.flatnonzero(run.constant | run.decaying), quantized(run), []
        for i, one in enumerate(cells):
            for two in cells[i + 1:]:
                a, b = run.cells[one], run.cells[two]
                if a[place] != b[place] and all(a[k] == b[k] for k in range(3) if k != place):
                    found.append(correlation(run.error[rows, one], run.error[rows, two]))
        return mean_of(found)[0], np.nan

    return of_run


def imitation(kind):
    """Slope of ln(relative error) on ln(tokens) of gptq minus that of changes of its norm that are noise, permuted or flipped: `noise`, or
    `noise-x` beside `gptq-x`."""

    def of_run(run):
        rows, found = np.flatnonzero(run.constant | run.decaying), []
        for c, cell in enumerate(run.cells):
            if cell[0].startswith(kind):
                base = [i for i, other in enumerate(run.cells) if other[0] == cell[0].replace(kind, "gptq", 1) and other[1:] == cell[1:]]
                found += [mean_slope(run, rows, [i], run.model[rows]) - mean_slope(run, rows, [c], run.model[rows]) for i in base]
        return mean_of(found)[0], np.nan

    return of_run


def each_run(of_run):
    """The claim's estimate from one value a run."""
    return lambda data: over_runs([of_run(run) for run in data.runs])


# --- what compares runs ---


def last_errors(data):
    """Runs with the mean of ln(relative error) of the cells that all have, at their last checkpoint; none where no cell is common."""
    last = [(run, run.line(run.name)[-1]) for run in data.runs if len(run.line(run.name))]
    common = set.intersection(*({run.cells[c] for c in quantized(run) if np.isfinite(run.error[row, c])} for run, row in last)) if last else set()
    return [(run, row, [run.cells.index(cell) for cell in sorted(common)]) for run, row in last] if common else []


def over_last(x_of, value_of=lambda run, row, cells: run.error[row, cells].mean()):
    """The slope of ln(relative error) at the end of runs on x_of(data, run), with sizes and tokens held fixed."""

    def measure(data: Data) -> Found:
        rows = [(value_of(*one), x_of(data, one[0]), np.log(one[0].parameters), np.log(one[0].tokens[one[1]])) for one in last_errors(data)]
        table = np.array([row for row in rows if np.isfinite(row).all()], float).reshape(-1, 4)
        if len(table) < 4 or np.ptp(table[:, 1]) < 1e-9:
            return Found(n=len(table))
        return over_columns(table[:, 0], table[:, 1], [one for one in table[:, 2:].T if not np.allclose(one, table[:, 1])])

    return measure


def ln_peak(_, run):
    return np.log(run.peak) if run.peak > 0 else np.nan


def ln_parameters(_, run):
    return np.log(run.parameters)


def added_loss(run, row, cells):
    """The mean of ln(added loss)."""
    return (run.error[row, cells] + np.log(run.loss[row, cells])).mean()


def matched(data: Data) -> Found:
    """The slope on ln(peak rate) of ln(relative error) interpolated at the lowest full-precision loss that all runs reach."""
    rows = last_errors(data)
    if len(rows) < 4:
        return Found(n=len(rows))
    cells = rows[0][2]
    names = [rows[0][0].cells[c] for c in cells]
    target = {name: max(np.nanmin(run.loss[run.line(run.name), run.cells.index(name)]) for run, _, _ in rows) for name in names}
    values = []
    for run, _, _ in rows:
        line = run.line(run.name)
        line = line[(run.constant | run.decaying)[line]]
        at = []
        for name in names:
            loss, error = (v[line, run.cells.index(name)] for v in (run.loss, run.error))
            order = np.argsort(loss)
            at.append(np.interp(target[name], loss[order], error[order]) if len(line) else np.nan)
        values.append((np.mean(at), ln_peak(data, run), np.log(run.parameters)))
    table = np.array([row for row in values if np.isfinite(row).all()], float).reshape(-1, 3)
    if len(table) < 4 or np.ptp(table[:, 1]) < 1e-9:
        return Found(n=len(table))
    return over_columns(table[:, 0], table[:, 1], [table[:, 2]])


def column(name, share=lambda value: float(value)):
    """A column of the trajectory tables, one value a run; NaN where the cube has none."""

    def of_run(data, run):
        cube = data.cube
        if cube is None or name not in cube.variables or run.name not in cube.model.values or "model" not in cube[name].dims:
            return np.nan
        values = np.atleast_1d(cube[name].sel(model=run.name).values)
        known = [value for value in values if value == value and str(value)]
        return share(known[-1]) if known else np.nan

    return of_run


def is_cosine(value):
    return float("cos" in str(value).lower())


# --- averages ---


def averages(against, quantity):
    """Of each family the mean over its averages of a change: of ln(relative error) (`relative`), of the quantized loss (`loss`) or of
    that in full precision (`full`), minus that of the last member or of the end of a cooldown at equal tokens (`against`)."""

    def measure(data: Data) -> Found:
        if data.cube is None or "loss_relative" not in data.cube:
            return Found()
        return over_runs([mean_of(*zip(*found)) for group in families(data.cube, averages=True)
                          if (found := [value for line in group if line.average for value in changes(data.cube, group, line, against, quantity)])])

    return measure


def other_place(group, line, against):
    """Model and place of what the line's last average is compared with; None: there is nothing."""
    if against == "member":
        places = paired.last_member(line)
        return places and (line.model, places[1])
    near = [other for other in group if not other.average and other.parent is not None and abs(other.at[-1] / line.at[-1] - 1) <= SAME_TOKENS]
    return (near[0].model, near[0].places[-1]) if near else None


def changes(cube, group, line, against, quantity):
    other = other_place(group, line, against)
    if other is None:
        return
    at = [cube.sel(model=model).isel(checkpoint=place) for model, place in ((line.model, line.places[-1]), other)]
    if quantity == "full":
        values, errors = ([one[name].values.ravel() for one in at] for name in ("baseline_loss", "baseline_loss_stderr"))
    else:
        there = [i for i, name in enumerate(map(str, cube.quantizer.values)) if not name.startswith(IMITATIONS)]
        at = [one.isel(quantizer=there) for one in at]
        values = [one["loss_relative" if quantity == "relative" else "loss"].values.ravel() for one in at]
        errors = [one["loss_relative_stderr" if quantity == "relative" else "loss_delta_stderr"].values.ravel() for one in at]
        if quantity == "relative":
            errors = [error / value for value, error in zip(values, errors)]
            values = [np.log(np.where(value > 0, value, np.nan)) for value in values]
    yield mean_of(values[0] - values[1], np.hypot(*errors))
