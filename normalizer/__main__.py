"""`python -m normalizer` is the command `normalizer`."""

from __future__ import annotations

from normalizer.cli import main

if __name__ == "__main__":
    main()
