"""The tables of this benchmark, and the aims with their verdicts."""

from harness import tables
from harness.ftrt_faults import percentile


class Report:
    def __init__(self):
        self.rows, self.texts = [], []

    def table(self, title, head, rows, note=""):
        self.texts.append(tables.show(title, head, rows) + (f"\n\n{note}" if note else ""))
        if note:
            print(f"\n{note}")

    def aim(self, what, measured, met):
        """`met`: True, False, or a text that says why there is no verdict."""
        self.rows.append([what, measured, met if isinstance(met, str) else "met" if met else "missed"])

    def at_most(self, what, limit, unit, values, p99=None, scale=1.0):
        """Against the median, and, where the aim has one, the 99th percentile of `values`."""
        if not values:
            return self.aim(what, "no fault was measured", "not measured")
        middle, high = percentile(values, 0.5) * scale, percentile(values, 0.99) * scale
        enough = len(values) >= 100
        measured = (f"median {tables.figure(middle)} {unit}, {'p99' if enough else 'highest'} "
                    f"{tables.figure(high)} {unit}, of {len(values)}")
        if p99 is not None and middle <= limit and high <= p99 and not enough:
            return self.aim(what, measured, "met so far: too few faults for a p99")
        met = middle <= limit and (p99 is None or high <= p99)
        if met and p99 is None and high > limit:
            return self.aim(what, measured, "met by the median, not by the slowest hundredth"
                            if enough else "met by the median, not by the slowest")
        return self.aim(what, measured, met)

    def finish(self, taken, file):
        aims = tables.show("The aims, and what was measured", ["aim", "measured", "verdict"], self.rows)
        file.write_text("\n\n".join([taken, *("## " + text for text in [aims, *self.texts])]) + "\n")
