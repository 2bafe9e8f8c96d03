"""The wire formats, one folder each, all of one shape. They install as `normalizer.providers`."""

if __name__ != "normalizer.providers":
    # A second copy of every class would follow: nothing would be equal to, or an instance of, its twin.
    raise ImportError(f"import normalizer.providers, not {__name__}")
