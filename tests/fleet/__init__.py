"""Tests of `holdfast.fleet` on this machine; what every fleet must do is in `tests/contract/`."""
