"""The kinds of faults, one a module. A new module is a new kind: squall.sim.faults.registry finds it."""
