"""`python -m benchmarks [PART [SUITES]]`; without a part, all of them."""

import sys
from importlib import import_module

# Each in a module of its own, with a `main` that takes the arguments.
_PARTS = ("service", "lake", "pipeline", "mssql")


def main() -> int:
    part, *rest = sys.argv[1:] or [""]
    if part and part not in _PARTS:
        print(f"usage: python -m benchmarks [{'|'.join(_PARTS)}] [-h] ...", file=sys.stderr)
        return 2
    chosen = [part] if part else _PARTS
    return max(int(import_module(f"benchmarks.{name}").main(rest)) for name in chosen)


if __name__ == "__main__":
    sys.exit(main())
