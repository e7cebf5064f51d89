#!/usr/bin/env python3
"""Reads one shard file with the safetensors package and prints what is in it.

    python3 read_checkpoint.py part-00000-of-00002.safetensors

The metadata, then one line for each tensor, sorted by name: name, dtype, shape. Where PyTorch can be
imported, safetensors.torch.load_file must read every tensor with that very shape too (else the
package's own view of the file is all there is: the last line says which). Exits 1 where the package
refuses the file.
"""

import sys

from safetensors import safe_open


def load_with_torch(path: str):
    try:
        from safetensors.torch import load_file
    except ImportError:
        return None
    return load_file(path)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    path = sys.argv[1]
    tensors = load_with_torch(path)
    with safe_open(path, framework="np") as file:
        for key, value in sorted((file.metadata() or {}).items()):
            print(f"# {key} = {value}")
        names = sorted(file.keys())
        for name in names:
            view = file.get_slice(name)
            print(name, view.get_dtype(), list(view.get_shape()))
            if tensors is not None and list(tensors[name].shape) != list(view.get_shape()):
                print(f"{path}: PyTorch reads {name} as {list(tensors[name].shape)}", file=sys.stderr)
                return 1
    if tensors is not None and sorted(tensors) != names:
        print(f"{path}: PyTorch reads other tensors", file=sys.stderr)
        return 1
    print("# read by", "safetensors" if tensors is None else "safetensors.torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
