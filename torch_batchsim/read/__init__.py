"""Reads the author's C++: tokens, declarations, signatures of systems, and the rules that both devices need.

It owns the text: ``cpp_text`` cuts it into tokens and declarations, ``systems`` reads signatures and what bodies reach,
``cpp_rules`` refuses text that only one device takes, and the sites say which call a fault's code means. It must not
know tables, or how the text is compiled or run.
"""
