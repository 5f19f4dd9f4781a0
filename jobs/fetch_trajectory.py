#!/usr/bin/env python3
"""Writes the trajectory table of a training run from the names of its checkpoints: step, tokens, learning rate and phase.

    jobs/fetch_trajectory.py SPEC.ini --out DIR               the checkpoints that the file lists, without network
    jobs/fetch_trajectory.py SPEC.ini --hub                   all revisions of its hub repository
    git ls-remote --heads REPO | sed 's:.*refs/heads/::' | jobs/fetch_trajectory.py SPEC.ini --names -
    jobs/fetch_trajectory.py --repo EleutherAI/pythia-1b --pattern 'step(?P<step>[0-9]+)' --tokens-per-step 2097152 \\
        --schedule 'warmup 1430 steps to 2.5e-4; cosine to 2.5e-5 until 143000 steps'

The table goes to standard output, or to DIR/NAME.csv. jobs/schedules.py computes the rates and describes the words of a schedule.
A spec file begins with comments, which are copied to the table, and has sections (configs/trajectories has many):

    [trajectory]
    hub = OWNER/NAME                    the repository that --hub asks
    names = NAME ...                    the checkpoints of the table, in any order
    [STAGE]                             a part of the run, in training order; each name belongs to the first stage that it matches
    pattern = EXPRESSION                a regular expression for whole names, with groups such as (?P<step>[0-9]+)
    tokens per step = N                 or: N; M from step S
    schedule = WORDS                    steps and tokens count from the stage's first step
    after = STAGE at step N             step, tokens and rate continue there; `start at` in the schedule changes the rate
    phase = TEXT                        instead of warmup, stable or decay; {GROUP} stands for what a group matched
    as = STAGE at step N                names of this stage take step, tokens and rate from there (averages)
    [table NAME]                        one table each, if there are several; its keys replace [trajectory]'s, and {KEY} elsewhere
    take = EXPRESSION                   in [table NAME]: only the names that it matches

Groups: `step`; or `tokens` (in billions), if there is no step; or `chunk`, numbered from 0, with `steps per chunk` and
`tokens per chunk` in place of `tokens per step`. A name with step and tokens must agree with the tokens per step. A stage
without schedule leaves step, tokens and rate empty. The hub is $HF_ENDPOINT, by default https://huggingface.co; $HF_TOKEN is
sent if it is set.

Exit code 0: done; 2: bad arguments, a bad file, a name that no stage matches, or a hub that does not answer."""

import argparse
import configparser
import csv
import io
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import namedtuple

import schedules

COLUMNS = ("checkpoint", "step", "tokens", "learning_rate", "phase")
KEYS = {"pattern", "tokens per step", "steps per chunk", "tokens per chunk", "schedule", "after", "phase", "as"}

# offset: (steps, tokens) before the stage; schedule: None if steps and rates are unknown; alias: (stage, step) or None
Stage = namedtuple("Stage", "name pattern schedule offset phase alias steps_per_chunk")
Table = namedtuple("Table", "name hub names take stages")


class Failure(Exception):
    """A message for the user."""


# --- spec files ---


def fill(text, values, where):
    """Replaces {key} by its value; braces of regular expressions ({2}, {3,}) are left alone."""
    def value(match):
        if match[1] not in values:
            raise Failure(f"{where}: {{{match[1]}}} is not known, only {', '.join(sorted(values)) or 'nothing'}")
        return values[match[1]]

    return re.sub(r"\{([a-z_]\w*)\}", value, text)


def place_of(words, stages, where):
    """Stage and step of `STAGE at step N`."""
    match = re.fullmatch(r"(\S+) at step ([0-9]+)", words.strip())
    found = [stage for stage in stages if match and stage.name == match[1]]
    if not found or not found[0].schedule:
        raise Failure(f"{where}: {words.strip()!r}: expected STAGE at step N, with an earlier stage that has a schedule")
    return found[0], int(match[2])


def read_batch(section, where):
    """Tokens per step, and steps per chunk where names count chunks."""
    if "tokens per chunk" in section:
        steps = schedules.number(section.get("steps per chunk", ""))
        return schedules.Batch([(0, schedules.number(section["tokens per chunk"]) / steps)]), steps
    if "tokens per step" not in section:
        raise Failure(f"{where}: tokens per step is missing")
    return schedules.parse_batch(section["tokens per step"]), None


