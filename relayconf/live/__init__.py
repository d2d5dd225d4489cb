"""Live values: the settings of a running process, and how they keep up with their sources.

``snapshot`` holds what is in force, ``rereading`` finds out what changed, ``following`` does so as
long as the process lives, and is known to those who change it.
"""
