"""Loss on the evaluation text over training, at full precision and quantized, one panel per method: figure 2 of
arXiv 2510.06213. Error bars are paired standard errors of the difference to full precision."""

import style
from cube import trajectories, widths


def draw(cube, bits):
    lines = trajectories(cube)
    bits = widths(cube, bits)
    datasets, quantizers = cube.dataset.values, cube.quantizer.values
    unit, label = style.progress_scale(cube, lines)
    figure, panels = style.new_figure(len(datasets), len(quantizers), height=3.6, sharey=True)
    for row, dataset in enumerate(datasets):
        for column, quantizer in enumerate(quantizers):
            axes = panels[row][column]
            part = cube.sel(dataset=dataset, quantizer=quantizer)
            for line in lines:
                style.draw_curve(axes, line, unit, part.baseline_loss, 0 * part.baseline_loss, -1)
                for series, width in enumerate(bits):
                    one = part.sel(bits=width)
                    style.draw_curve(axes, line, unit, one.loss, one.loss_delta_stderr, series)
            style.draw_learning_rate(axes, lines, unit, cube, column == len(quantizers) - 1)
            axes.set_title(f"{quantizer}, {dataset}")
            if row == len(datasets) - 1:
                axes.set_xlabel(label)
        panels[row][0].set_ylabel("Loss (nats per token)")
    handles = [style.handle(-1, "full precision")]
    handles += [style.handle(i, f"{width} bits") for i, width in enumerate(bits)]
    style.legend(figure, handles, lines, style.has_learning_rate(cube))
    return figure
