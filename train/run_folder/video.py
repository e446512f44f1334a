"""Animations of one world: pictures are collected while it runs, and written with a palette that they share."""

from __future__ import annotations

import errno
import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from gymnasium.vector import VectorEnv
from PIL import Image
from torch import Tensor

from torch_batchsim.base.extras import needed

from ..rollouts.environment import num_agents

FILE_TYPES = {".gif": {"optimize": True}, ".webp": {"lossless": True, "method": 4}, ".png": {}}
"""File types, with settings for a small file."""

MP4 = ".mp4"
"""The file type of ffmpeg, which the extra `video` installs."""

MAX_PICTURES = 5_000
"""A longer episode is shown up to here."""

FASTEST_FPS = 50  # of a GIF in browsers, which slow down a faster one to 10
END_SECONDS = 1.0  # the last picture stays for longer, before the animation begins again


def file_types() -> list[str]:
    """Endings of the files that can be written here; Pillow may have been built without WebP."""
    known = Image.registered_extensions()
    return [*(ending for ending in FILE_TYPES if known.get(ending) in Image.SAVE_ALL), MP4]


def check_needs(path: Path) -> None:
    """Raises MissingExtra where a package is not installed that writes such a file."""
    if path.suffix.lower() == MP4:
        needed("imageio_ffmpeg", extra="video")


def has_pictures(env: VectorEnv) -> bool:
    """Whether the environment can draw a single world."""
    return "rgb_array" in env.metadata.get("render_modes", ()) and hasattr(env.unwrapped, "render_world")


class Recorder:
    """Collects pictures of world 0 during its first episode; for `evaluate`, which calls it.

    The environment must not begin another episode in the step that ends one, or the last picture would be of that.
    """

    def __init__(self, env: VectorEnv) -> None:
        self.env, self.fps = env, env.metadata.get("render_fps", 30)
        self.shape: tuple[int, ...] = ()
        self.pictures: list[bytes] = []  # compressed to a hundredth or so: an episode may be long

    def __call__(self, running: Tensor) -> None:
        """Takes a picture if the world has been `running` (bool `[rows]`) up to now."""
        if len(self.pictures) == MAX_PICTURES or not running[: num_agents(self.env)].any():
            return
        picture = np.asarray(self.env.unwrapped.render_world(0))
        self.shape = self.shape or picture.shape
        if picture.dtype != np.uint8 or picture.shape != (*self.shape[:2], 3):
            raise ValueError(
                f"render() must return uint8 [height, width, 3] of the same size each time, "
                f"got {picture.dtype} {list(picture.shape)}"
            )
        self.pictures.append(zlib.compress(picture.tobytes(), 1))

    def write(self, path: Path) -> None:
        """Writes the pictures, in the file type of the path's ending. Raises OSError."""
        write_animation(path, self, self.fps)

    def __iter__(self) -> Iterator[np.ndarray]:
        for packed in self.pictures:
            yield np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self.shape)


def write_animation(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    """Writes pictures `uint8 [height, width, 3]` of one size as a GIF, WebP or PNG that begins anew at its end, or MP4.

    Goes through the pictures twice, so an iterator will not do. But for MP4, all share 255 colours: the most frequent
    ones stay as they are, the others become the nearest. (Noise that hides the loss, as usual in GIFs, would also hide
    that most of a picture is as before, which keeps the file small.)
    """
    if path.suffix.lower() == MP4:
        return _write_mp4(path, pictures, fps)
    counts: Counter[int] = Counter()
    for picture in pictures:
        colours, times = np.unique(_numbers(picture), return_counts=True)
        counts.update(dict(zip(colours.tolist(), times.tolist(), strict=True)))
    colours = np.array([colour for colour, _ in counts.most_common()], np.uint32)
    palette = _palette(colours)
    table = np.zeros(1 << 24, np.uint8)
    table[colours] = _nearest(_channels(colours), _channels(palette))
    free = next(colour for colour in range(256) if colour not in palette)  # stands for "as before" in a GIF
    flat = np.concatenate([_channels(palette), _channels(np.array([free]))]).astype(np.uint8).tobytes()
    frames, durations = _frames((table[_numbers(picture)] for picture in pictures), fps)
    for frame in frames:
        frame.putpalette(flat)
    settings = dict(FILE_TYPES[path.suffix.lower()])
    if path.suffix.lower() == ".gif":
        settings |= {"palette": flat, "transparency": len(palette)}
    first, *others = frames
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, **settings)
    return None


def _write_mp4(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    """H.264 as all players read it, whose sides are even: an odd one has a black line more. Raises OSError."""
    import imageio_ffmpeg

    height, width, _ = next(iter(pictures)).shape
    of_pictures = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
    coded = ["-c:v", "libx264", "-crf", "18", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    program = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-v", "error"]
    partly = path.absolute().with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with TemporaryFile() as said:
            command = [*program, *of_pictures, *even, *coded, str(partly)]
            with suppress(BrokenPipeError), subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said) as process:
                for picture in pictures:
                    process.stdin.write(np.ascontiguousarray(picture).tobytes())
                process.stdin.close()
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
        if process.returncode:
            raise OSError(errno.EIO, lines[-1] if lines else f"ffmpeg ended with {process.returncode}", str(path))
        os.replace(partly, path)
    finally:
        partly.unlink(missing_ok=True)


def _frames(pictures: Iterable[np.ndarray], fps: float) -> tuple[list[Image.Image], list[int]]:
    """Images of pictures `uint8 [height, width]`, each once where several are the same, and milliseconds for each."""
    frames: list[Image.Image] = []
    starts: list[int] = []
    count, before = 0, None
    for picture in pictures:
        if before is None or not np.array_equal(picture, before):
            frames.append(Image.fromarray(picture))
            starts.append(count)
        count, before = count + 1, picture
    # GIFs count in hundredths of a second: rounding the times rather than the durations keeps the pace.
    times = [10 * round(100 * start / min(fps, FASTEST_FPS)) for start in (*starts, count)]
    durations = [end - start for start, end in pairwise(times)]
    durations[-1] += round(1000 * END_SECONDS)
    return frames, [min(duration, 60_000) for duration in durations]  # PNGs have room for 65 s


def _palette(colours: np.ndarray) -> np.ndarray:
    """At most 255 of these colours, of which the first are the most important, or others in between."""
    if len(colours) <= 255:
        return colours
    kept, others = colours[:170], colours[170:]
    strip = Image.fromarray(_channels(others).astype(np.uint8)[None])
    between = strip.quantize(85, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).getpalette()[: 3 * 85]
    return np.unique(np.concatenate([kept, _numbers(np.array(between).reshape(-1, 3))]))


def _nearest(colours: np.ndarray, palette: np.ndarray) -> np.ndarray:
    """For each colour, int `[n, 3]`, the index of the nearest one of the palette, int `[k, 3]`."""
    nearest, least = np.zeros(len(colours), np.uint8), np.full(len(colours), np.iinfo(np.int64).max)
    for index, colour in enumerate(palette):
        distance = ((colours - colour) ** 2).sum(1)
        nearest[distance < least] = index
        least = np.minimum(least, distance)
    return nearest


def _numbers(colours: np.ndarray) -> np.ndarray:
    """Colours `[..., 3]` as numbers `0xRRGGBB`."""
    red, green, blue = np.moveaxis(colours.astype(np.uint32), -1, 0)
    return red << 16 | green << 8 | blue


def _channels(numbers: np.ndarray) -> np.ndarray:
    """The reverse, int64 `[..., 3]`."""
    return numbers[..., None].astype(np.int64) >> np.array([16, 8, 0]) & 255
