"""What a cube says of itself, in tables of texts: what was run, on which checkpoints and texts, what came out, what failed."""

import re
from dataclasses import dataclass, field

import numpy as np

from qtraj.cube.accuracy import with_errors
from qtraj.cube.files import NOT_ASKED, open_group
from qtraj.cube.points import points as points_of, states
from qtraj.cube.trajectories import compact, trajectories
from qtraj.figures.accuracy import DEGRADATION, FULL
from qtraj.predict import ahead, load
from qtraj.report import options

MISSING = "not recorded"
DASH = "–"
MOST_COLUMNS = 8  # of relative errors in one table, unless a bit-width alone has more
MOST_FAILURES = 60  # listed; the others are counted
FLIPPED = 0.05  # McNemar's p below which a task counts


@dataclass
class Table:
    """rows: lists of texts as long as head; the first column names the row. groups: pairs of a text and how many columns of
    the head it stands over."""

    head: list
    rows: list
    caption: str = ""
    groups: list = field(default_factory=list)
    note: str = ""


def number(value, form=".4g"):
    return DASH if value is None or not np.isfinite(value) else format(value, form)


def step_text(step):
    """All digits of a step."""
    return f"{step:,.0f}" if step == round(step) else f"{step:,.10g}"


def exact_names(cube, line):
    """The step of each checkpoint with all digits, else its name; the name behind it where two have one step."""
    steps, names = line.own(cube.step), [str(name) for name in line.own(cube.checkpoint_name)]
    if not np.isfinite(steps).all():
        return names
    texts = [step_text(step) for step in steps]
    return [f"{text} ({name})" if texts.count(text) > 1 else text for text, name in zip(texts, names)]


