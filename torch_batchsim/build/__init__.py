"""Turns a program into a library: writes the C++ unit, compiles and caches it, and explains compilers' messages.

It owns the generated text (structs, context, nodes, checks), the compilers' calls, the build cache, and the remedies in
front of compilers' messages. It must not hold memory of worlds or call what it has built.
"""
