"""Other systems that make tasks durable in a server, with the work of W1: `python -m bench --store URL --peers`.

Each runs in a Python environment of its own, which is made when it is first measured (`environment.py`). Modules that are named
like a peer run there, so they import nothing of Holdfast.
"""
