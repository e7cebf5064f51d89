"""Reads the scalars of a TensorBoard event file, as far as ftrt writes them (actors/metrics)."""

import dataclasses
import pathlib
import struct


@dataclasses.dataclass
class Point:
    tag: str
    step: int
    value: float
    wall_time: float  # seconds since 1970, when control wrote it down


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data):
    """(number, value) of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            raise ValueError(f"protobuf: expected a wire type of 0, 1, 2 or 5, found {kind}")
        yield key >> 3, value


def _records(data):
    at = 0
    while at + 12 <= len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        yield data[at + 12:at + 12 + length]
        at += 12 + length + 4


def read_points(folder):
    """Every point of the folder's event files, in the order in which they were written."""
    points = []
    for file in sorted(pathlib.Path(folder).glob("*tfevents*")):
        for record in _records(file.read_bytes()):
            event = dict(_fields(record))
            for _, value in _fields(event.get(5, b"")):
                scalar = dict(_fields(value))
                points.append(Point(scalar[1].decode(), event.get(2, 0), scalar.get(2, 0.0), event[1]))
    return points
