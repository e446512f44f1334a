"""Recordings of runs in one file, from which everything is computed again to the bit; replays as pages and videos.

A recording has options, seeds, actions and checksums of outputs. ``Recorder`` writes it; ``Recording`` reads it, makes
the environment and seeks; ``python -m torch_batchsim.replay`` writes a page that needs nothing but a browser.
"""

from .file import RecordingError as RecordingError
from .recorder import Recorder as Recorder
from .recording import Recording as Recording
