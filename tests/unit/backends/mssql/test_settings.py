"""Settings of SQL Server: names, allowed values, first values."""

import pytest

from jetbridge.backends.mssql.settings import SETTINGS, MssqlSettings
from jetbridge.errors import BadRequest


def test_first_values_are_those_of_the_document():
    settings = MssqlSettings()
    assert settings.ctas_drop_on_failure is False
    assert settings.ctas_text_type == "NVARCHAR"
    assert settings.insert_max_rows_per_statement == 1000


def test_every_setting_takes_its_first_value():
    texts = {name: str(each.default) for name, each in SETTINGS.items()}
    assert MssqlSettings().with_changes(texts) == MssqlSettings()


def test_values_are_read_whatever_their_case():
    given = {"mssql_ctas_text_type": "varchar", "MSSQL_CTAS_USE_BCP": "Off"}
    changed = MssqlSettings().with_changes(given)
    assert (changed.ctas_text_type, changed.ctas_use_bcp) == ("VARCHAR", False)


def test_the_kind_of_tables_goes_by_the_name_of_the_extension_too():
    changed = MssqlSettings().with_changes({"mssql_default_table_kind": "COLUMNSTORE"})
    assert changed == MssqlSettings(ctas_table_kind="columnstore")
    assert SETTINGS["mssql_ctas_table_kind"].also == ("mssql_default_table_kind",)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("mssql_ctas_text_type", "TEXT", "'NVARCHAR' or 'VARCHAR'"),
        ("mssql_ctas_use_bcp", "maybe", "true or false"),
        ("mssql_insert_max_rows_per_statement", "1001", "from 1 to 1000"),
        ("mssql_ctas_text_length", "5000", "'max', 'auto' or a number"),
        ("mssql_nonsense", "1", "known: mssql_ctas_drop_on_failure"),
    ],
)
def test_other_values_are_refused_with_what_is_allowed(name, value, allowed):
    with pytest.raises(BadRequest, match=allowed):
        MssqlSettings().with_changes({name: value})
