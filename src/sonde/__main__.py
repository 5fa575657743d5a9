"""The command line as a module: ``python -m sonde``."""

import sys

from sonde.cli import main

if __name__ == "__main__":
    sys.exit(main())
