"""Generated pages and schemas; never imported by the library."""
