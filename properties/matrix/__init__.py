"""The same verdicts everywhere: the suite and digests on other processors, Pythons and torches.

make matrix                       every row: hours
make matrix ARGS="avx2 user"      some rows
make matrix ARGS="--digests"      digests alone, minutes a row
"""
