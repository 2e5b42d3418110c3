import sys

from benchmarks.service import main

if __name__ == "__main__":
    sys.exit(main())
