"""What was asked and what came out, in a few rows: the error at the end of each phase of training, and what changed between them."""

from dataclasses import dataclass

import numpy as np

from qtraj.cube import paired
from qtraj.cube.files import of_models, select, widths, with_replicates
from qtraj.cube.trajectories import Trajectory, families, trajectories
from qtraj.figures.imitations import KINDS
from qtraj.laws.dynamics import AT_PEAK, ENDED
from qtraj.report.summary import DASH, Table, models_text, scored_text, step_text, with_error

MOST_ENDS = 4  # of phases, and
MOST_SENTENCES = 2  # leave space for the figure on the first screen
MOST_COLUMNS = 8
MOST_NAMED = 3  # methods in a sentence
FIRST = (3, 4, 2)  # bit-widths that are shown where not all have space
NORMAL = 1.96  # standard errors, half a 95 % interval


@dataclass
class End:
    """The last checkpoint of a phase. before: what its change is counted from, None for the first."""

    line: Trajectory
    place: int  # along the cube's checkpoint axis
    name: str
    before: "End | None" = None


def phases_of(line, phase, known):
    """Pairs of a phase and its last place with numbers; of a run without phases, the first and the last checkpoint. phase: of each place."""
    there = [place for place in line.places if known[place]]
    ends = [(str(phase[a]), a) for a, b in zip(there, there[1:] + [None]) if b is None or phase[a] != phase[b]]
    ends = [end for end in ends if end[0] != "warmup"] or ends
    return [("", there[0])] + ends if len(ends) == 1 and len(there) > 1 and line.fork < 0 else ends


def waits(line, part, phase, place):
    """Whether the phase goes on: cells of a later checkpoint of it are pending, or the learning rate of the last one has not ended its fall.
    phase: of each place."""
    peak = max(np.nanmax(one.learning_rate, initial=0) for one in (line, line.parent or line))
    if place == line.places[-1] and ENDED * peak < line.learning_rate[-1] < AT_PEAK * peak:
        return True
    if "status" not in part:
        return False
    later = line.places[list(line.places).index(place) + 1:]
    pending = (part.status.sel(model=line.model) == 0).any(("bits", "quantizer")).values
    return any(pending[one] and phase[one] == phase[place] for one in later)


def ends_of(cube, part):
    """The ends of all runs and branches; part: the cells of one text."""
    found = []
    for line in trajectories(cube):
        known = np.isfinite(part.loss_relative.sel(model=line.model)).any(("bits", "quantizer")).values
        before = None
        if line.fork >= 0:
            before = End(line.parent, line.parent.places[line.fork], line.parent.model)
        phases = cube.phase.sel(model=line.model).values if "phase" in cube.variables else [""] * cube.sizes["checkpoint"]
        for phase, place in phases_of(line, phases, known):
            end = End(line, place, line.model, before)
            waiting = waits(line, part, phases, place)
            last = f"last measured{' of ' * bool(phase)}{phase}" if waiting else f"end of {phase}" if phase else "last checkpoint"
            end.name = f"{line.model}, {'first checkpoint' if not phase and not before else last}"
            found.append(end)
            before = end
    return found


def columns_of(cube, part, bits):
    """Pairs of a bit-width and a method that has errors at it, of the bit-widths that have space beside each other. part: the cells of one
    text."""
    bits, chosen = widths(cube, bits), []
    known = np.isfinite(part.loss_relative).any(("model", "checkpoint"))
    for width in [width for width in FIRST if width in bits] + [width for width in bits if width not in FIRST]:
        columns = [(width, str(name)) for name in cube.quantizer.values if known.sel(bits=width, quantizer=name)]
        if chosen and len(chosen) + len(columns) > MOST_COLUMNS:
            break
        chosen += columns
    return sorted(chosen, key=lambda column: column[0])


def replicated(cube):
    return with_replicates(cube, "loss_relative", "loss_relative_stderr") is not None


class Differences:
    """Relative errors in percent, with standard errors, and their differences, paired over the text's sequences and replicates."""

    def __init__(self, cube, dataset):
        self.cube, self.dataset = cube, dataset
        self.whole, self.cells = (paired.rows_of(cube, group) for group in ("checkpoints", "cells"))
        self.part = cube.sel(dataset=dataset)
        spread = with_replicates(self.part, "loss_relative", "loss_relative_stderr")
        self.error = self.part.loss_relative_stderr if spread is None else spread.fillna(self.part.loss_relative_stderr)

    def at(self, end, width, quantizer):
        one = {"model": end.line.model, "bits": width, "quantizer": quantizer}
        return [100 * float(values.sel(one).isel(checkpoint=end.place)) for values in (self.part.loss_relative, self.error)]

    def losses(self, end, width, quantizer):
        key = end.line.model, str(self.cube.checkpoint_name.sel(model=end.line.model).values[end.place]), self.dataset
        return self.cells(*key, width, quantizer), self.whole(*key)

    def replicates(self, end, width, quantizer):
        if "loss_relative_replicate" not in self.part:
            return np.array([])
        one = {"model": end.line.model, "bits": width, "quantizer": quantizer}
        return 100 * self.part.loss_relative_replicate.sel(one).isel(checkpoint=end.place).values

    def since(self, end, width, quantizer):
        """The change since the end before, and its standard error."""
        (new, error), (old, other) = (self.at(one, width, quantizer) for one in (end, end.before))
        _, both = paired.relative_change(self.losses(end, width, quantizer), self.losses(end.before, width, quantizer))
        error = 100 * both if np.isfinite(both) else np.hypot(error, other)
        draws = np.append(new, self.replicates(end, width, quantizer)) - np.append(old, self.replicates(end.before, width, quantizer))
        draws = draws[np.isfinite(draws)]
        return new - old, np.hypot(error, draws.std(ddof=1)) if len(draws) > 1 else error


