"""What an author declares: components, archetypes, task graphs, options, libraries, environments, and their roles.

It owns the classes that authors derive from and the checks that need nothing but the declaration itself: fields and
where their numbers lie, columns, and the roles that columns have for a vector environment. It must not know C++ text,
memory or how anything runs.
"""