def between(values, show=compact):
    """The smallest and the largest of the values that are known."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return DASH
    low, high = show(values.min()), show(values.max())
    return low if low == high else f"{low} to {high}"


def with_error(value, error, most=8):
    """A number and its error, with two digits of an error that begins with 1 or 2, else with one."""
    if not np.isfinite(value):
        return DASH
    if not np.isfinite(error) or error <= 1e-6 * abs(value):  # none, or of rounding
        return f"{value:.4g}"
    power = np.floor(np.log10(error))
    digits = int(np.clip((1 if error < 3 * 10**power else 0) - power, 0, most))
    shown = f"{value:.{digits}f}"
    return f"{shown if float(shown) else shown.lstrip('-')} ± {error:.{digits}f}".replace("-", "−")


# --- what was run ---


def commands_of(runs):
    """The commands of runs "START HOST COMMAND", parts of one cut together: qtraj run x.yaml --part 1/2, 2/2."""
    cuts = {}
    for run in sorted(runs):
        command = run.split(" ", 2)[2]
        part = re.search(r"--part[ =](\d+)/(\d+)", command)
        before, after, n = (command[: part.start(1)], command[part.end() :], part.group(2)) if part else (command, "", "")
        cuts.setdefault((before, n, after), set()).add(int(part.group(1)) if part else 0)
    texts = []
    for (before, n, after), parts in cuts.items():
        names = [f"{k}/{n}" for k in sorted(parts)] if n else [""]
        whole = len(names) > 3 and max(parts) - min(parts) == len(names) - 1
        texts.append(f"qtraj {before}{f'{names[0]} to {names[-1]}' if whole else ', '.join(names)}{after}")
    return "; ".join(texts)


def command_and_time(said):
    """Of a merged cube, or of parts, those of all runs."""
    start, end, merged = said.get("utc_start"), said.get("utc_end"), said.get("merged")
    if not merged:
        return (f"qtraj {said['command']}" if said.get("command") else MISSING,
                f"{start or MISSING} to {end or 'now: it goes on, or was killed'}" if start is not None else MISSING)
    open_ended = [run for run, ended in merged.items() if not ended]
    time = f"{min(merged).split()[0]} to {max(*merged.values(), end or '') or MISSING}"
    if open_ended:
        time += f"; went on when it was merged, or was killed: {commands_of(open_ended)}"
    return f"{commands_of(merged)}; {'the parts as they are' if said.get('unmerged') else 'then qtraj merge'}", time


def of_run(cube, said):
    """Pairs of a word and what it was."""
    done, failed, pending = (int((cube.status.values == state).sum()) if "status" in cube else 0 for state in (1, 2, 0))
    if "status" not in cube:
        done = int(np.isfinite(cube.loss_relative.isel(dataset=0)).sum())
    command, time = command_and_time(said)
    return [("sweep", str(cube.attrs.get("title", "")) or MISSING), ("command", command), ("time", time),
            ("cells", f"{done} done, {failed} failed, {pending} pending"),
            ("bit-widths", ", ".join(str(bits) for bits in cube.bits.values)),
            ("methods", ", ".join(map(str, cube.quantizer.values)))]


def of_methods(cube, said):
    """Each method: its options and the mean bits per weight at each bit-width."""
    entries = {m.get("name", m.get("method")): m for m in said["config"].get("methods", [])}
    rows = []
    for quantizer in map(str, cube.quantizer.values):
        one = entries.get(quantizer, {})
        sizes = ""
        if "bits_per_weight" in cube:
            mean = cube.bits_per_weight.sel(quantizer=quantizer).mean(("model", "checkpoint")).values
            sizes = ", ".join(f"{number(size)}" for size in mean)
        rows.append([quantizer, one.get("method", DASH), sizes or DASH, options.of_method(one) or DASH])
    widths = ", ".join(str(bits) for bits in cube.bits.values)
    return Table(["method", "algorithm", f"bits per weight at {widths} bits", "options"], rows, "Methods",
                 note="Bits per weight count scales and zeros. Options are those that the method uses; what is switched off is left out.")


def of_settings(said):
    """Settings that change numbers: of the sweep, its measurements, and of the run those that are not the usual ones."""
    config = said["config"]
    rows = [[name, options.words(config[name], options.IDLE)] for name in ("curvature", "gradient") if isinstance(config.get(name), dict)]
    rows += [["surfaces", "; ".join(options.words(surface) for surface in config["surfaces"])]] if config.get("surfaces") else []
    rows += [[name, str(config[name])] for name in ("movement", "preset", "seed") if config.get(name) not in options.NEUTRAL]
    run = {name: value for name in ("activations", "products", "rounding") if (value := config.get("run", {}).get(name, "f32")) != "f32"}
    rows += [["run", options.words(run)]] if options.words(run) else []
    return Table(["section", "settings"], rows, "Further settings") if rows else None


# --- on what ---


def of_checkpoints(cube, said):
    """A row a run, branch, or series of averages."""
    paths = {m.get("name"): m.get("path", "") for m in said["config"].get("models", [])}
    rows = []
    for line in trajectories(cube, averages=True):
        name = f"average {line.average} of {line.model}" if line.average else line.model
        sizes = line.own(cube.parameters) if "parameters" in cube else [np.nan]
        phases = list(dict.fromkeys(str(p) for p in line.own(cube.phase) if p)) if "phase" in cube.variables else []
        recipe = str(line.own(cube.recipe)[-1]) if line.average else paths.get(line.model, "")
        rows.append([name, line.parent.model if line.parent and not line.average else "", str(len(line.places)),
                     between(line.own(cube.step), step_text), between(line.own(cube.tokens)),
                     between(line.learning_rate, lambda v: compact(v, 3)), ", ".join(phases) or DASH, between(sizes), recipe or DASH])
    return Table(["run", "branch of", "checkpoints", "steps", "training tokens", "learning rate", "phases", "parameters", "weights"], rows,
                 "Checkpoints", note="Of averages, the last column says what the last one is the mean of.")


def sequences_of(cube):
    """Scored sequences of each text; empty if the cube does not say."""
    frame = open_group(cube, "checkpoints")
    if frame is None or "sequence_count" not in frame:
        return {}
    return {str(text): int(np.nanmax(frame.sequence_count.values[frame.dataset.values == text])) for text in cube.dataset.values
            if (frame.dataset.values == text).any()}


def tokens_of(cube, dataset):
    """Tokens scored of a text by each model, as the cube has them; NaN if it does not say."""
    if "baseline_tokens" not in cube:
        return np.array([np.nan])
    values = cube.baseline_tokens.sel(dataset=dataset).values
    return values[np.isfinite(values) & (values > 0)]


def of_texts(cube, said):
    config, sequences = said["config"], sequences_of(cube)
    entries = {entry.get("name"): entry for entry in config.get("evaluation", [])}
    rows = []
    for name in map(str, cube.dataset.values):
        entry = entries.get(name, {})
        rows.append([name, "evaluation", str(entry.get("text") or entry.get("ids") or MISSING), options.words(entry, options.IDLE) or DASH,
                     str(sequences.get(name, DASH)), between(tokens_of(cube, name), step_text)])
    entry = config.get("calibration")
    if entry:
        rows.append([str(entry.get("name", "")) or "calibration", "calibration", str(entry.get("text") or entry.get("ids") or MISSING),
                     options.words(entry, options.IDLE) or DASH, number(entry.get("samples") or np.nan, ".0f"), DASH])
    if "curvature_tokens" in cube and np.isfinite(cube.curvature_tokens).any():
        curvature = config.get("curvature") or {}
        data = curvature.get("data") or next(iter(config.get("evaluation", [])), {})
        rows.append([str(data.get("name") or "curvature"), "Hessian of the loss", str(data.get("text") or data.get("ids") or MISSING),
                     options.words(data, options.IDLE) or DASH, number(curvature.get("sequences", np.nan), ".0f"),
                     between(cube.curvature_tokens, step_text)])
    return Table(["text", "used for", "file", "options", "sequences", "tokens scored"], rows, "Texts")


def of_tasks(cube, said):
    """The tasks with the number of items, and how they were asked; None without any."""
    if "task" not in cube.dims:
        return None
    entry = said["config"].get("tasks") or {}
    rows = [[name, items_text(cube, name), items_text(cube, name, "baseline_items_truncated"), number(entry.get("shots", np.nan), ".0f"),
             str(entry.get("data") or MISSING)] for name in map(str, cube.task.values)]
    notes = ["Truncated: with a prompt that is longer than the model and loses its first tokens."]
    notes += [f"The first {entry['limit']} items of each task or subject."] if isinstance(entry.get("limit"), int) else []
    return Table(["task", "items", "truncated", "shots", "folder of the data"], rows, "Tasks", note=" ".join(notes))


def items_text(cube, task, variable="baseline_items"):
    """How many items of a task were asked, or are counted in another variable."""
    return between(cube[variable].sel(task=task) if variable in cube else [], lambda v: f"{v:.0f}")


# --- to cite ---


def of_program(said):
    """Pairs of a word and what a cell needs to be cited."""
    config = said["config"]
    presets = {str(entry.get("preset")) for entry in [config, *config.get("methods", []), *config.get("evaluation", []), config.get("calibration") or {}]}
    return [("program", f"qtraj {said['version']}, commit {said['git']}" if "git" in said else MISSING),
            ("presets", ", ".join(sorted(presets - {"none", "None", "[]"})) or "none"),
            ("libraries", ", ".join(f"{k} {v.split(',')[0]}" for k, v in said["libraries"].items()) or MISSING)]


def of_inputs(said):
    """The digest of every file that was read beside the weights."""
    rows = [[path, digest] for path, digest in said["inputs"].items()]
    return Table(["file", "digest"], rows, "Texts, tokenizers and tasks") if rows else None


def of_weights(cube):
    """Every checkpoint by its name, exact step and the digest of its weights."""
    rows = []
    for line in trajectories(cube, averages=True):
        columns = [line.own(cube.checkpoint_name), line.own(cube.step), line.own(cube.tokens), line.own(cube.weights_digest) if "weights_digest" in cube else
                   [""] * len(line.places)]
        rows += [[line.model, str(name), step_text(step) if np.isfinite(step) else DASH, step_text(tokens) if np.isfinite(tokens) else DASH,
                  str(digest) or MISSING] for name, step, tokens, digest in zip(*columns)]
    return Table(["run", "checkpoint", "step", "training tokens", "weights_digest"], rows, "Checkpoints, each",
                 note="weights_digest is of all bytes of the weights; the weights_hash of cubes and model cards is of samples of them.")


# --- what came out ---


def table_of(cube, lines, columns, what, base, texts_of):
    """A row a checkpoint of a run and of its averages, a column each (bit-width, method). base: heading and, of a line, texts of what stands
    before them; texts_of(line, width, quantizer): the texts of a column."""
    rows = []
    for line in lines:
        names = line.own(cube.checkpoint_name) if line.average else exact_names(cube, line)
        texts = [[str(name) for name in names], [compact(t) if np.isfinite(t) else DASH for t in line.own(cube.tokens)],
                 [compact(rate, 3) if np.isfinite(rate) else DASH for rate in line.learning_rate], base[1](line)]
        rows += [list(row) for row in zip(*texts, *(texts_of(line, *column) for column in columns))]
    widths = list(dict.fromkeys(width for width, _ in columns))
    return Table(["step", "tokens", "learning rate", base[0]] + [quantizer for _, quantizer in columns], rows, f"{lines[0].model}, {what}",
                 [("", 4)] + [(f"{width} bits", sum(one == width for one, _ in columns)) for width in widths])


def of_results(cube, lines, dataset, columns):
    """Relative errors of the checkpoints of one run and of its averages, in percent, with their paired standard errors."""
    part = cube.sel(dataset=dataset)

    def texts_of(line, width, quantizer):
        cell = part.sel(bits=width, quantizer=quantizer)
        values, errors = (100 * line.own(cell[name]) for name in ("loss_relative", "loss_relative_stderr"))
        found = line.own(states(cell)) if "status" in cell else np.where(np.isfinite(values), 1, 0)
        return [cell_text(*one) for one in zip(values, errors, found)]

    def losses_of(line):
        return [with_error(*one, 3) for one in zip(*(line.own(part[name]) for name in ("baseline_loss", "baseline_loss_stderr")))]

    return table_of(cube, lines, columns, dataset, ("CE", losses_of), texts_of)


def of_accuracies(cube, lines, columns):
    """Accuracy degradations of the checkpoints of one run and of its averages, in percent, means over tasks with their paired standard errors, and
    behind them in how many tasks McNemar's test finds a difference. cube: of accuracy.with_errors."""
    flipped = (cube.mcnemar_p < FLIPPED).sum("task")

    def texts_of(line, width, quantizer):
        cell = cube.sel(bits=width, quantizer=quantizer)
        values = zip(*map(line.own, DEGRADATION.of(cell)), line.own(flipped.sel(bits=width, quantizer=quantizer)))
        return [f"{with_error(value, error)} ({count})" if np.isfinite(value) else DASH for value, error, count in values]

    return table_of(cube, lines, columns, f"mean over {', '.join(map(str, cube.task.values))}",
                    ("accuracy", lambda line: [with_error(*one) for one in zip(*map(line.own, FULL.of(cube)))]), texts_of)


