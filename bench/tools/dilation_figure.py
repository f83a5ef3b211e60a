"""The figure of docs/time.md as SVG: emulated step over that of the least dilation. Pure."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 760, 300
LEFT, TOP, RIGHT, BOTTOM = 50, 20, 300, 40
LOW, HIGH, AGREES = 0.85, 1.15, 0.05
COLOURS = ("#2f7ed8", "#d9730d", "#c2417c", "#1f9d6b", "#8b6cd9", "#a08300", "#1797a6", "#d64545")
Line = tuple[str, Sequence[float], Sequence[float]]
"""Name, dilations, and ratios of emulated steps."""


def figure(lines: Sequence[Line]) -> str:
    """A line for each experiment, against the dilation in multiples of the least one."""
    most = max((xs[-1] / xs[0] for _, xs, _ in lines), default=4)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - 1) / max(most - 1, 1e-9) * (WIDTH - LEFT - RIGHT)
        down = TOP + (HIGH - min(max(y, LOW), HIGH)) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)

    (left, high), (right, low) = place(1, 1 + AGREES), place(most, 1 - AGREES)
    parts = [
        f'<rect x="{left}" y="{high}" width="{right - left}" height="{low - high}" fill="#e8e8e8"/>'
    ]
    for y in (0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15):
        _, down = place(1, y)
        parts.append(_text(LEFT - 8, down + 4, f"{y:g}", "end"))
        parts.append(f'<path d="M{left} {down}H{right}" stroke="#ccc"/>')
    for x in (1, 2, 4):
        parts.append(_text(place(x, 1)[0], HEIGHT - 22, f"{x} K", "middle"))
    parts.append(_text((left + right) / 2, HEIGHT - 5, "time dilation", "middle"))
    for number, (name, xs, ys) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join("{},{}".format(*place(x / xs[0], y)) for x, y in zip(xs, ys, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        down = TOP + 13 * number
        parts.append(f'<path d="M{right + 20} {down}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(right + 44, down + 4, name, "start"))
    title = "Emulated step over the step at the least dilation K; grey: within 5 %"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="11" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
