"""The state directory: where it is, who may be trusted with it, and how files in it are written.

It is shared by every process that shares kills, or serves the same session directories. Ground
floor.
"""
