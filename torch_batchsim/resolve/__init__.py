"""Resolves a declaration and the text it names into one program: tables, columns, nodes, and the order they run in.

It owns ``Program``, the queries and scopes that lead to it, the schedule of its tasks, the records of the executors and
the picture of the graph. It must not write or compile C++, nor hold memory of worlds.
"""
