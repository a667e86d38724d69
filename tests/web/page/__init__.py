"""Tests of the page in a real browser, on a real server and real runs."""
