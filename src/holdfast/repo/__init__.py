"""The only door to git. Nothing outside this package starts git or reads inside a git directory."""
