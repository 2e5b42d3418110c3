"""Locks of the engine, with real threads: who waits for whom, and how it ends."""

import random
import time
from collections.abc import Iterator
from functools import partial

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    Beside,
    answers,
    connected,
    engine_of_a_module,
    fresh,
    numbers,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import SqlError

engine = pytest.fixture(scope="module")(engine_of_a_module)
LEDGER = "INSERT INTO ledger VALUES ('run', 1)"


@pytest.fixture
def database(engine: DuckEngine) -> str:
    return fresh(engine)


@pytest.fixture
def sessions(engine: DuckEngine, database: str) -> Iterator[tuple[DuckSession, DuckSession]]:
    made = (connected(engine, database), connected(engine, database))
    run(
        made[0],
        "CREATE TABLE ledger (run nvarchar(20) NOT NULL, part int NOT NULL, PRIMARY KEY"
        " (run, part));"
        " CREATE TABLE t (id int NOT NULL PRIMARY KEY, v int);"
        " CREATE TABLE u (id int NOT NULL PRIMARY KEY, v int);"
        " CREATE TABLE heap (id int, v int);"
        " INSERT INTO t VALUES (1, 10), (2, 20); INSERT INTO u VALUES (1, 10), (2, 20)",
    )
    yield made
    for each in made:
        each.cancel()
        each.close()


