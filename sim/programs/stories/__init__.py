"""Stories: short tests of the API that run beside a program, each with a known result."""
