"""Contracts: what one service declares, as a document that every language can read.

``reading`` turns a JSON document into records and ``document`` turns records into one; what either
writes the other reads. Positions are worked out only where there is a fault to show.
"""
