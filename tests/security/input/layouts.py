"""Generate valid Arrow arrays of every layout: gaps, overlaps, NULLs, slices, at any depth."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Make = Callable[[random.Random, int, int], pa.Array]
WORDS = ["", "a", "ü", "jet", "x" * 13, "bridge " * 4, None]
SMALL_INDEX = 100


def _mask(rng: random.Random, count: int) -> pa.Array:
    share = rng.choice([0, 0, 0.3, 1])
    return pa.array([rng.random() < share for _ in range(count)], pa.bool_())


def texts(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    return pa.array([rng.choice(WORDS) for _ in range(count)], pa.string())


def numbers(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    return pa.array([rng.choice([None, *range(9)]) for _ in range(count)], pa.int64())


def dictionary(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    values = rng.choice([texts, numbers])(rng, rng.choice([1, 7, SMALL_INDEX]), 0)
    index = rng.choice([pa.int8(), pa.uint8(), pa.int32(), pa.uint64()])
    numbers_ = [rng.randrange(len(values)) for _ in range(count)]
    indices = pa.array(numbers_, index, mask=np.asarray(_mask(rng, count)))
    return pa.DictionaryArray.from_arrays(indices, values)


def runs(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    if not count:
        return pc.run_end_encode(pa.array([], pa.string()))
    ends = sorted({count, *(rng.randrange(1, count + 1) for _ in range(count // 3))})
    values = rng.choice([texts, numbers, dictionary])(rng, len(ends), 0)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), values)


def views(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    if rng.random() < 0.5:
        return texts(rng, count).cast(pa.string_view())
    return texts(rng, count).cast(pa.binary()).cast(pa.binary_view())


def json(rng: random.Random, count: int, depth: int = 0) -> pa.Array:
    values = [rng.choice(["1", '"a"', "[1, 2]", None]) for _ in range(count)]
    storage = rng.choice([pa.string(), pa.string_view(), pa.large_string()])
    return pa.json_(storage).wrap_array(pa.array(values, storage))


def lists(rng: random.Random, count: int, depth: int) -> pa.Array:
    """Return lists with values before, behind and inside of NULLs."""
    sizes = [rng.randrange(4) for _ in range(count)]
    before = rng.randrange(3)
    offsets = pa.array(np.cumsum([before, *sizes]), pa.int32())
    child = anything(rng, before + sum(sizes) + rng.randrange(3), depth - 1)
    return pa.ListArray.from_arrays(offsets, child, mask=_mask(rng, count))


def list_views(rng: random.Random, count: int, depth: int) -> pa.Array:
    """Return list views that overlap, leave gaps, and run backwards."""
    length = rng.randrange(12)
    child = anything(rng, length, depth - 1)
    starts = [rng.randrange(length + 1) for _ in range(count)]
    sizes = [rng.randrange(min(length - start, 5) + 1) for start in starts]
    large = rng.random() < 0.3
    number = pa.int64() if large else pa.int32()
    kind = pa.LargeListViewArray if large else pa.ListViewArray
    return kind.from_arrays(
        pa.array(starts, number), pa.array(sizes, number), child, mask=_mask(rng, count)
    )


def arrays(rng: random.Random, count: int, depth: int) -> pa.Array:
    size = rng.choice([1, 3])
    child = anything(rng, count * size, depth - 1)
    kind = pa.list_(pa.field("item", child.type), size)
    return pa.FixedSizeListArray.from_arrays(child, type=kind, mask=_mask(rng, count))


def structs(rng: random.Random, count: int, depth: int) -> pa.Array:
    children = [anything(rng, count, depth - 1), anything(rng, count, depth - 2)]
    return pa.StructArray.from_arrays(children, ["x", "y"], mask=_mask(rng, count))


def maps(rng: random.Random, count: int, depth: int) -> pa.Array:
    sizes = [rng.randrange(3) for _ in range(count)]
    total = sum(sizes)
    keys = pa.array([f"key {i}" for i in range(total)], pa.string())
    if rng.random() < 0.5:
        keys = keys.dictionary_encode()
    offsets = pa.array(np.cumsum([0, *sizes]), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, anything(rng, total, depth - 1))


def unions(rng: random.Random, count: int, depth: int) -> pa.Array:
    codes = [rng.randrange(2) for _ in range(count)]
    types = pa.array(codes, pa.int8())
    if rng.random() < 0.7:
        members = [anything(rng, count, depth - 1), texts(rng, count)]
        return pa.UnionArray.from_sparse(types, members, ["a", "b"])
    members = [anything(rng, 4, depth - 1), texts(rng, 4)]
    offsets = pa.array(sorted(rng.randrange(4) for _ in range(count)), pa.int32())
    return pa.UnionArray.from_dense(types, offsets, members, ["a", "b"])


FLAT: tuple[Make, ...] = (texts, numbers, dictionary, dictionary, runs, views, json)
NESTED: tuple[Make, ...] = (lists, list_views, list_views, arrays, structs, maps, unions)


def anything(rng: random.Random, count: int, depth: int) -> Any:
    """Return an array of `count` values of a random layout, perhaps a slice of a larger one."""
    before, behind = (rng.randrange(3), rng.randrange(3)) if rng.random() < 0.4 else (0, 0)
    make = rng.choice(NESTED if depth > 0 and rng.random() < 0.8 else FLAT)
    return make(rng, before + count + behind, depth).slice(before, count)
