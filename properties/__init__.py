"""Tests and Hypothesis strategies."""

if __name__ != "squall.properties":  # a second copy of each module, with classes of its own
    raise ImportError(
        "import squall.properties: the folder properties is a part of the package squall"
    )
