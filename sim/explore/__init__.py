"""Every order of a small program, each distinct behaviour once: see docs/explore.md."""
