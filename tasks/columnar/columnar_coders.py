"""Layouts, which turn numbers of 32 bits into symbols, and coders, which turn symbols into bytes.

A layout says how many bits its symbols have. A coder takes symbols of any width: those of the standard library read
them as bytes, the others as numbers.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Numbers to symbols of the type `kind`, and back. A decoder is told how many numbers there were."""

    kind: str
    encode: Callable[[np.ndarray], np.ndarray]
    decode: Callable[[np.ndarray, int], np.ndarray]


class Coder(NamedTuple):
    """Symbols to bytes, and the numbers that a decoder needs beside them; and back to symbols of a type."""

    encode: Callable[[np.ndarray], tuple[bytes, list[int]]]
    decode: Callable[[bytes, list[int], str], np.ndarray]
    needs: int


# Layouts


def _bytes_of(x: np.ndarray, kind: str = "<u4") -> np.ndarray:
    return np.frombuffer(x.astype(kind).tobytes(), np.uint8)


def _planes(x: np.ndarray) -> np.ndarray:
    """All lowest bytes, then all second ones, …"""
    return np.ascontiguousarray(_bytes_of(x).reshape(-1, 4).T).ravel()


def _unplanes(symbols: np.ndarray, _: int) -> np.ndarray:
    return np.ascontiguousarray(symbols.reshape(4, -1).T).ravel().view("<u4")


def _halves(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(_bytes_of(x).view("<u2").reshape(-1, 2).T).ravel()


def _unhalves(symbols: np.ndarray, _: int) -> np.ndarray:
    return np.ascontiguousarray(symbols.reshape(2, -1).T).ravel().view("<u4")


def _nibbles(x: np.ndarray) -> np.ndarray:
    """Planes of four bits, two numbers in a byte."""
    planes = (x[None, :] >> np.arange(0, 32, 4, dtype=np.uint32)[:, None]) & np.uint32(15)
    flat = planes.ravel().astype(np.uint8)
    return flat[0::2] | (flat[1::2] << 4)


def _unnibbles(symbols: np.ndarray, count: int) -> np.ndarray:
    planes = np.stack([symbols & 15, symbols >> 4], axis=1).reshape(8, count).astype(np.uint32)
    return np.bitwise_or.reduce(planes << np.arange(0, 32, 4, dtype=np.uint32)[:, None], axis=0)


def _bits(x: np.ndarray) -> np.ndarray:
    """Planes of one bit, eight numbers in a byte."""
    return np.packbits(np.unpackbits(_bytes_of(x), bitorder="little").reshape(-1, 32).T.ravel())


def _unbits(symbols: np.ndarray, count: int) -> np.ndarray:
    planes = np.unpackbits(symbols)[: 32 * count].reshape(32, count)
    return np.packbits(planes.T.ravel(), bitorder="little").view("<u4")


def _sevens(x: np.ndarray) -> np.ndarray:
    """Seven bits a byte, the lowest first, and a bit that says whether more follow."""
    shifts = np.arange(0, 35, 7, dtype=np.uint64)
    rest = x.astype(np.uint64)[:, None] >> shifts
    more = np.concatenate([rest[:, 1:] != 0, np.zeros((len(x), 1), bool)], axis=1)
    there = np.concatenate([np.ones((len(x), 1), bool), more[:, :-1]], axis=1)
    return ((rest & np.uint64(127)) | (more * np.uint64(128))).astype(np.uint8)[there]


def _unsevens(symbols: np.ndarray, count: int) -> np.ndarray:
    ends = np.flatnonzero(symbols < 128)
    number = np.searchsorted(ends, np.arange(len(symbols)))
    place = np.arange(len(symbols)) - np.concatenate([[0], ends[:-1] + 1])[number] if count else number
    parts = (symbols & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    values = np.zeros(count, np.uint64)
    np.add.at(values, number, parts)
    return values.astype(np.uint32)


ESCAPE = 255


def _escape(x: np.ndarray) -> np.ndarray:
    """Numbers below ESCAPE in one byte, then the planes of all others."""
    large = x[x >= ESCAPE]
    return np.concatenate([np.minimum(x, ESCAPE).astype(np.uint8), _planes(large)])


def _unescape(symbols: np.ndarray, count: int) -> np.ndarray:
    values = symbols[:count].astype(np.uint32)
    values[values == ESCAPE] = _unplanes(symbols[count:], 0)
    return values


def _turn(x: np.ndarray, by: int) -> np.ndarray:
    """Every by-th number, then their neighbours, …, in planes."""
    return _planes(np.concatenate([x[first::by] for first in range(by)]))


def _unturn(symbols: np.ndarray, count: int, by: int) -> np.ndarray:
    flat, values, begun = _unplanes(symbols, count), np.empty(count, np.uint32), 0
    for first in range(by):
        part = values[first::by]
        part[:] = flat[begun : begun + len(part)]
        begun += len(part)
    return values


LAYOUTS = {
    "wide": Layout("<u4", lambda x: x.astype("<u4"), lambda symbols, _: symbols),
    "big": Layout("<u1", partial(_bytes_of, kind=">u4"), lambda symbols, _: symbols.view(">u4")),
    "shuffle": Layout("<u1", _planes, _unplanes),
    "halves": Layout("<u2", _halves, _unhalves),
    "nibbles": Layout("<u1", _nibbles, _unnibbles),
    "bits": Layout("<u1", _bits, _unbits),
    "sevens": Layout("<u1", _sevens, _unsevens),
    "escape": Layout("<u1", _escape, _unescape),
    "turn2": Layout("<u1", partial(_turn, by=2), partial(_unturn, by=2)),
    "turn4": Layout("<u1", partial(_turn, by=4), partial(_unturn, by=4)),
}


# Coders


def _put(values: np.ndarray, widths: np.ndarray) -> bytes:
    """The lowest `widths` bits of each value, one after the other, the highest first."""
    most = int(widths.max(initial=0))
    place = np.arange(most)
    there = place < widths[:, None]
    shift = np.where(there, widths[:, None] - 1 - place, 0).astype(np.uint64)
    bits = ((values.astype(np.uint64)[:, None] >> shift) & np.uint64(1)).astype(np.uint8)
    return np.packbits(bits[there]).tobytes()


def _take(data: bytes, widths: np.ndarray) -> np.ndarray:
    """Undoes _put."""
    most = int(widths.max(initial=0))
    place = np.arange(most)
    there = place < widths[:, None]
    bits = np.zeros(there.shape, np.uint64)
    bits[there] = np.unpackbits(np.frombuffer(data, np.uint8))[: int(widths.sum())]
    shift = np.where(there, widths[:, None] - 1 - place, 0).astype(np.uint64)
    return (bits << shift).sum(axis=1, dtype=np.uint64)


def _unary(counts: np.ndarray) -> bytes:
    """So many zeros and a one, for each count."""
    ends = np.cumsum(counts.astype(np.int64) + 1)
    bits = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    bits[ends - 1] = 1
    return np.packbits(bits).tobytes()


def _counts(data: bytes) -> np.ndarray:
    """Undoes _unary."""
    return np.diff(np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8))), prepend=-1) - 1


