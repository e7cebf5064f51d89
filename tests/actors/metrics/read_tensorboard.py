"""Reads a folder of event files with TensorBoard's own reader and prints {tag: [[step, value]]}.

Exit 1 where a tag's steps do not strictly increase. Run by tensorboard_test.cpp.
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def read(directory):
    accumulator = EventAccumulator(directory, size_guidance={"scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    return {tag: [[e.step, e.value] for e in accumulator.Scalars(tag)] for tag in tags}


def main():
    series = read(sys.argv[1])
    for tag, points in series.items():
        steps = [step for step, _ in points]
        if any(a >= b for a, b in zip(steps, steps[1:])):
            print(f"{tag}: steps do not strictly increase: {steps}", file=sys.stderr)
            return 1
    json.dump(series, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