def cell_text(value, error, state):
    if state == 1:
        return with_error(value, error) if np.isfinite(value) else "not finite"
    return {2: "failed", 0: "pending", 3: ""}.get(int(state), "")


def columns_of(cube, width):
    """Pairs of the bit-width and each method that the sweep asks for at it."""
    asked = cube.status != NOT_ASKED if "status" in cube else np.isfinite(cube.loss_relative).any("dataset")
    there = asked.sel(bits=width).any(("model", "checkpoint"))
    return [(width, str(quantizer)) for quantizer in cube.quantizer.values if there.sel(quantizer=quantizer)]


def groups_of(cube, bits):
    """The columns of bit-widths in groups of as many as a table has space for."""
    groups = []
    for columns in (columns_of(cube, width) for width in bits):
        if groups and len(groups[-1]) + len(columns) <= MOST_COLUMNS:
            groups[-1] += columns
        elif columns:
            groups.append(columns)
    return groups


def with_averages(cube):
    """Each run with its averages."""
    lines = trajectories(cube, averages=True)
    return [[line] + [one for one in lines if one.average and one.model == line.model] for line in lines if not line.average]


def all_results(cube, bits):
    """A table a run and text, and more where the columns are many."""
    return [of_results(cube, lines, str(dataset), part) for lines in with_averages(cube) for dataset in cube.dataset.values
            for part in groups_of(cube, bits)]


