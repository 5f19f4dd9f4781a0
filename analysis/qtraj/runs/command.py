"""The command decide.py: which checkpoint of which run is best once it is quantized."""

import argparse
import sys

from qtraj.cube import files
from qtraj.cube.points import unfinished
from qtraj.cube.trajectories import compact
from qtraj.laws.command import print_table
from qtraj.report.summary import with_error
from qtraj.runs.decide import NORMAL, decide
from qtraj.runs.matched import matched

MOST = 10  # rows beyond the ties


def named(row):
    return f"{row.checkpoint} of {row.run}, {row.quantizer}"


def show(frame, bits, dataset):
    best = frame.iloc[0]
    ties = frame[frame.tie].iloc[1:]
    known = frame.behind_stderr.iloc[1:].notna().any()
    print(f"at {bits} bits the smallest loss on {dataset}, {best.loss:.4f} nats a token, is that of {named(best)}")
    cost = "has the smallest loss" if best.costs == 0 else f"costs {with_error(best.costs, NORMAL * best.costs_stderr)} nats"
    print(f"in full precision it {cost}")
    if known:
        print(f"ties, not told from it: {'; '.join(named(row) for row in ties.itertuples())}" if len(ties) else "no other ties with it")
    rows = [["checkpoint", "tokens", "loss", "behind the best", "full precision", "behind the best there"]]
    for row in frame.head(len(ties) + 1 + MOST).itertuples():
        tokens = compact(row.tokens) if row.tokens == row.tokens else ""
        rows.append([named(row) + (" (tie)" if row.tie and row.Index else ""), tokens, f"{row.loss:.4f}", with_error(row.behind, NORMAL * row.behind_stderr),
                     f"{row.full:.4f}", with_error(row.costs, NORMAL * row.costs_stderr)])
    print_table(rows)
    if len(rows) - 1 < len(frame):
        print(f"  the {len(rows) - 1} smallest losses of {len(frame)}: the best{', its ties' if len(ties) else ''} and the next {len(rows) - 2 - len(ties)}")
    print("  ±: half a 95 % interval, paired over the text's sequences" if known else "  no intervals, so that ties are not known: no losses of sequences")


def show_matched(cube, by, bits, quantizer, dataset):
    """Runs at equal full-precision loss, in the order of the compared column."""
    found = matched(cube, by, bits, quantizer, dataset)
    print(f"\n{quantizer} at {bits} bits, added loss at equal full-precision losses of {found.levels[0]:.4g} to {found.levels[-1]:.4g} nats a token:")
    runs = sorted(found.added, key=lambda run: found.values[run])
    value = [compact(found.values[run]) if isinstance(found.values[run], float) else str(found.values[run]) for run in runs]
    rows = [["run", by, "added loss", f"minus that of {runs[0]}"]]
    for run, text in zip(runs, value):
        change, error = found.differences.get((runs[0], run)) or tuple(s * x for s, x in zip((-1, 1), found.differences.get((run, runs[0]), (0, 0))))
        rows.append([run, text, with_error(found.added[run], NORMAL * found.stderr[run]), "" if run == runs[0] else with_error(change, NORMAL * error)])
    print_table(rows)
    if left := [str(model) for model in cube.model.values if str(model) not in {**found.added, **found.left_out}]:
        print(f"  not compared (branches, or in an earlier file): {', '.join(left)}")
    if found.left_out:
        print(f"  left out: {'; '.join(f'{run} ({why})' for run, why in found.left_out.items())}")
    if found.p == found.p:
        print(f"  order by {by}: concordance {found.concordance:+.2f}, p = {found.p:.2g} (permutations of {len(runs)} runs)")


def main():
    parser = argparse.ArgumentParser(description="Says which checkpoint, or average, of which run has the smallest loss once it is quantized.")
    parser.add_argument("results", nargs="+", help="cubes (HDF5) that qtraj run wrote, their sweep files, or folders of parts")
    parser.add_argument("--bits", type=int, required=True, help="the bit-width")
    parser.add_argument("--quantizer", default="", metavar="LABEL", help="this method alone; default: all")
    parser.add_argument("--dataset", default="", metavar="NAME", help="the text; default: the first")
    parser.add_argument("--compare", metavar="COLUMN", help="also compares the runs at equal full-precision loss, in the order of this column, such as learning_rate")
    options = parser.parse_args()
    try:
        cube = files.open(*options.results)
        dataset = options.dataset or str(cube.dataset.values[0])
        wanted = {"bits": [options.bits], "dataset": dataset, **({"quantizer": options.quantizer} if options.quantizer else {})}
        found = decide(cube, options.bits, dataset, options.quantizer)
        if missing := unfinished(files.select(cube, **wanted)):
            print(f"{missing} at {options.bits} bits; this is of the others:")
        show(found, options.bits, dataset)
        for quantizer in ([options.quantizer] if options.quantizer else map(str, cube.quantizer.values)) if options.compare else []:
            show_matched(cube, options.compare, options.bits, quantizer, options.dataset)
    except ValueError as error:
        sys.exit(str(error))
