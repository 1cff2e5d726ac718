"""``python -m ranking --include``: where the C header for native plugins is."""

from __future__ import annotations

import argparse
import sys

from ranking.native import include_dir


def main() -> None:
    """Print the folder."""
    parser = argparse.ArgumentParser(
        prog="python -m ranking", description="For builds of native plugins; training is `ranking`."
    )
    parser.add_argument(
        "--include",
        action="store_true",
        required=True,
        help='print the folder to compile against, for #include "ranking/native.h"',
    )
    parser.parse_args()
    sys.stdout.write(f"{include_dir()}\n")


if __name__ == "__main__":
    main()
