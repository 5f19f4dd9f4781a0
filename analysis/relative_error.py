"""Relative error CE(quantized)/CE - 1 over training, one panel per bit-width: figure 1 of arXiv 2510.06213."""

import style
from cube import trajectories, widths


def draw(cube, bits):
    lines = trajectories(cube)
    bits = widths(cube, bits)
    datasets = cube.dataset.values
    unit, label = style.progress_scale(cube, lines)
    figure, panels = style.new_figure(len(datasets), len(bits))
    for row, dataset in enumerate(datasets):
        for column, width in enumerate(bits):
            axes = panels[row][column]
            part = cube.sel(dataset=dataset, bits=width)
            for series, quantizer in enumerate(cube.quantizer.values):
                one = part.sel(quantizer=quantizer)
                for line in lines:
                    style.draw_curve(axes, line, unit, 100 * one.loss_relative, 100 * one.loss_relative_stderr, series)
            style.draw_learning_rate(axes, lines, unit, cube, column == len(bits) - 1)
            axes.set_title(f"{width} bits, {dataset}")
            if row == len(datasets) - 1:
                axes.set_xlabel(label)
        panels[row][0].set_ylabel("Relative error CE(q)/CE − 1 (%)")
    style.legend(figure, [style.handle(i, str(name)) for i, name in enumerate(cube.quantizer.values)], lines,
                 style.has_learning_rate(cube))
    return figure
