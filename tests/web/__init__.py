"""Tests of the dashboard's server, against a real process over HTTP."""