def test_a_second_loader_waits_for_the_key_and_meets_2627(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    beside = Beside(lambda: answers(two, f"BEGIN TRAN; {LEDGER}"))
    assert beside.waits()
    run(one, "COMMIT")
    assert numbers(beside.result()) == [2627]
    assert value(two, "SELECT @@TRANCOUNT") == 1
    run(two, "ROLLBACK")
    assert value(one, "SELECT COUNT(*) FROM ledger") == 1


def test_a_second_loader_goes_on_when_the_first_rolls_back(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    beside = Beside(lambda: answers(two, f"BEGIN TRAN; {LEDGER}"))
    assert beside.waits()
    run(one, "ROLLBACK")
    assert numbers(beside.result()) == []
    run(two, "COMMIT")
    assert rows(one, "SELECT * FROM ledger") == [("run", 1)]


def test_a_second_loader_goes_on_when_the_first_connection_is_lost(engine, database, sessions):
    lost = connected(engine, database)
    run(lost, f"BEGIN TRAN; {LEDGER}")
    beside = Beside(lambda: answers(sessions[1], LEDGER))
    assert beside.waits()
    lost.close()
    assert numbers(beside.result()) == []
    assert rows(sessions[0], "SELECT * FROM ledger") == [("run", 1)]


def test_keys_that_differ_in_case_only_are_one_key(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    beside = Beside(lambda: answers(two, "INSERT INTO ledger VALUES ('RUN ', 1)"))
    assert beside.waits()
    run(one, "COMMIT")
    assert numbers(beside.result()) == [2627]


def test_other_keys_do_not_wait(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    run(two, "BEGIN TRAN; INSERT INTO ledger VALUES ('run', 2); COMMIT")
    run(one, "COMMIT")
    assert rows(one, "SELECT part FROM ledger ORDER BY part") == [(1,), (2,)]


def test_of_two_that_race_for_a_key_one_loads(sessions):
    """Each round both begin at once; whoever loses finds the key taken and loads nothing."""
    text = (
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT INTO ledger VALUES ('race', {0});"
        " INSERT INTO heap VALUES ({0}, 1); COMMIT"
    )

    def load(session: DuckSession, part: int) -> list[int]:
        return numbers(answers(session, text.format(part)))

    for part in range(15):
        racing = [Beside(partial(load, each, part)) for each in sessions]
        assert sorted(each.result() for each in racing) == [[], [2627]]
    assert rows(sessions[0], "SELECT COUNT(*), COUNT(DISTINCT id) FROM heap") == [(15, 15)]
    assert value(sessions[0], "SELECT COUNT(*) FROM ledger") == 15


def transfers(session: DuckSession, seed: int) -> int:
    """Money moved between accounts, deadlock victims tried again; how many there were."""
    chance, victims = random.Random(seed), 0
    for _ in range(15):
        one, two = chance.sample((1, 2), 2)
        text = (
            f"BEGIN TRAN; UPDATE t SET v = v - 1 WHERE id = {one};"
            f" UPDATE t SET v = v + 1 WHERE id = {two}; COMMIT"
        )
        while found := numbers(answers(session, text)):
            assert found == [1205]
            victims += 1
    return victims


def test_nothing_is_lost_between_accounts(sessions):
    beside = [Beside(partial(transfers, each, at)) for at, each in enumerate(sessions)]
    for each in beside:
        each.result()
    assert value(sessions[0], "SELECT SUM(v) FROM t") == 30


def test_a_wait_may_time_out(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    run(two, "SET LOCK_TIMEOUT 50")
    begun = time.monotonic()
    assert refused(two, LEDGER).number == 1222
    assert 0.04 < time.monotonic() - begun < 30
    run(one, "ROLLBACK")


def test_a_reader_waits_for_uncommitted_rows(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; INSERT INTO t VALUES (3, 30)")
    beside = Beside(lambda: rows(two, "SELECT COUNT(*) FROM t"))
    assert beside.waits()
    run(one, "COMMIT")
    assert beside.result() == [(3,)]


def test_a_reader_that_does_not_wait_sees_what_is_not_committed(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; INSERT INTO t VALUES (3, 30); DELETE FROM t WHERE id = 1")
    assert value(two, "SELECT SUM(v) FROM t WITH (NOLOCK)") == 50
    run(two, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    assert value(two, "SELECT SUM(v) FROM t") == 50
    run(one, "ROLLBACK")
    assert value(two, "SELECT SUM(v) FROM t") == 30


def test_a_reader_of_another_key_does_not_wait(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; UPDATE t SET v = 11 WHERE id = 1")
    assert value(two, "SELECT v FROM t WHERE id = 2") == 20
    beside = Beside(lambda: value(two, "SELECT v FROM t WHERE id = 1"))
    assert beside.waits()
    run(one, "ROLLBACK")
    assert beside.result() == 10


def test_rows_are_locked_one_by_one(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; UPDATE t SET v = v + 1 WHERE id = 1")
    run(two, "BEGIN TRAN; UPDATE t SET v = v + 1 WHERE id = 2; COMMIT")
    run(one, "COMMIT")
    assert rows(one, "SELECT v FROM t ORDER BY id") == [(11,), (21,)]


def test_an_update_waits_and_sees_what_the_first_has_written(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; UPDATE t SET v = v + 1 WHERE id = 1")
    beside = Beside(lambda: run(two, "UPDATE t SET v = v * 2 WHERE id = 1"))
    assert beside.waits()
    run(one, "COMMIT")
    beside.result()
    assert value(one, "SELECT v FROM t WHERE id = 1") == 22


def test_one_of_a_deadlock_is_chosen_and_rolled_back(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; INSERT INTO heap VALUES (1, 1); UPDATE t SET v = 1 WHERE id = 1")
    run(two, "BEGIN TRAN; UPDATE u SET v = 2 WHERE id = 1")
    beside = Beside(lambda: answers(one, "UPDATE u SET v = 1 WHERE id = 1"))
    assert beside.waits()
    found = answers(two, "UPDATE t SET v = 2 WHERE id = 1; SELECT 'not reached'")
    assert numbers(found) == [1205]
    assert [("not reached",)] not in found
    assert value(two, "SELECT @@TRANCOUNT") == 0
    assert numbers(beside.result()) == []
    run(one, "COMMIT")
    assert rows(two, "SELECT v FROM t WHERE id = 1 UNION ALL SELECT v FROM u WHERE id = 1") == [
        (1,),
        (1,),
    ]


def test_the_victim_is_the_one_of_low_priority(sessions):
    one, two = sessions
    run(one, "SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE t SET v = 1 WHERE id = 1")
    run(two, "BEGIN TRAN; UPDATE u SET v = 2 WHERE id = 1")
    beside = Beside(lambda: answers(one, "UPDATE u SET v = 1 WHERE id = 1"))
    assert beside.waits()
    assert numbers(answers(two, "UPDATE t SET v = 2 WHERE id = 1")) == []
    assert numbers(beside.result()) == [1205]
    run(two, "COMMIT")


def test_a_deadlock_on_keys_is_one_too(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; INSERT INTO ledger VALUES ('a', 1)")
    run(two, "BEGIN TRAN; INSERT INTO ledger VALUES ('b', 1)")
    beside = Beside(lambda: answers(one, "INSERT INTO ledger VALUES ('b', 1)"))
    assert beside.waits()
    second = numbers(answers(two, "INSERT INTO ledger VALUES ('a', 1)"))
    assert sorted(second + numbers(beside.result())) == [1205]
    for each in sessions:
        answers(each, "IF @@TRANCOUNT > 0 COMMIT")
    assert value(one, "SELECT COUNT(*) FROM ledger") == 2


def test_a_new_table_is_waited_for(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; CREATE TABLE made (x int)")
    beside = Beside(lambda: answers(two, "SELECT * FROM made"))
    assert beside.waits()
    run(one, "ROLLBACK")
    assert numbers(beside.result()) == [208]


def test_a_table_in_use_is_not_dropped(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; INSERT INTO heap VALUES (1, 1)")
    beside = Beside(lambda: answers(two, "DROP TABLE heap"))
    assert beside.waits()
    run(one, "COMMIT")
    assert numbers(beside.result()) == []
    assert refused(one, "SELECT * FROM heap").number == 208


def test_the_catalog_waits_for_definitions_unless_another_table_is_asked_for(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; CREATE TABLE made (x int)")
    assert value(two, "SELECT COUNT(*) FROM sys.tables WHERE name = 't'") == 1
    assert value(two, "SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('t')") == 2
    assert value(two, "SELECT COUNT(*) FROM sys.tables WITH (NOLOCK)") == 4
    beside = Beside(lambda: value(two, "SELECT COUNT(*) FROM sys.tables"))
    assert beside.waits()
    run(one, "COMMIT")
    assert beside.result() == 5


def test_two_loads_into_one_heap_do_not_wait_for_each_other(sessions):
    one, two = sessions
    for each in sessions:
        run(each, "BEGIN TRAN")
    loads = [each.bulk("INSERT BULK heap (id int, v int) WITH (TABLOCK)") for each in sessions]
    for place, load in enumerate(loads):
        load.append([(place, number) for number in range(1000)])
    assert [load.finish() for load in loads] == [1000, 1000]
    run(one, "COMMIT")
    run(two, "ROLLBACK")
    assert rows(one, "SELECT id, COUNT(*) FROM heap GROUP BY id") == [(0, 1000)]


def test_a_load_waits_for_a_key_that_another_has_loaded(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN")
    first = one.bulk("INSERT BULK t (id int, v int)")
    first.append([(7, 1), (8, 1)])
    first.finish()
    second = two.bulk("INSERT BULK t (id int, v int)")
    second.append([(8, 2), (9, 2)])
    beside = Beside(second.finish)
    assert beside.waits()
    run(one, "COMMIT")
    with pytest.raises(SqlError) as caught:
        beside.result()
    assert caught.value.number == 2627
    assert rows(two, "SELECT id, v FROM t WHERE id > 2 ORDER BY id") == [(7, 1), (8, 1)]


def test_a_table_lock_keeps_others_out(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; SELECT COUNT(*) FROM heap WITH (TABLOCKX)")
    beside = Beside(lambda: run(two, "INSERT INTO heap VALUES (1, 1)"))
    assert beside.waits()
    run(one, "COMMIT")
    beside.result()


def test_what_is_held_for_reading_is_not_written(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; SELECT COUNT(*) FROM t WITH (HOLDLOCK)")
    beside = Beside(lambda: run(two, "INSERT INTO t VALUES (5, 5)"))
    assert beside.waits()
    run(one, "COMMIT")
    beside.result()


def test_application_locks(sessions):
    one, two = sessions
    ask = (
        "DECLARE @r int; EXEC @r = sp_getapplock @Resource = 'x', @LockMode = 'Exclusive', {};"
        " SELECT @r"
    )
    session_owned = "@LockOwner = 'Session', @LockTimeout = 50"
    assert value(one, ask.format(session_owned)) == 0
    assert value(two, ask.format(session_owned)) == -1
    beside = Beside(lambda: value(two, ask.format("@LockOwner = 'Session'")))
    assert beside.waits()
    run(one, "EXEC sp_releaseapplock 'x', 'Session'")
    assert beside.result() == 1
    assert refused(one, "EXEC sp_releaseapplock 'x', 'Session'").number == 1223


def test_an_application_lock_of_a_transaction_ends_with_it(sessions):
    one, two = sessions
    run(one, "BEGIN TRAN; EXEC sp_getapplock 'x', 'Exclusive'")
    ask = (
        "BEGIN TRAN; DECLARE @r int; EXEC @r = sp_getapplock 'x', 'Exclusive', 'Transaction', 0;"
        " SELECT @r; COMMIT"
    )
    assert value(two, ask) == -1
    run(one, "ROLLBACK")
    assert value(two, ask) == 0


def test_a_waiting_statement_can_be_cancelled(sessions):
    one, two = sessions
    run(one, f"BEGIN TRAN; {LEDGER}")
    beside = Beside(lambda: answers(two, LEDGER))
    assert beside.waits()
    two.cancel()
    assert len(numbers(beside.result())) == 1
    assert value(two, "SELECT 1") == 1
    run(one, "COMMIT")


def test_a_running_query_can_be_cancelled(sessions):
    one, _ = sessions
    text = "SELECT COUNT_BIG(*) FROM {0} a CROSS JOIN {0} b CROSS JOIN {0} c CROSS JOIN {0} d"
    beside = Beside(lambda: answers(one, text.format("sys.all_columns")))
    assert beside.waits(0.3)
    one.cancel()
    assert len(numbers(beside.result())) == 1


def test_a_delay_can_be_cancelled(sessions):
    one, _ = sessions
    beside = Beside(lambda: answers(one, "WAITFOR DELAY '00:01:00'"))
    assert beside.waits()
    one.cancel()
    assert len(numbers(beside.result())) == 1
