"""The ground of training: settings, errors and signals of commands, TOML, samples that count, processes.

It owns `Config`, the sums over active rows (`active`) and over processes (`ranks`), and the compiled functions of
updates (`kernels`).
It must not know networks, environments or files of a run.
"""
