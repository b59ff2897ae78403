"""``python -m squall`` is the command ``squall``."""

from squall.sim.cli.entry import main

if __name__ == "__main__":
    main()
