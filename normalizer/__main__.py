"""`python -m normalizer` is the command `transcript-normalizer`."""

from __future__ import annotations

from normalizer.command.main import main

if __name__ == "__main__":
    main()
