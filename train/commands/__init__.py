"""The command lines: options, settings files, and a training, evaluation, several seeds or a sweep from them.

It owns the order in which settings of environment, file and command line count, and the words of mistakes.
Nothing but the commands at the top of `train` imports it.
"""
