"""Promises that every implementation of a seam keeps."""
