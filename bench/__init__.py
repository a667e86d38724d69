"""How fast Holdfast is, beside the limits of the machine it is measured on: `python -m bench`."""
