"""True change of each cell's loss against the change predicted by gradient and Hessian, one panel per bit-width."""

import numpy as np

import style
from cube import widths
from style import plt


def draw(cube, bits):
    if "second_order" not in cube or not np.isfinite(cube.second_order.values).any():
        return None
    bits = widths(cube.sel(bits=[width for width in cube.bits.values
                                 if np.isfinite(cube.second_order.sel(bits=width).values).any()]), bits)
    figure, panels = plt.subplots(1, len(bits), figsize=(1.2 + 3.4 * len(bits), 3.9), squeeze=False)
    for axes, width in zip(panels[0], bits):
        part = cube.sel(bits=width)
        ends = []
        for series, quantizer in enumerate(cube.quantizer.values):
            one = part.sel(quantizer=quantizer)
            true = one.true_difference.values.ravel()
            colour, marker = style.SERIES[series % len(style.SERIES)]
            for predicted, hollow in ((one.first_order + one.second_order, False), (one.second_order, True)):
                axes.plot(predicted.values.ravel(), true, marker, color=colour, linestyle="none",
                          markerfacecolor="white" if hollow else colour, alpha=0.9)
                ends.append(predicted.values.ravel())
            ends.append(true)
        ends = np.concatenate(ends)
        ends = np.array([np.nanmin(ends), np.nanmax(ends)])
        axes.plot(ends, ends, color=style.GREY, linestyle=":", zorder=1)
        axes.set_title(f"{width} bits")
        axes.set_xlabel("predicted: gᵀδ + ½δᵀHδ; hollow: ½δᵀHδ alone (nat)")
        axes.locator_params(axis="x", nbins=5)
    panels[0][0].set_ylabel("true difference of loss (nat)")
    handles = [style.handle(i, str(name)) for i, name in enumerate(cube.quantizer.values)]
    handles.append(plt.Line2D([], [], color=style.GREY, linestyle=":", label="equal"))
    figure.tight_layout(rect=(0, 0.32 / figure.get_figheight(), 1, 1))
    figure.legend(handles=handles, loc="lower center", ncol=len(handles))
    return figure
