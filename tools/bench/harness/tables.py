"""Tables that people read on a terminal and that docs/measurements.md takes as they are."""


def figure(value):
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def size(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def show(title, head, rows):
    """Prints it, and returns it for whoever writes it down."""
    cells = [head] + [[figure(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    text = "\n".join([f"{title}\n", lines[0], rule, *lines[1:]])
    print(f"\n{text}", flush=True)
    return text
