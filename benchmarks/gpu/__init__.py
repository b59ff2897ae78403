"""What is run and measured on a GPU: ``make gpu``; with ``ARGS=--stand-in`` on the stand-in device."""
