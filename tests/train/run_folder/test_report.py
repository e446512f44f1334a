import math

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch_batchsim.train.run_folder import report as report_module
from torch_batchsim.train.run_folder.report import Report, draw_curve, show_picture, text_curve
from torch_batchsim.train.run_folder.tracking import Table, TensorBoard


def test_metrics_reach_tensorboard_and_the_curve(tmp_path):
    curve = []
    trackers = [TensorBoard(tmp_path, {"seed": 1}, 0), Table(tmp_path, {}, 0)]
    report = Report(trackers, total_steps=30, start_step=0, curve=curve)
    for step, value in ((10, math.nan), (20, 1.5), (30, 2.5)):
        report.log(step, {"charts/episodic_return": torch.tensor(value), "losses/entropy": torch.tensor(0.5)})
    report.close()
    for tracker in trackers:
        tracker.close({"eval_return_mean": 2.0})
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines[0].startswith("step,charts/episodic_return,losses/entropy") and lines[1].startswith("10,,0.5,")
    assert curve == [(20, 1.5), (30, 2.5)]
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("charts/episodic_return")] == curve
    assert [e.step for e in events.Scalars("losses/entropy")] == [10, 20, 30]
    assert all(e.value > 0 for e in events.Scalars("charts/SPS"))


def test_progress_is_lines_where_the_output_is_no_terminal(monkeypatch, capsys):
    now = iter(range(0, 1000, 4))  # a look at the clock takes 4 s
    monkeypatch.setattr(report_module.time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(report_module, "SECONDS_BETWEEN_LINES", 15.0)
    for shown in (True, False):
        report = Report([], total_steps=3000, start_step=0, curve=[], shown=shown)
        for step in (1000, 2000, 3000):
            report.log(step, {"charts/episodic_return": torch.tensor(step / 2)})
    assert capsys.readouterr().out == "2,000 of 3,000 steps, 125 steps/s, return 1000.0\n"


def test_the_picture_is_a_png(tmp_path):
    draw_curve([(1, 1.0), (2, 3.0)], 4.0, "title", tmp_path / "curve.png")
    draw_curve([], None, "nothing", tmp_path / "empty.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "empty.png").exists()


def test_the_text_curve_rises_with_its_values():
    lines = text_curve([(step, float(step)) for step in range(1, 301)], width=30, height=5).splitlines()
    assert len(lines) == 7
    assert len({len(lines[0]), len(lines[-2]), len(lines[-1])}) == 1  # the last step is under the right end
    assert lines[-1].split() == ["steps", "1", "300"]
    assert lines[0].startswith("     295.5 |")
    assert lines[0].endswith("*")
    assert lines[4].startswith("       5.5 |*")
    assert lines[-1].endswith("300")
    assert all(len(line) <= 42 for line in lines)


def test_the_text_curve_shows_the_random_policy():
    lines = text_curve([(step, float(step)) for step in range(10, 40)], width=30, height=5, random=4.0).splitlines()
    assert lines[4] == "       4.0 |" + "-" * 30 + "- random policy"
    assert lines[0].endswith("*") and not any("*" in line for line in lines[4:])
    within = text_curve([(step, float(step)) for step in range(10, 40)], width=30, height=5, random=24.5)
    assert "-*" in within and "*-" in within


def test_the_text_curve_takes_any_number_of_points():
    assert text_curve([]) == "no curve: not every world has ended an episode"
    assert "*" in text_curve([(10, 3.0)])
    assert text_curve([(10, 3.0), (20, 3.0)]).count("*") == 2


def test_the_labels_of_the_text_curve_differ_at_its_ends():
    flat = text_curve([(step, 500.0) for step in range(1, 31)], height=5).splitlines()
    assert [line.partition("|")[0].strip() for line in flat[:5]] == ["", "", "500.0", "", ""]
    low = text_curve([(1, 0.012), (2, 0.034)], height=5).splitlines()
    assert [line.partition("|")[0].strip() for line in low[:5]] == ["0.034", "", "", "", "0.012"]
    large = text_curve([(1, 0.0), (2, 1e12)]).splitlines()
    assert {line.index("|") for line in large[:-2]} == {large[-2].index("+")}


def test_without_a_display_show_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "no display" in show_picture(tmp_path / "curve.png")
