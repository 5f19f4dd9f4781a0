"""Loss of the quantized model against the loss at full precision, a row a model and text, a column a bit-width, one curve a
run and method in training order. The distance above the bisector is the added loss, and the bars are its."""

import numpy as np

import style
from cube import checkpoint_labels, families, widths, with_replicates


def draw_line(axes, line, base, cells, series):
    colour = series[0]
    (_, x), (_, y) = line.curve(base), line.curve(cells.loss)
    bars = [None if part is None else line.curve(part)[1]
            for part in (cells.loss_delta_stderr, with_replicates(cells, "loss_delta", "loss_delta_stderr"))]
    axes.plot(x, y, color=colour, linestyle=style.dash(line), linewidth=1, alpha=0.7, zorder=3)
    known = np.isfinite(x) & np.isfinite(y)
    known[0] &= line.fork < 0  # a branch starts without a marker on the run that it left
    style.draw_points(axes, x[known], y[known], *(None if part is None else part[known] for part in bars), series,
                      style.marker_style(colour, line.number))


def label_panel(axes, cube, lines, part):
    """Steps at the first and the last point of each run, of the method that lies highest, where there is space."""
    highest = int(np.argmax(np.nan_to_num(part.loss.max(("model", "checkpoint")).values, nan=-1)))
    points, labels, others = [], [], []
    for line in (line for line in lines if not line.average):
        names = checkpoint_labels(cube, line)
        for i in range(len(part.quantizer)):
            found = list(zip(line.own(part.baseline_loss), line.own(part.loss.isel(quantizer=i))))
            if i == highest:
                points += [found[0], found[-1]]
                labels += [names[0], names[-1]]
            others += found[1:-1] if i == highest else found
    style.label_points(axes, points, labels, avoid=others)


def draw(cube, bits):
    bits = widths(cube, bits)
    groups = families(cube, averages=True)
    rows = [(lines, cube.sel(dataset=dataset)) for lines in groups for dataset in cube.dataset.values]
    figure, panels = style.new_figure(len(rows), len(bits), width=3.1 if len(bits) < 5 else max(2.2, 13 / len(bits)), height=3.0)
    for (lines, part), row in zip(rows, panels):
        base = np.concatenate([line.own(part.baseline_loss) for line in lines])
        for axes, width in zip(row, bits):
            for i in range(len(cube.quantizer)):
                cells = part.sel(bits=width).isel(quantizer=i)
                for line in lines:
                    if np.isfinite(line.own(cells.loss)).any():
                        draw_line(axes, line, part.baseline_loss, cells, style.series_of(i))
            if np.isfinite(base).any():
                ends = [np.nanmin(base), np.nanmax(base)]
                axes.plot(ends, ends, color=style.GREY, linestyle=":", zorder=1)
            style.title(axes, lines[0].model, f"{width} bits", str(part.dataset.values))
            axes.set_xlabel("Full-precision loss (nats a token)")
        row[0].set_ylabel("Quantized loss (nats a token)")
    style.finish(figure, style.quantizer_handles(cube)
                 + [style.plt.Line2D([], [], color=style.GREY, linestyle=":", label="equal (nothing lost)")]
                 + style.context_handles([line for lines in groups for line in lines]))
    for (lines, part), row in zip(rows, panels):
        for axes, width in zip(row, bits):
            label_panel(axes, cube, lines, part.sel(bits=width))
    return figure