def interval(value, error, sign=False):
    text = with_error(value, NORMAL * error)
    return "+" + text if sign and value > 0 and text != DASH else text


def step_of(cube, end):
    step = float(cube.step.sel(model=end.line.model).values[end.place])
    return f"step {step_text(step)}" if np.isfinite(step) else str(cube.checkpoint_name.sel(model=end.line.model).values[end.place])


def level(value, error):
    """With the digits that its interval leaves."""
    return with_error(value, NORMAL * error).split(" ± ")[0] if np.isfinite(error) else f"{value:.3g}"


def change_of(numbers, end, width, quantizer):
    """What the error of one method does up to this end."""
    value, error = numbers.since(end, width, quantizer)
    old, new = (level(*numbers.at(one, width, quantizer)) for one in (end.before, end))
    told = "" if not np.isfinite(error) or abs(value) > NORMAL * error else ": no change is seen"
    return f"from {old} to {new} % with {quantizer} ({interval(value, error, True)} points{told})"


def sentence(cube, numbers, end, width, quantizers):
    """What the errors of the methods do up to this end: of all, or where they are many of the two that end least and greatest."""
    there = [quantizer for quantizer in quantizers if np.isfinite(numbers.since(end, width, quantizer)[0])]
    if not there:
        return ""
    phase = f" ({end.name.split(', ')[-1]})" if " of " in end.name.split(", ")[-1] else ""
    begin = f"{end.line.model} at {width} bits, {step_of(cube, end.before)} to {step_of(cube, end)}{phase}: the error goes"
    if len(there) > MOST_NAMED:
        order = sorted(there, key=lambda quantizer: numbers.at(end, width, quantizer)[0])
        least, greatest = (change_of(numbers, end, width, quantizer) for quantizer in (order[0], order[-1]))
        return f"{begin} {least}, the least of {len(there)} methods, and {greatest}, the greatest."
    changes = [change_of(numbers, end, width, quantizer) for quantizer in there]
    return f"{begin} {', '.join(changes[:-1])}{' and ' if len(changes) > 1 else ''}{changes[-1]}."


def others(cube, found, bits):
    """What the figure of the answer `found` does not show: parts of the cube and bit-widths, for figures of their own."""
    there, shown = widths(cube, bits), found["models"]
    left = {"bits": [width for width in there if width not in found["bits"]], "dataset": [str(d) for d in cube.dataset.values if d != found["dataset"]],
            "model": [str(name) for name in cube.model.values if name not in shown]}
    parts = []
    if left["bits"]:
        parts.append((select(of_models(cube, shown), dataset=found["dataset"]), left["bits"], {"bits": [f"{width} bits" for width in left["bits"]]}))
    if left["dataset"]:
        parts.append((select(of_models(cube, shown), dataset=left["dataset"]), there, {"dataset": left["dataset"]}))
    if left["model"]:
        parts.append((of_models(cube, left["model"]), there, {"model": left["model"]}))
    return [(part.assign_attrs(told=told), some) for part, some, told in parts]


def of_cube(cube, said, bits):
    """The question, sentences that answer it, the table, and the bit-widths of its figure; None without any relative error."""
    dataset = str(cube.dataset.values[0])
    numbers = Differences(cube, dataset)
    ends = ends_of(cube, numbers.part)
    if not ends:
        return None
    shown, columns = ends[:MOST_ENDS], columns_of(cube, numbers.part, bits)
    chosen = list(dict.fromkeys(width for width, _ in columns))
    rows = []
    for end in shown:
        rows.append([end.name, step_of(cube, end)] + [interval(*numbers.at(end, *column)) for column in columns])
        if end.before:
            rows.append(["change", f"since {step_of(cube, end.before)}"] + [interval(*numbers.since(end, *column), True) for column in columns])
    groups = [("", 2)] + [(f"{width} bits", sum(c[0] == width for c in columns)) for width in chosen]
    others = [f"{len(ends) - MOST_ENDS} more ends of phases"] if len(ends) > MOST_ENDS else []
    others += ["other bit-widths"] if len(chosen) < len(widths(cube, bits)) else []
    others += ["other texts"] if cube.sizes["dataset"] > 1 else []
    note = f"Behind ±: half a 95 % interval, over the sequences of {dataset}" + (" and over replicates" if replicated(cube) else "")
    note += "; of a change, paired: both are scored on the same sequences." + (f" Under Results: {', '.join(others)}." if others else "")
    picked = next((width for width in FIRST if width in chosen), chosen[0])
    quantizers = [str(name) for name in cube.quantizer.values]
    told = [name for name in quantizers if not name.startswith(KINDS)] or quantizers  # not those that only imitate quantization
    texts = [text for end in shown if end.before and (text := sentence(cube, numbers, end, picked, told))]
    methods = ", ".join(quantizers)
    question = (f"How much do {methods} at {', '.join(map(str, widths(cube, bits)))} bits raise the loss of {models_text(cube)}? "
                f"Text: {scored_text(cube, said, 'evaluation')}.")
    table = Table(["end of a phase", "checkpoint"] + [quantizer for _, quantizer in columns], rows, "Relative error of the loss (%): quantized over full precision, less one", groups, note)
    pending = int((cube.status == 0).sum()) if "status" in cube else 0
    told = [f"{pending} cell{'s are' if pending > 1 else ' is'} pending: these are not the numbers of the whole sweep."] if pending else []
    return {"question": question, "sentences": told + texts[:MOST_SENTENCES], "table": table, "bits": [width for width in (3, 4) if width in chosen] or [picked],
            "models": [line.model for lines in families(cube)[:2] for line in lines], "dataset": dataset}