def read_schedule(section, earlier, where):
    """The schedule of a stage and what precedes it: (schedule, steps per chunk, (steps, tokens))."""
    words, offset = section["schedule"], (0, 0)
    batch, steps_per_chunk = read_batch(section, where)
    if "after" in section:
        stage, step = place_of(section["after"], earlier, f"{where}: after")
        offset = (stage.offset[0] + step, stage.offset[1] + schedules.tokens_at(stage.schedule.batch, step))
        if not words.strip().startswith("start at"):
            words = f"start at {schedules.rate_at(stage.schedule, step)!r}; {words}"
    return schedules.parse(words, batch), steps_per_chunk, offset


def expression(text, where):
    """The regular expression, compiled."""
    try:
        return re.compile(text)
    except re.error as error:
        raise Failure(f"{where}: {error}") from error


def read_stage(name, section, values, earlier, path):
    where = f"{path}: [{name}]"
    unknown = sorted(set(section) - KEYS)
    if unknown:
        raise Failure(f"{where}: {unknown[0]}: unknown, expected one of {', '.join(sorted(KEYS))}")
    section = {key: text if key == "phase" else fill(text, values, where) for key, text in section.items()}
    if "pattern" not in section:
        raise Failure(f"{where}: pattern is missing")
    pattern = expression(section["pattern"], f"{where}: pattern")
    schedule, steps_per_chunk, offset = None, None, (0, 0)
    try:
        if "schedule" in section:
            schedule, steps_per_chunk, offset = read_schedule(section, earlier, where)
    except schedules.ScheduleError as error:
        raise Failure(f"{where}: {error}") from error
    alias = place_of(section["as"], earlier, f"{where}: as") if "as" in section else None
    return Stage(name, pattern, schedule, offset, section.get("phase"), alias, steps_per_chunk)


def leading_comments(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    return lines[:next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))]


def read_spec(path):
    """What a spec file says: its comments, and for each table its name, hub repository, names and stages."""
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    try:
        comments = leading_comments(path)
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise Failure(f"{path}: {error}") from error
    common = dict(parser["trajectory"]) if parser.has_section("trajectory") else {}
    stem = os.path.splitext(os.path.basename(path))[0]
    heads = {name[6:].strip(): dict(parser[name]) for name in parser.sections() if name.startswith("table ")} or {stem: {}}
    tables = []
    for name, own in heads.items():
        values, stages = {"table": name, **common, **own}, []
        for section in parser.sections():
            if section != "trajectory" and not section.startswith("table "):
                stages.append(read_stage(section, dict(parser[section]), values, stages, path))
        hub = fill(values.get("hub", ""), values, path)
        tables.append(Table(name, hub, values.get("names", "").split(), expression(values.get("take", ".*"), f"{path}: take"), stages))
    return comments, tables


# --- the hub ---


def endpoint():
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def hub_names(repo):
    """The branches of a hub repository."""
    url = f"{endpoint()}/api/models/{urllib.parse.quote(repo)}/refs"
    request = urllib.request.Request(url)
    if os.environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {os.environ['HF_TOKEN']}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [branch["name"] for branch in json.load(answer)["branches"]]
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{url}: {error}") from error


# --- rows ---


def same_tokens(label, tokens):
    """Whether the billions of tokens in a name fit: names round up or down, or use a nominal batch."""
    return abs(label * 1e9 - tokens) <= max(1e9, 0.01 * tokens)


def step_of(stage, groups, name):
    """Steps since the beginning of the stage."""
    batch = stage.schedule.batch
    if groups.get("chunk"):
        return stage.steps_per_chunk * (int(groups["chunk"]) + 1)
    if groups.get("step"):
        step = int(groups["step"])
        if groups.get("tokens") and not same_tokens(float(groups["tokens"]), schedules.tokens_at(batch, step)):
            raise Failure(f"{name}: {groups['tokens']} billion tokens in the name, but step {step} has seen "
                          f"{schedules.tokens_at(batch, step) / 1e9:.1f} billion by the tokens per step of stage {stage.name}")
        return step
    if groups.get("tokens"):
        return round(schedules.steps_at(batch, float(groups["tokens"]) * 1e9))
    raise Failure(f"{name}: the pattern of stage {stage.name} has no group step, tokens or chunk that matched")


def values_at(stage, step):
    """Steps, tokens, rate and phase after a step of a stage."""
    tokens = stage.offset[1] + schedules.tokens_at(stage.schedule.batch, step)
    return stage.offset[0] + step, round(tokens), schedules.rate_at(stage.schedule, step), schedules.phase_at(stage.schedule, step)


