"""Runs an unmodified script written for stock PyTorch inside the simulation.

Each simulated process gets what an operating-system process would own privately: its modules and
their globals (:mod:`.modules`), arguments, environment and streams (:mod:`.state`), threads
(:mod:`.threads`), clock (:mod:`.clock`), random state (:mod:`.chance`); what PyTorch keeps per
thread is swapped with the task (:mod:`squall.sim.world.isolation`). :mod:`.launcher` brings the processes up.
"""
