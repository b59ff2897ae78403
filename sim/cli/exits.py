"""Exit codes of the command; 0 means that all is well."""

#: the run found a failure
FAILED = 1
#: what the user gave is wrong
BAD_INPUT = 2
#: a defect of squall itself
DEFECT = 3
INTERRUPTED = 130
