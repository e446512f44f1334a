"""The ground floor: names, texts, optional packages, torch's threads, and the constants that C++ and Python share.

It owns facts and small functions that need nothing of an environment: how a name is suggested, which library of OpenMP
torch has loaded, which codes, limits and records Python and C++ share (``shared``). It must not know
what a component or a simulator is.
"""
