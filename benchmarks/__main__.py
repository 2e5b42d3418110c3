"""Run `python -m benchmarks [PART [SUITES]]`; without a part, run all of them."""

import sys
from importlib import import_module

# Each part is a module with a function `main`, which gets the arguments.
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
