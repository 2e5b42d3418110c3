"""Caches are bounded, and keep what was used last."""

import threading

from jetbridge.backends.lake.caches import BoundedCache


def test_the_value_used_longest_ago_is_removed():
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]


def test_sizes_are_added_up():
    cache: BoundedCache[str, str] = BoundedCache(10, len)
    cache.put("a", "xxxxxx")
    cache.put("b", "xxxx")
    assert len(cache) == 2
    cache.put("a", "xxxxxxx")
    assert [cache.get(key) for key in "ab"] == ["xxxxxxx", None]
    cache.put("c", "x" * 11)
    assert (cache.get("c"), cache.get("a")) == (None, "xxxxxxx")
    cache.clear()
    assert len(cache) == 0


def test_a_key_is_new_once():
    cache: BoundedCache[tuple[str, ...], bool] = BoundedCache(2)
    assert [cache.add(key) for key in (("a",), ("b", "c"), ("a",), ("b", "c"))] == [
        True,
        True,
        False,
        False,
    ]


def test_threads_share_a_cache():
    cache: BoundedCache[int, int] = BoundedCache(100)
    new: list[int] = []

    def work() -> None:
        for number in range(1_000):
            if cache.add(number % 50):
                new.append(number)
            cache.put(number, number)
            assert cache.get(number) in (number, None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 100
