"""Window functions; OVER and IGNORE NULLS belong behind the call."""

from typing import Any

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import ANY, FLAT, INTEGERS, Kinds
from jetbridge.pipeline.translate.entries.text import natural, positive


def _window(duckdb: str, spark: str, *takes: Kinds, **more: Any) -> Entry:
    return Entry(duckdb, spark, takes, kind="window", **more)


def _equal(types: tuple[str, ...], result: str) -> bool:
    return types[0] == types[2]


def _neighbours() -> tuple[Entry, ...]:
    offset = {"constants": {1: natural}, "examples": {1: (1, 2, 0)}}
    return tuple(
        entry
        for name in ("lag", "lead")
        for entry in (
            _window(f"{name}({{0}})", f"{name}({{0}})", ANY),
            _window(f"{name}({{0}}, {{1}})", f"{name}({{0}}, {{1}})", ANY, INTEGERS, **offset),
            _window(
                f"{name}({{0}}, {{1}}, {{2}})",
                f"{name}({{0}}, {{1}}, {{2}})",
                *(FLAT, INTEGERS, FLAT),
                fits=_equal,
                **offset,
            ),
        )
    )


ENTRIES: tuple[Entry, ...] = (
    *(
        _window(f"{name}()", f"CAST({name}() AS BIGINT)")
        for name in ("row_number", "rank", "dense_rank")
    ),
    *(_window(f"{name}()", f"{name}()") for name in ("percent_rank", "cume_dist")),
    _window(
        "ntile({0})",
        "CAST(ntile({0}) AS BIGINT)",
        INTEGERS,
        constants={0: positive},
        examples={0: (1, 3, 50)},
    ),
    *_neighbours(),
    *(
        _window(f"{name}({{0}})", f"{spark}({{0}})", ANY)
        for name, spark in (
            ("first_value", "first_value"),
            ("first", "first_value"),
            ("last_value", "last_value"),
            ("last", "last_value"),
        )
    ),
    _window(
        "nth_value({0}, {1})",
        "nth_value({0}, {1})",
        ANY,
        INTEGERS,
        constants={1: positive},
        examples={1: (1, 2, 7)},
    ),
)
