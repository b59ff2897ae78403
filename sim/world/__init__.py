"""Virtual time, the network, and what an operating system would keep apart.

Time: :mod:`.virtual_time` (the clock and the queue), :mod:`.scheduler` (tasks take turns),
:mod:`.primitives` (tasks, timers, locks, events), :mod:`.schedule` and :mod:`.ordering` (what goes
first of all that is due at one instant), :mod:`.streams` (random numbers by name).

The wire: :mod:`.network`, :mod:`.links` and :mod:`.latency` (how long a message takes),
:mod:`.delivery` (a message on its way), :mod:`.rules` (what becomes of it), :mod:`.held` (messages
that are delivered by hand), :mod:`.frames` (bytes that change on the way).

Processes: :mod:`.processes` (they pause, slow down, end), :mod:`.crash`, :mod:`.isolation` and
:mod:`.torch_settings` (what PyTorch keeps per thread and per process), :mod:`.device`,
:mod:`.garbage`.

Looking on: :mod:`.trace` (a run as events, and its digest), :mod:`.watch` (each event and each
draw as it happens), :mod:`.stuck` (who waits for what), :mod:`.oracle` (the single-process
reference of a run), :mod:`.real_time` (a limit on the real time of a run),
:mod:`.contained` (a copy of this process for work that may hang or crash).
"""
