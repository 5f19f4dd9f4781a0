"""Learning-rate schedules given in words, and tokens per step. Pure functions, nothing is read or written.

A schedule is a list of clauses, separated by semicolons, in the order in which they act:

    start at RATE                       the rate at step 0; without it, 0
    warmup N UNIT to RATE               linear, N steps or tokens long
    constant until X UNIT               or: constant for N UNIT; or: constant (to the end)
    SHAPE to RATE until X UNIT          or: over N UNIT; or: between X and X UNIT (constant before)
    cut at X UNIT                       the clause before it ends there, at the rate that it has reached
    stop at X UNIT                      the run ended there: a later checkpoint is an error

SHAPE is `linear`, `cosine`, `half cosine` (the second half of a cosine) or `1-sqrt`; UNIT is `steps` or `tokens`. A
clause of a shape may end in `, at least RATE`. Numbers may be written 2000, 5e12, 2k, 8.4B or 5T. After the last clause
the rate stays.

    warmup 2000 steps to 3e-4; cosine to 3e-5 until 5T tokens; stop at 928646 steps
    warmup 2000 steps to 2e-4; linear to 0 between 4198001 and 4720001 steps

With p the rate before the clause, f the one that it leads to, and t from 0 to 1 along it: linear p + (f - p) t; cosine
f + (p - f)(1 + cos(pi t))/2; half cosine f + (p - f)(1 + cos(pi (1 + t)/2)); 1-sqrt p + (f - p) sqrt(t). t runs in the
clause's unit: where the batch changes, steps and tokens differ."""

import math
import re
from collections import namedtuple

NUMBER = r"([0-9.]+(?:[eE][+-]?[0-9]+)?)([kMBT]?)"
UNIT = r"(steps|tokens)"
SCALES = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
PHASES = {"warmup": "warmup", "constant": "stable"}  # every other shape: decay

Segment = namedtuple("Segment", "shape unit begin end first last least")
Schedule = namedtuple("Schedule", "segments stop batch")
Batch = namedtuple("Batch", "sizes")  # [(first step, tokens per step)], by step


class ScheduleError(ValueError):
    """A message for the user: which clause is wrong, and why."""


def number(text):
    """The value of `2000`, `5e12`, `2k`, `8.4B`; an int where it is whole."""
    match = re.fullmatch(NUMBER, text.strip())
    if not match:
        raise ScheduleError(f"{text.strip()!r}: expected a number such as 2000, 5e12 or 5T")
    value = float(match[1]) * SCALES[match[2]]
    return int(value) if value == int(value) else value


# --- tokens per step ---


def parse_batch(words):
    """Tokens per step: `4194304`, or `4194304; 8388608 from step 1678000`."""
    sizes = []
    for clause in words.split(";"):
        match = re.fullmatch(rf"{NUMBER}(?: from step {NUMBER})?", clause.strip())
        if not match:
            raise ScheduleError(f"{clause.strip()!r}: expected TOKENS, or TOKENS from step N")
        size = number(match[1] + match[2])
        first = number(match[3] + match[4]) if match[3] else 0
        if size <= 0 or (first == 0) != (not sizes) or (sizes and first <= sizes[-1][0]):
            raise ScheduleError(f"{clause.strip()!r}: sizes are positive; the first holds from step 0, others from later steps")
        sizes.append((first, size))
    return Batch(sizes)


def tokens_at(batch, step):
    """Tokens seen after `step` steps."""
    total = 0
    for i, (first, size) in enumerate(batch.sizes):
        last = batch.sizes[i + 1][0] if i + 1 < len(batch.sizes) else math.inf
        total += size * (min(step, last) - first)
        if step <= last:
            break
    return total


def steps_at(batch, tokens):
    """Steps, with a fraction, after which `tokens` tokens are seen: the inverse of tokens_at."""
    for i, (first, size) in enumerate(batch.sizes):
        before = tokens_at(batch, first)
        last = batch.sizes[i + 1][0] if i + 1 < len(batch.sizes) else math.inf
        if tokens <= before + size * (last - first):
            return first + (tokens - before) / size
    raise AssertionError("the last size has no end")


# --- reading the words ---


def convert(batch, x, unit, other):
    """A position given in one unit, in the other."""
    if unit == other or math.isinf(x):
        return x
    return tokens_at(batch, x) if other == "tokens" else steps_at(batch, x)


def span(batch, here, words, clause):
    """Unit, begin and end of a clause that starts at `here` = (position, unit), from the words that say where it ends."""
    if math.isinf(here[0]):
        raise ScheduleError(f"{clause!r}: follows `constant`, which has no end")
    if not words:
        return here[1], here[0], math.inf
    match = re.fullmatch(rf"(until|over|for) {NUMBER} {UNIT}", words)
    if not match:
        raise ScheduleError(f"{clause!r}: expected `until X UNIT`, `over N UNIT` or `between X and X UNIT`; UNIT is steps or tokens")
    unit, x = match[4], number(match[2] + match[3])
    begin = convert(batch, here[0], here[1], unit)
    end = x if match[1] == "until" else begin + x
    if end <= begin:
        raise ScheduleError(f"{clause!r}: ends at {end:.10g} {unit}, but it begins at {begin:.10g}")
    return unit, begin, end


