"""Runs the command `jetbridge` for `python -m jetbridge`."""

import sys

from jetbridge.cli import main

sys.exit(main())
