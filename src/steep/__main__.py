"""``python -m steep``."""

import sys

from steep.cli import main

sys.exit(main())
