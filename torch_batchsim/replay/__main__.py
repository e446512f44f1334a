"""Replays of a recording: ``python -m torch_batchsim.replay hunt.tbs --html hunt.html``.

The page needs a browser and nothing else. Without an output the recording is computed again and compared.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from ..base.extras import needed
from ..command_line import Parser
from ..errors import BuildWarning, MissingExtra, WorldFault
from ..vector import rendering
from .file import RecordingError
from .page import check_world, write_page
from .recording import Recording

PROGRAM = "python -m torch_batchsim.replay"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when all is as recorded and written, 2 with the reason in one sentence."""
    options = _parser().parse_args(list(sys.argv[1:] if arguments is None else arguments))
    try:
        with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BuildWarning)
            lines = _run(options)
    except (RecordingError, MissingExtra, OSError, WorldFault) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for warning in caught:
        if issubclass(warning.category, BuildWarning):
            print(f"warning: {warning.message}", file=sys.stderr)
    print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("recording", type=Path, help="a file of torch_batchsim.record or of a Recorder")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a page that replays a world")
    parser.add_argument("--compare", type=Path, metavar="OTHER", help="a recording beside it, on the page")
    parser.add_argument("--mp4", type=Path, metavar="FILE", help="a video of the environment's pictures")
    parser.add_argument("--gif", type=Path, metavar="FILE", help="the same as a GIF")
    parser.add_argument("--world", type=int, default=0, metavar="K", help="which world is shown (default: 0)")
    parser.add_argument("--env", metavar="ENV", help="the environment, if the recorded class cannot be imported: "
                        "file.py or module:Class")  # fmt: skip
    return parser


def _run(options: argparse.Namespace) -> list[str]:
    """Writes what is asked for. Returns what to say."""
    for path in (options.html, options.mp4, options.gif):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise RecordingError(f"{path} must be a file in an existing folder")
    if options.compare and not options.html:
        raise RecordingError("--compare needs --html")
    recordings = [Recording(path, options.env) for path in (options.recording, options.compare) if path is not None]
    recording, said = recordings[0], []
    for each in recordings:
        check_world(each, options.world)
    if options.html:
        said.append(f"{options.html}: {write_page(options.html, recordings, options.world):,} bytes")
    for kind in ("mp4", "gif"):
        path = getattr(options, kind)
        if path is not None:
            if path.suffix.lower() != f".{kind}":
                raise RecordingError(f"--{kind} must end in .{kind}, got {path}")
            _write_video(path, recording, options.world)
            said.append(f"{path}: {path.stat().st_size:,} bytes")
    if not said:
        for _ in recording.play():
            pass
        worlds, moments = recording.metadata["num_worlds"], recording.moments
        said.append(f"{recording.path}: {recording.metadata['environment']}, {worlds} worlds, {moments} moments: all "
                    "outputs are as recorded")  # fmt: skip
    return said


def _write_video(path: Path, recording: Recording, world: int) -> None:
    needed("PIL", "tensorboard", "tqdm", "matplotlib")
    from ..train.run_folder import video

    video.check_needs(path)
    env = recording.env()
    if "rgb_array" not in rendering.render_modes(env.environment):
        raise RecordingError(f"{env.environment.name} does not define scene() or render(): there is nothing to see")
    video.write_animation(path, _Pictures(recording, world), float(env.metadata.get("render_fps", 30)))


class _Pictures:
    """Those of a world, kept compressed: an animation goes through them twice."""

    def __init__(self, recording: Recording, world: int) -> None:
        self._shape: tuple[int, ...] = ()
        self._packed = []
        for _ in recording.play():
            picture = rendering.draw_world(recording.env().sim, world, "rgb_array")
            assert isinstance(picture, np.ndarray)
            self._shape = picture.shape
            self._packed.append(zlib.compress(picture.tobytes(), 1))

    def __iter__(self) -> Iterator[np.ndarray]:
        for packed in self._packed:
            yield np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape)


if __name__ == "__main__":
    sys.exit(main())
