"""A host of a fleet of many machines: what `holdfast worker` runs. The runner's side is in `fleet/temporal/`."""