def _rice(symbols: np.ndarray) -> tuple[bytes, list[int]]:
    """Each symbol over 2^low in unary, then the rest in `low` bits; `low` is the best one."""
    width, values = 8 * symbols.dtype.itemsize, symbols.astype(np.int64)
    costs = [int((values >> low).sum()) + low * len(values) for low in range(width + 1)]
    low = int(np.argmin(costs))
    upper = _unary(values >> low)
    return upper + _put(values & ((1 << low) - 1), np.full(len(values), low)), [low, len(upper)]


def _unrice(data: bytes, beside: list[int], kind: str) -> np.ndarray:
    low, length = beside
    upper = _counts(data[:length])
    return ((upper << low) | _take(data[length:], np.full(len(upper), low)).astype(np.int64)).astype(kind)


def _gamma(symbols: np.ndarray) -> tuple[bytes, list[int]]:
    """Elias's gamma code of each symbol + 1: its length in unary, then its bits but the first."""
    values = symbols.astype(np.int64) + 1
    widths = _lengths(values) - 1
    upper = _unary(widths)
    return upper + _put(values, widths), [len(upper)]


def _ungamma(data: bytes, beside: list[int], kind: str) -> np.ndarray:
    widths = _counts(data[: beside[0]])
    return (_take(data[beside[0] :], widths).astype(np.int64) + (1 << widths) - 1).astype(kind)


BLOCK = 64


def _pack(symbols: np.ndarray) -> tuple[bytes, list[int]]:
    """Blocks of symbols in as many bits as the largest of the block needs."""
    values = symbols.astype(np.int64)
    widths = [int(_lengths(values[first : first + BLOCK]).max()) for first in range(0, len(values), BLOCK)]
    return bytes(widths) + _put(values, np.repeat(widths, BLOCK)[: len(values)]), [len(values)]


def _unpack(data: bytes, beside: list[int], kind: str) -> np.ndarray:
    blocks = -(-beside[0] // BLOCK)
    widths = np.repeat(np.frombuffer(data[:blocks], np.uint8).astype(np.int64), BLOCK)[: beside[0]]
    return _take(data[blocks:], widths).astype(kind)


def _lengths(values: np.ndarray) -> np.ndarray:
    """How many bits each value below 2^53 has."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _library(encode: Callable[[bytes], bytes], decode: Callable[[bytes], bytes]) -> Coder:
    return Coder(
        lambda symbols: (encode(symbols.tobytes()), []),
        lambda data, _, kind: np.frombuffer(decode(data), kind).copy(),
        0,
    )


def _deflate(data: bytes, strategy: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(data) + packer.flush()


_FILTERS = [{"id": lzma.FILTER_LZMA2, "dict_size": 4096, "lc": 0, "lp": 0, "pb": 0, "mode": lzma.MODE_NORMAL}]
_inflate = partial(zlib.decompress, wbits=-15)
CODERS = {
    "store": _library(bytes, bytes),
    "zlib": _library(partial(_deflate, strategy=zlib.Z_DEFAULT_STRATEGY), _inflate),
    "huffman": _library(partial(_deflate, strategy=zlib.Z_HUFFMAN_ONLY), _inflate),
    "bz2": _library(partial(bz2.compress, compresslevel=1), bz2.decompress),
    "lzma": _library(
        partial(lzma.compress, format=lzma.FORMAT_RAW, filters=_FILTERS),
        partial(lzma.decompress, format=lzma.FORMAT_RAW, filters=_FILTERS),
    ),
    "rice": Coder(_rice, _unrice, 2),
    "gamma": Coder(_gamma, _ungamma, 1),
    "pack": Coder(_pack, _unpack, 1),
}
