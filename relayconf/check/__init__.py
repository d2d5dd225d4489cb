"""The check: what is wrong with a project's compose and env files, finding by finding.

One module a kind of finding, each a pure function over one ``Inspection``. Nothing is printed here
and nothing is read beyond what gathering the inspection read.
"""

from __future__ import annotations
