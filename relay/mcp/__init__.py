"""The writer as an MCP server on stdin and stdout: a session's tools, for any MCP client.

``messages`` is JSON-RPC as lines, ``tools`` what relay.json offers in MCP's words, ``protocol``
the methods in both eras of MCP, ``calls`` the requests in flight, ``server`` the one thread that
waits for all of it. Ground floor: stdlib only, no event loop but ``poll``.
"""
