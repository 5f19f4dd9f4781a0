"""What the figures of fits share."""

from matplotlib import ticker

from qtraj.cube.trajectories import compact
from qtraj.figures import colours, style


def logarithmic(axes, *which):
    """Logarithmic axes with numbers at powers of ten, or at 1, 2 and 5 times those where the range is short."""
    for name in which:
        getattr(axes, f"set_{name}scale")("log")
        low, high = getattr(axes, f"get_{name}lim")()
        axis = getattr(axes, f"{name}axis")
        if high / low < 50:
            axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: compact(value)))
        else:
            axis.set_major_locator(ticker.LogLocator(numticks=5))
        axis.set_minor_formatter(ticker.NullFormatter())


def legend_of_widths(points):
    return [style.handle(colours.of_bits(bits), f"{bits:g} bits") for bits in sorted(set(points.bits))]
