"""The merge queue: merge, check the merged tree, move the run branch."""
