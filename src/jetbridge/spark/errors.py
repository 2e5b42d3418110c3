"""Reads what Java threw, in whatever form PySpark passes it on.

PySpark turns some exceptions of Java into its own (`PySparkException`) and passes the others as
`Py4JJavaError`. Both hold the Java object. Reading it is a call to the JVM, which may be gone.
"""

from collections.abc import Callable, Iterator
from typing import Any

LONGEST_MESSAGE = 300
# Wrapped exceptions nest a few levels; a cycle of causes would nest for ever.
DEEPEST_CAUSE = 20


def java_class(error: BaseException) -> str:
    """Return the full name of the Java class that was thrown, or "" if Java threw nothing.

    Args:
        error: An exception of Python.

    Examples:
        >>> java_class(ValueError("no Java here"))
        ''
    """
    return next(iter(_ask(error, _name, depth=1)), "")


def java_classes(error: BaseException) -> list[str]:
    """Return the Java class that was thrown, then that of its cause, and so on.

    Args:
        error: An exception of Python; [] if Java threw nothing.

    Examples:
        >>> java_classes(ValueError("no Java here"))
        []
    """
    return _ask(error, _name)


def java_message(error: BaseException) -> str:
    """Return the first line of Java's message, cut to a readable length.

    Args:
        error: An exception of Python; its own message if Java threw nothing.

    Examples:
        >>> java_message(ValueError("table not found\\nat line 1"))
        'table not found'
    """
    text = next(iter(_ask(error, _message, depth=1)), "") or str(error)
    first = next(iter(text.strip().splitlines()), type(error).__name__).strip()
    return first if len(first) <= LONGEST_MESSAGE else f"{first[: LONGEST_MESSAGE - 3]}..."


def is_java(error: BaseException, name: str) -> bool:
    """Return whether Java threw a class, or something that the class caused.

    Args:
        error: An exception of Python.
        name: The full name of the class; subclasses do not count.

    Examples:
        >>> is_java(ValueError("no Java here"), "java.lang.IllegalStateException")
        False
    """
    return name in java_classes(error)


def is_from_spark(error: BaseException) -> bool:
    """Return whether an exception, or its cause, comes from a call to Spark."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - the extra `lake` brings it
    from pyspark.errors import PySparkException  # noqa: PLC0415

    kinds = (Py4JError, PySparkException, ConnectionError, EOFError)
    return any(isinstance(cause, kinds) for cause in _python_chain(error))


def _python_chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    for _ in range(DEEPEST_CAUSE):
        if current is None:
            return
        yield current
        current = current.__cause__ or current.__context__


def _ask(
    error: BaseException, question: Callable[[Any], str], depth: int = DEEPEST_CAUSE
) -> list[str]:
    """Return the answers of a Java exception and its causes, until the JVM does not answer."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - the extra `lake` brings it

    answers: list[str] = []
    # `java_exception` is py4j's name for the Java object, `_origin` PySpark's.
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        while thrown is not None and len(answers) < depth:
            answers.append(question(thrown))
            thrown = thrown.getCause()
    except (Py4JError, OSError):
        pass
    return answers


def _name(thrown: Any) -> str:
    return str(thrown.getClass().getName())


def _message(thrown: Any) -> str:
    return str(thrown.getMessage() or thrown.getClass().getSimpleName())