def rate_on(segment, x):
    """Rate at the position x, in the segment's unit."""
    if segment.shape == "constant" or math.isinf(segment.end):
        return segment.first
    t = min(max((x - segment.begin) / (segment.end - segment.begin), 0.0), 1.0)
    first, last = segment.first, segment.last
    rate = {
        "warmup": lambda: first + (last - first) * t,
        "linear": lambda: first + (last - first) * t,
        "cosine": lambda: last + (first - last) * (1 + math.cos(math.pi * t)) / 2,
        "half cosine": lambda: last + (first - last) * (1 + math.cos(math.pi * (1 + t) / 2)),
        "1-sqrt": lambda: first + (last - first) * math.sqrt(t),
    }[segment.shape]()
    return max(rate, segment.least)


def rewrite(clause):
    """`SHAPE to RATE between A and B UNIT` as two clauses; `warmup N UNIT to RATE` in the order of the others."""
    match = re.fullmatch(rf"(.*) between (\S+) and (\S+) {UNIT}(.*)", clause)
    if match:
        return [f"constant until {match[2]} {match[4]}", f"{match[1]} until {match[3]} {match[4]}{match[5]}"]
    match = re.fullmatch(rf"warmup (\S+) {UNIT} to (\S+)", clause)
    return [f"warmup to {match[3]} over {match[1]} {match[2]}"] if match else [clause]


def add_clause(state, clause):
    """Appends what one clause says to state: segments, rate, here (position, unit), stop, batch."""
    here, batch = state["here"], state["batch"]
    if match := re.fullmatch(r"start at (\S+)", clause):
        if state["segments"]:
            raise ScheduleError(f"{clause!r}: must come first")
        state["rate"] = float(number(match[1]))
    elif match := re.fullmatch(rf"stop at {NUMBER} {UNIT}", clause):
        state["stop"] = (number(match[1] + match[2]), match[3])
    elif match := re.fullmatch(rf"cut at {NUMBER} {UNIT}", clause):
        if not state["segments"]:
            raise ScheduleError(f"{clause!r}: no clause before it")
        cut_last(state, number(match[1] + match[2]), match[3], clause)
    elif match := re.fullmatch(r"constant ?(.*)", clause):
        unit, begin, end = span(batch, here, match[1], clause)
        append(state, Segment("constant", unit, begin, end, state["rate"], state["rate"], 0.0))
    elif match := re.fullmatch(r"(warmup|linear|cosine|half cosine|1-sqrt) to (\S+) ([^,]+?)(?:, at least (\S+))?", clause):
        unit, begin, end = span(batch, here, match[3], clause)
        least = float(number(match[4])) if match[4] else 0.0
        append(state, Segment(match[1], unit, begin, end, state["rate"], float(number(match[2])), least))
    else:
        raise ScheduleError(f"{clause!r}: expected start, warmup, constant, linear, cosine, half cosine, 1-sqrt, cut or stop, "
                            "written as jobs/schedules.py describes")


def append(state, segment):
    state["segments"].append(segment)
    state["here"] = (segment.end, segment.unit)
    state["rate"] = rate_on(segment, segment.end)


def cut_last(state, x, unit, clause):
    """Ends the last segment at x without changing its course."""
    segment = state["segments"][-1]
    at = convert(state["batch"], x, unit, segment.unit)
    if not segment.begin < at < segment.end:
        raise ScheduleError(f"{clause!r}: outside the clause before it, {segment.begin:.10g} to {segment.end:.10g} {segment.unit}")
    state["here"] = (x, unit)
    state["rate"] = rate_on(segment, at)


def parse(words, batch):
    """The schedule that the words describe, for runs with these tokens per step (parse_batch)."""
    state = {"segments": [], "rate": 0.0, "here": (0, "steps"), "stop": None, "batch": batch}
    for clause in words.split(";"):
        for simple in rewrite(" ".join(clause.split())):
            add_clause(state, simple)
    if not state["segments"]:
        raise ScheduleError(f"{words.strip()!r}: no clause that sets a rate")
    return Schedule(state["segments"], state["stop"], batch)


# --- asking it ---


def segment_at(schedule, step):
    """The last segment that begins at or before the step."""
    tokens = tokens_at(schedule.batch, step)
    place = {"steps": step, "tokens": tokens}
    if schedule.stop and place[schedule.stop[1]] > schedule.stop[0]:
        raise ScheduleError(f"step {step} is after the end of the run, {schedule.stop[0]} {schedule.stop[1]}")
    found = schedule.segments[0]
    for segment in schedule.segments:
        if segment.begin <= place[segment.unit]:
            found = segment
    return found, place[found.unit]


def rate_at(schedule, step):
    """Learning rate after `step` steps."""
    return rate_on(*segment_at(schedule, step))


def phase_at(schedule, step):
    """`warmup`, `stable` or `decay`."""
    return PHASES.get(segment_at(schedule, step)[0].shape, "decay")
