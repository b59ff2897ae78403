"""Why a run fails: the step after which it had to, and the order of two things that decided it."""