def row_of(name, stages):
    """(sort key, row) of a name; None if no stage matches it."""
    for index, stage in enumerate(stages):
        match = stage.pattern.fullmatch(name)
        if not match:
            continue
        groups = match.groupdict()
        others = tuple(text or "" for key, text in sorted(groups.items()) if key not in ("step", "tokens", "chunk"))
        step, tokens, rate, phase = "", "", "", ""
        try:
            if stage.alias:
                step, tokens, rate, phase = values_at(*stage.alias)
            elif stage.schedule:
                step, tokens, rate, phase = values_at(stage, step_of(stage, groups, name))
        except schedules.ScheduleError as error:
            raise Failure(f"{name}: {error}") from error
        if stage.phase:
            phase = fill(stage.phase, {key: text or "" for key, text in groups.items()}, f"[{stage.name}]: phase")
        return (index, others, step or 0), (name, step, tokens, rate if rate == "" else f"{rate:.6g}", phase)
    return None


def rows_of(names, stages, skip):
    """The rows in training order. skip: leave out names that no stage matches, else they are an error."""
    found, skipped = [], []
    for name in dict.fromkeys(names):
        row = row_of(name, stages)
        if row:
            found.append(row)
        else:
            skipped.append(name)
    if skipped and not skip:
        raise Failure(f"{skipped[0]}: no stage has a pattern that matches this name")
    if skipped:
        print(f"left out {len(skipped)} names that no stage matches: {' '.join(skipped[:5])} ...", file=sys.stderr)
    if not found:
        raise Failure("no checkpoint: no name was given, or none matches")
    return [row for _, row in sorted(found, key=lambda item: item[0])]


def format_table(comments, rows):
    text = io.StringIO()
    text.writelines(f"{line}\n" for line in comments)
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    return text.getvalue()


def write(path, text):
    part = f"{path}.part.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


# --- command line ---


def names_for(options, table):
    """The names of a table's checkpoints, before `take`."""
    repo = options.repo or table.hub
    if options.names:
        with (sys.stdin if options.names == "-" else open(options.names, encoding="utf-8")) as file:
            return file.read().split()
    if options.hub or options.repo:
        if not repo:
            raise Failure("--hub: the spec file names no repository (hub = OWNER/NAME)")
        return hub_names(repo)
    return table.names


def one_stage(options):
    """The stage that the arguments describe, in place of a spec file."""
    if not (options.pattern and options.tokens_per_step and options.schedule):
        raise Failure("without a spec file, give --pattern, --tokens-per-step and --schedule, and --repo or --names")
    section = {"pattern": options.pattern, "tokens per step": options.tokens_per_step, "schedule": options.schedule}
    return [], [Table("trajectory", options.repo, [], re.compile(".*"), [read_stage("arguments", section, {}, [], "arguments")])]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", nargs="?", metavar="SPEC.ini", help="file that describes the run")
    parser.add_argument("--hub", action="store_true", help="take the names from the hub repository of the spec file")
    parser.add_argument("--names", metavar="FILE", help="take the names from a file, one a line; - is standard input")
    parser.add_argument("--repo", metavar="OWNER/NAME", help="take the names from this hub repository")
    parser.add_argument("--pattern", help="regular expression of the names, with a group step or tokens")
    parser.add_argument("--tokens-per-step", metavar="N", help="tokens of an optimizer step")
    parser.add_argument("--schedule", metavar="WORDS", help="the learning rate, in words")
    parser.add_argument("--table", metavar="NAME", help="only this one of the tables of the spec file")
    parser.add_argument("--out", metavar="DIR", help="write NAME.csv there (standard output, if there is one table)")
    options = parser.parse_args(argv)
    if options.spec and (options.pattern or options.tokens_per_step or options.schedule):
        parser.error("a spec file describes the stages itself: no --pattern, --tokens-per-step or --schedule")
    if bool(options.hub) + bool(options.names) + bool(options.repo) > 1:
        parser.error("--hub, --names and --repo exclude each other")
    return options


def main(argv):
    options = parse(argv)
    try:
        comments, tables = read_spec(options.spec) if options.spec else one_stage(options)
        if options.table:
            tables = [table for table in tables if table.name == options.table]
        if not tables:
            raise Failure(f"{options.spec}: no table {options.table}")
        if len(tables) > 1 and not options.out:
            raise Failure(f"{options.spec}: {len(tables)} tables: choose one with --table, or say with --out where they go")
        for table in tables:
            names = [name for name in names_for(options, table) if table.take.fullmatch(name)]
            text = format_table(comments, rows_of(names, table.stages, options.hub or bool(options.repo)))
            if options.out:
                write(os.path.join(options.out, f"{table.name}.csv"), text)
            else:
                sys.stdout.write(text)
    except (Failure, schedules.ScheduleError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