def all_accuracies(cube, bits):
    """The same of accuracies, a table a run; none without tasks."""
    if "task" not in cube.dims:
        return []
    cube = with_errors(cube)
    return [of_accuracies(cube, lines, part) for lines in with_averages(cube) for part in groups_of(cube, bits)]


# --- what failed ---


def failed_rows(cube, status, message, what):
    """A row for each failed record of one kind."""
    if status not in cube or message not in cube:
        return []
    rows = []
    for at in np.argwhere(cube[status].values == 2):
        place = dict(zip(cube[status].dims, at))
        one = cube.isel(**place)
        name = [str(one.model.values), str(one.checkpoint_name.values)]
        if "bits" in place:
            name += [f"{int(one.bits)} bits", str(one.quantizer.values)]
        if "task" in place:
            name.append(str(one.task.values))
        rows.append([", ".join(name), what, str(one[message].values)])
    return rows


def of_failures(cube):
    """Every record that failed, and why; None if none did."""
    rows = failed_rows(cube, "checkpoint_status", "checkpoint_message", "checkpoint")
    rows += failed_rows(cube, "status", "message", "cell")
    rows += failed_rows(cube, "curvature_status", "curvature_message", "curvature")
    for kind in ("gradient", "movement"):
        if f"{kind}_status" in cube:
            rows += failed_rows(cube, f"{kind}_status", f"{kind}_message", kind)
    rows += failed_rows(cube, "baseline_task_status", "baseline_task_message", "accuracy")
    rows += failed_rows(cube, "task_status", "task_message", "accuracy")
    surfaces = open_group(cube, "surfaces")
    if surfaces is not None and "status" in surfaces:
        rows += [[f"{surfaces.surface.values[i]}, point {i}", "surface", str(surfaces.message.values[i])]
                 for i in np.flatnonzero(surfaces.status.values == 2)]
    if not rows:
        return None
    more = len(rows) - MOST_FAILURES
    return Table(["what", "kind", "why"], rows[:MOST_FAILURES], f"{len(rows)} failure{'s' if len(rows) > 1 else ''}",
                 note=f"{more} more are in the cube." if more > 0 else "")


