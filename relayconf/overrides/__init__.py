"""Overrides: values and kills that are changed while processes run, in the state directory.

``document`` is what ``overrides.json`` says, ``reading`` how a process reads it, ``store`` how a
command changes it, ``audit`` the record of every change. Reading is ground floor, changing is
above.
"""
