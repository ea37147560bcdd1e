"""Studies that are played through on one machine: the paper's example, and anybody's own file."""
