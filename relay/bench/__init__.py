"""The bench: the relay's figures as ratios to a floor program's, taken in one run.

``floor`` is the program, ``sides`` starts the two that are compared, and each further module
measures one thing: calls one by one, callers at once, many sessions, starts. Nothing is asserted; a
time without the floor's beside it says little about anything but the machine.
"""
