#!/usr/bin/env python3
"""Reads one shard file with the safetensors package and prints what is in it.

    python3 read_checkpoint.py part-00000-of-00002.safetensors

One line for each tensor, sorted by name: name, dtype, shape. With --bytes also the first bytes, in
hex, so that a test can compare them. Exits 1 where the package refuses the file.
"""

import sys

from safetensors import safe_open
from safetensors.torch import load_file


def main() -> int:
    arguments = [a for a in sys.argv[1:] if a != "--bytes"]
    show_bytes = "--bytes" in sys.argv[1:]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with safe_open(arguments[0], framework="pt") as file:
        for key, value in sorted((file.metadata() or {}).items()):
            print(f"# {key} = {value}")
    for name, tensor in sorted(load_file(arguments[0]).items()):
        line = f"{name} {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        if show_bytes:
            raw = bytes(tensor.contiguous().flatten().view(dtype=__import__("torch").uint8).tolist())
            line += " " + raw[:8].hex()
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
