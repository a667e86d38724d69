"""Runs of real plans in real repositories, room by room like `holdfast.runner`."""
