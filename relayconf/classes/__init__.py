"""Settings classes: from what a class declares to its contract, and from values to its instance.

``build`` reads a whole class; each of the other modules answers one question about a field, a type
or a value. ``relayconf.settings`` is the base class that uses them.
"""
