"""Benchmarks run on this machine: variants taking turns, every setting put back.

- :mod:`schedlab.bench.run.plan`: what a plan file says
- :mod:`schedlab.bench.run.order`: who runs when
- :mod:`schedlab.bench.run.settings`: the machine's settings by name
- :mod:`schedlab.bench.run.journal`: what they were before, on disk before anything changes
- :mod:`schedlab.bench.run.context`: what explains noise, read before and after each iteration
- :mod:`schedlab.bench.run.signals`: how it ends in order
- :mod:`schedlab.bench.run.process`: one command with a time limit
- :mod:`schedlab.bench.run.session`: all of it together
"""
