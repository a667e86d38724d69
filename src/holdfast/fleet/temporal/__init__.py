"""Many machines: launches that Temporal carries to the hosts that offer themselves.

`address` and `messages` need no Temporal. All other modules import its client, which takes long: whoever needs no fleet
of many machines must not import them.
"""
