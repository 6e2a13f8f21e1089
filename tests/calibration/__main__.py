"""``python -m calibration PAGE``: run it all, write the page, and fail if a rate is not kept."""

from __future__ import annotations

import sys
from pathlib import Path

from calibration.page import write

if __name__ == "__main__":
    sys.exit(write(Path(sys.argv[1])))
