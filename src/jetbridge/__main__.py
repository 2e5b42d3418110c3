"""`python -m jetbridge` is the command `jetbridge`."""

import sys

from jetbridge.cli import main

sys.exit(main())