# --- what a caption says of the data ---


def models_text(cube):
    lines = trajectories(cube)
    count = sum(len(line.places) for line in lines)
    names = [line.model for line in lines]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{count} checkpoint{'s' if count != 1 else ''} of {shown}"


def scored_text(cube, said, kind):
    """On which tokens the numbers of a figure were measured. kind: Figure.scored."""
    sequences, config = sequences_of(cube), said["config"]
    if kind == "evaluation":
        texts = []
        for name in map(str, cube.dataset.values):
            tokens = between(tokens_of(cube, name), step_text)
            count = f" in {sequences[name]} sequences" if name in sequences else ""
            texts.append(f"{name}, {tokens} tokens scored{count}" if tokens != DASH else f"{name}, number of tokens not recorded")
        return "; ".join(texts)
    if kind == "tasks":
        shots = (config.get("tasks") or {}).get("shots")
        asked = f"{shots} solved examples before each question" if shots is not None else "number of solved examples not recorded"
        counts = ", ".join(f"{name} {items_text(cube, name)}" for name in map(str, cube.task.values))
        return f"{scored_text(cube, said, 'evaluation')}; items of tasks: {counts}; {asked}"
    if kind == "curvature":
        tokens = between(cube.curvature_tokens, step_text) if "curvature_tokens" in cube else DASH
        curvature = f"the Hessian's loss, {tokens} tokens scored" if tokens != DASH else "the Hessian's loss, number of tokens not recorded"
        return f"{curvature}; {scored_text(cube, said, 'evaluation')}"
    if kind == "calibration":
        entry = config.get("calibration") or {}
        if not entry.get("samples"):
            return "calibration text, number of tokens not recorded"
        length = entry.get("length")
        tokens = f", at most {entry['samples'] * length:,} tokens" if isinstance(length, int) else ""
        return f"calibration text {entry.get('name', '')}, {entry['samples']} sequences{tokens}"
    if kind == "weights":
        return "the weights themselves; no text is scored"
    return surface_text(cube, said)


def surface_text(cube, said):
    """Texts of the surfaces with the number of tokens that each scores at most."""
    texts = []
    for surface in said["config"].get("surfaces", []):
        dataset = str(surface.get("dataset") or cube.dataset.values[0])
        tokens, count, most = tokens_of(cube, dataset), sequences_of(cube).get(dataset, 0), surface.get("samples") or 0
        if len(tokens) and np.isfinite(tokens).all() and count:
            used = min(most, count) if most else count
            texts.append(f"{surface.get('name')}: {dataset}, {used} of its {count} sequences (about {tokens.max() * used / count:,.0f} tokens scored)")
    return "; ".join(texts) or "number of tokens not recorded"


def of_coming(cubes, path, end, bits=None):
    """What the law of a file says of the runs of the cubes at `end` tokens. ValueError: of its columns or of the file."""
    law = load(path)
    found = ahead(law, points_of(*cubes.values()), end)
    found = found[found.bits.isin(bits)] if bits else found
    rows = [[f"{row.model}, {row.quantizer}, {row.bits:g} bits", row.checkpoint, number(row.delta_now), number(row.law_now), number(row.delta),
             f"{row.low:.3g} to {row.high:.3g}" if np.isfinite(row.low) else DASH, row.outside or DASH] for row in found.itertuples()]
    knows = {"rate": "the learning rate", "decay": "the tokens of the decay", "beta": "tokens"}
    known = [text for name, text in knows.items() if name in law.form.coefficients]
    note = f"The law ({path}) knows {' and '.join(known) or 'neither tokens nor rate'}."
    return Table(["run", "last checkpoint", "measured", "law there", f"law at {end:.3g} tokens", "95 % of a new run", "outside of the law's points"], rows,
                 note=note)
