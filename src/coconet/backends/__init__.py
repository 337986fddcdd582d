"""Ways to run a plan or a program on real processes."""
