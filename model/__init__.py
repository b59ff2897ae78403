"""What must be true, written independently of the system under test."""

if __name__ != "squall.model":  # a second copy of each module, with classes of its own
    raise ImportError("import squall.model: the folder model is a part of the package squall")
