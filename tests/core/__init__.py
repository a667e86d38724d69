"""Tests of the pure core: no disk, no process, no clock."""
