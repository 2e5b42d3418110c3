"""What a change of rows answers."""

import pytest

from jetbridge.backends.mssql.write.update_delete import read_count
from jetbridge.errors import NotSupported


def test_the_count_is_the_only_answer():
    assert read_count([(5,)]) == 5
    for trigger in ([("hello",)], [(1,), (2,)], [(1, 2)], []):
        with pytest.raises(NotSupported, match="trigger"):
            read_count(trigger)
