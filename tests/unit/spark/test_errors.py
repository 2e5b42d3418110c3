import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from jetbridge.errors import NotFound
from jetbridge.spark.errors import is_from_spark, is_java, java_class, java_classes, java_message

CONFLICT = "org.apache.iceberg.exceptions.CommitFailedException"
WRAPPER = "org.apache.spark.SparkException"


class Thrown:
    """What py4j shows of a Java exception."""

    def __init__(self, name, message=None, cause=None):
        self._name, self._message, self._cause = name, message, cause

    def getClass(self):
        return self

    def getName(self):
        return self._name

    def getSimpleName(self):
        return self._name.rpartition(".")[2]

    def getMessage(self):
        return self._message

    def getCause(self):
        return self._cause


class Gone(Thrown):
    def getClass(self):
        raise Py4JNetworkError("the JVM is gone")


class FromPy4j(Exception):
    """Py4JJavaError, which cannot be made without a JVM."""

    def __init__(self, thrown):
        super().__init__("An error occurred while calling o1.x")
        self.java_exception = thrown


class Captured(Exception):
    """PySpark's own wrapper."""

    def __init__(self, thrown):
        super().__init__("captured")
        self._origin = thrown


@pytest.mark.parametrize("wrap", [FromPy4j, Captured])
def test_class_and_causes_are_read_from_either_wrapper(wrap):
    error = wrap(Thrown(WRAPPER, "Job aborted", Thrown(CONFLICT, "someone was first")))
    assert java_class(error) == WRAPPER
    assert java_classes(error) == [WRAPPER, CONFLICT]
    assert is_java(error, CONFLICT)
    assert not is_java(error, "java.lang.Error")


def test_error_of_python_has_no_java_class():
    assert java_class(ValueError("x")) == ""
    assert java_message(ValueError("x")) == "x"
    assert java_message(ValueError()) == "ValueError"
    assert not is_java(ValueError("x"), WRAPPER)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("first\nsecond", "first"),
        ("  padded  ", "padded"),
        (None, "SparkException"),
        ("x" * 1000, "x" * 297 + "..."),
    ],
)
def test_message_is_its_first_line_cut_short(message, expected):
    assert java_message(FromPy4j(Thrown(WRAPPER, message))) == expected


def test_dead_jvm_is_not_asked_for_long():
    error = FromPy4j(Gone(WRAPPER))
    assert java_classes(error) == []
    assert java_class(error) == ""


def test_cycle_of_causes_ends():
    thrown = Thrown(WRAPPER)
    thrown._cause = thrown
    assert set(java_classes(FromPy4j(thrown))) == {WRAPPER}


@pytest.mark.parametrize("cause", [Py4JError("x"), ConnectionResetError(), EOFError()])
def test_error_that_spark_caused_is_known_by_its_cause(cause):
    with pytest.raises(NotFound) as caught:
        raise NotFound("table", "t") from cause
    assert is_from_spark(caught.value)
    assert not is_from_spark(NotFound("table", "t"))
