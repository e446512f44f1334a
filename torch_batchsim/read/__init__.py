"""Reads the author's C++: tokens, declarations, signatures of systems, and the rules that both devices need.

It owns the text: ``cpp_text`` cuts it into tokens and declarations, ``systems`` reads signatures, ``reaches`` follows
calls beyond the own row, ``cpp_rules`` rejects text that only one device takes, and ``sites`` finds the calls that
report faults. It must not know tables, or how the text is compiled or run.
"""
