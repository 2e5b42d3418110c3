"""When the background sweeps begin and end, and which grace counts."""

import gc
import threading
import time
import weakref
from pathlib import Path

from jetbridge.backends.lake.maintenance.sweeper import Grace, Sweeper
from jetbridge.backends.lake.warehouse.dropped_tables import DroppedTable
from tests.unit.backends.lake.recorded_lake import RecordedLake

AT_ONCE = Grace(files=0, dropped=0)


def test_a_sweep_on_demand_does_not_take_the_grace_of_the_background(recorded: RecordedLake):
    sweeper = Sweeper(recorded.lake)
    sweeper.start(AT_ONCE)
    sweeper.stop(60)
    folder = Path(recorded.lake.warehouse.folder, "s/gone")
    (folder / "data").mkdir(parents=True)
    recorded.lake.warehouse.dropped.add(DroppedTable(str(folder), "s.gone", time.time()))
    assert not sweeper.sweep()
    assert folder.exists(), "someone may read it yet"
    assert sweeper.sweep(AT_ONCE).tables == ["s.gone"]
    assert not folder.exists()


def test_a_sweeper_that_never_starts_is_freed_at_once(recorded: RecordedLake):
    gc.disable()
    try:
        sweeper = Sweeper(recorded.lake)
        reference = weakref.ref(sweeper)
        del sweeper
        assert reference() is None
    finally:
        gc.enable()


def test_threads_may_start_a_sweeper_at_the_same_time(recorded: RecordedLake):
    errors: list[RuntimeError] = []
    for _ in range(30):
        sweeper = Sweeper(recorded.lake)
        barrier = threading.Barrier(4)

        def start(sweeper: Sweeper = sweeper, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                sweeper.start()
            except RuntimeError as error:
                errors.append(error)

        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sweeper.stop(60)
    assert errors == []
