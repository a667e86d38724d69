"""Runs of real plans in real repositories, in the packages of `holdfast.runner`."""
