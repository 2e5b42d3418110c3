"""What Spark's Python workers forget between tasks."""

import importlib
import sys
import zipfile
import zipimport

from jetbridge.spark.workers import forget_archives


def test_archives_are_not_read_again_and_found_when_needed(tmp_path, monkeypatch):
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_one.py", "WORD = 'one'")
        file.writestr("zipped_two.py", "WORD = 'two'")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("zipped_one").WORD == "one"
    assert isinstance(sys.path_importer_cache[str(archive)], zipimport.zipimporter)
    others = {path for path in sys.path_importer_cache if not path.endswith(".zip")}
    forget_archives()
    assert str(archive) not in sys.path_importer_cache
    assert others <= set(sys.path_importer_cache)
    assert importlib.import_module("zipped_two").WORD == "two"
