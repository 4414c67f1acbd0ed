# SPDX-License-Identifier: BSD-2-Clause
"""The parts of the search for dips: models, false alarms, accounts that add up, series that move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.measures.common.timeline import F64
from analysis.measures.common.window import Window
from analysis.measures.critical_path.results import NoPath
from analysis.measures.dips.accounting import account_of_dip, choose_outside
from analysis.measures.dips.autoregression import Models, fit
from analysis.measures.dips.finder import search
from analysis.measures.dips.moves import Series, moves
from analysis.measures.dips.results import measure_dips, measure_stops
from analysis.measures.dips.spent import Spent
from analysis.measures.dips.stops import find_stops
from analysis.measures.dips.tracks import Track, measure_tracks
from analysis.tables.call import Call
from analysis.tables.phase import Phases
from analysis.tables.store import I64, Categorical
from tests.dips.noise import autoregressive, series, with_dip

MS = 1_000_000


def track_of(progress: F64, calls: F64 | None = None) -> Track:
    """A track of 100 ms bins. calls: kinds x bins."""
    n = progress.size
    start = np.arange(n, dtype=np.int64) * 100 * MS
    kinds = progress[None, :] if calls is None else calls
    return Track(
        phase="",
        phases=1,
        start_ns=start,
        end_ns=start + 100 * MS,
        unit="calls",
        progress=progress.astype(np.int64),
        calls=progress.astype(np.int64),
        kinds=[f"call {i}" for i in range(kinds.shape[0])],
        kind_calls=kinds.astype(np.int64),
        kind_ns=kinds.astype(np.int64) * MS,
        length_ns=np.full(n, 100 * MS, dtype=np.int64),
    )


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_model_finds_phi_and_the_spread_of_means(phi: float) -> None:
    x = autoregressive(phi, 200_000, np.random.default_rng(1))
    models = fit(x[None, :])
    assert float(models.sums[0]) == pytest.approx(phi, abs=0.02)
    spread = models.mean_variances(50)[0]
    for length in (1, 10, 50):
        means = x.reshape(-1, length).mean(axis=1)
        assert spread[length - 1] == pytest.approx(float(means.var()), rel=0.06)


def test_means_of_an_ar1_spread_as_the_formula_says() -> None:
    models = Models(np.array([[0.6, *[0.0] * 9]]), np.array([1.0]))
    covariance = [0.6**k / (1 - 0.36) for k in range(40)]
    exact = (covariance[0] + 2 * sum((1 - k / 40) * covariance[k] for k in range(1, 40))) / 40
    assert float(models.mean_variances(40)[0, -1]) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("kind", "most"), [("phi 0", 1), ("phi .8", 2), ("burst", 2), ("slow", 3)])
def test_series_without_a_dip_rarely_has_one(kind: str, most: int) -> None:
    """Of 25; at the rates of the README's table more than so many come up less than once in 500 tries."""
    found = [search(series(kind, 200, np.random.default_rng([1, i])), seed=i) for i in range(25)]
    assert sum(bool(one.dips) for one in found) <= most


def test_deep_dip_is_found_where_it_is() -> None:
    random = np.random.default_rng(2)
    rate, first, last = with_dip(series("phi .5", 400, random), 0.6, 0.05, random)
    (dip,) = search(rate).dips
    assert abs(dip.first - first) <= 2 and abs(dip.last - last) <= 2
    assert dip.depth == pytest.approx(0.6, abs=0.1)


def test_empty_bins_in_a_dip_are_part_of_it() -> None:
    rate, first, last = with_dip(
        series("phi 0", 300, np.random.default_rng(3)), 0.6, 0.1, np.random.default_rng(4)
    )
    rate[first + 5 : last - 5 : 4] = 0
    (dip,) = search(rate).dips
    assert abs(dip.first - first) <= 2 and abs(dip.last - last) <= 2


def test_drifting_series_gives_no_verdict() -> None:
    walk = 100 + np.cumsum(np.random.default_rng(5).standard_normal(300))
    assert "too alike" in search(walk * 1e6).why_not


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    causes=st.integers(1, 5),
    threads_in=st.floats(0.5, 8),
    threads_out=st.floats(0.5, 8),
)
def test_account_adds_up(seed: int, causes: int, threads_in: float, threads_out: float) -> None:
    random = np.random.default_rng(seed)
    n, first, last = 200, 100, 115
    progress = random.integers(50, 200, n)
    inside = np.arange(first, last)
    progress[inside] //= 2
    ns = random.random((causes, n))
    threads = np.full(n, threads_out)
    threads[inside] = threads_in
    ns *= 100 * MS * threads / ns.sum(axis=0)
    keys = [f"cause {i}" for i in range(causes)]
    spent = Spent("path", keys, ns.astype(np.int64), [], np.zeros((0, n), dtype=np.int64))
    track = track_of(progress.astype(np.float64))
    outside, is_matched = choose_outside(track, inside, [(first, last)])
    assert is_matched and not set(outside) & set(range(first - 15, last + 15))
    account = account_of_dip(track, spent, inside, outside, is_matched)
    assert account is not None
    rate_out = progress[outside].sum() / (outside.size / 10)
    assert account.loss_s == pytest.approx(1.5 - progress[inside].sum() / rate_out)
    assert sum(line.excess_s for line in account.lines) == pytest.approx(account.loss_s)
    assert account.low_s <= account.loss_s <= account.high_s
    assert sum(line.inside_s for line in account.lines) == pytest.approx(account.seconds, rel=1e-3)
    by_key = {line.key: line.excess_s for line in account.lines}
    if abs(threads_in - threads_out) < 1e-9:
        assert by_key["threads at work"] == pytest.approx(0, abs=1e-3)
    else:
        assert (by_key["threads at work"] > 0) == (threads_out > threads_in)


def test_interval_of_the_loss_holds_the_truth() -> None:
    """Bins of one distribution inside and outside: the loss is 0, within 95 of 100 intervals or so."""
    held = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        progress = np.round(1000 * (1 + 0.1 * autoregressive(0.3, 400, random)))
        inside = np.arange(200, 220)
        spent = Spent("path", ["a"], np.full((1, 400), 100 * MS), [], np.zeros((0, 400), dtype=np.int64))
        track = track_of(progress)
        outside, is_matched = choose_outside(track, inside, [(200, 220)])
        # what is inside is counted: its expectation takes its place here
        track.progress[inside] = 1000
        account = account_of_dip(track, spent, inside, outside, is_matched, seed)
        assert account is not None and account.is_interval
        held += account.low_s <= 0 <= account.high_s
    assert held >= 86


def test_other_calls_are_seen_as_others() -> None:
    calls = np.full((2, 200), 100.0)
    calls[1, :] = 0
    calls[1, 100:110] = 100
    inside = np.arange(100, 110)
    outside, is_matched = choose_outside(track_of(calls[0], calls), inside, [(100, 110)])
    assert outside.size and not is_matched


def test_dip_in_a_short_phase_has_no_reference() -> None:
    outside, _ = choose_outside(track_of(np.full(60, 100.0)), np.arange(20, 35), [(20, 35)])
    assert not outside.size


def test_series_that_moves_with_a_dip_is_named() -> None:
    random = np.random.default_rng(6)
    is_dip = np.zeros(300)
    is_dip[120:140] = 1
    alike = autoregressive(0.5, 300, random) + 3 * is_dip
    found = moves(is_dip, {"alike": Series("s", alike)} | _noise(random, 10))
    assert [move.name for move in found] == ["alike"]
    assert found[0].inside > found[0].outside and found[0].rho > 0


def test_chance_seldom_moves_with_a_dip() -> None:
    """Any of 10 series, in 5 of 100 tries or so."""
    is_dip = np.zeros(300)
    is_dip[120:140] = 1
    hits = sum(bool(moves(is_dip, _noise(np.random.default_rng(seed), 10))) for seed in range(100))
    assert hits <= 13


def _noise(random: np.random.Generator, count: int) -> dict[str, Series]:
    return {f"noise {i}": Series("s", autoregressive(0.5, 300, random)) for i in range(count)}


def test_stops_do_not_join_over_a_gap_between_phases() -> None:
    progress = np.full(60, 100.0)
    progress[28:32] = 0
    track = track_of(progress)
    assert [round(stop.seconds, 1) for stop in find_stops(track)] == [0.4]
    late = np.where(np.arange(60) >= 30, 500 * MS, 0)
    apart = track_of(progress)
    apart.start_ns[:] += late
    apart.end_ns[:] += late
    assert not find_stops(apart)  # 0.2 s on either side


def _words(random: np.random.Generator, words: tuple[str, ...], n: int) -> Categorical:
    return Categorical(random.integers(0, len(words), n).astype(np.int32), words)


@pytest.mark.parametrize("seed", range(60))
def test_any_calls_and_phases_have_tracks(seed: int) -> None:
    """Whatever a foreign run says: bins have a length, ascend, and do not overlap."""
    random = np.random.default_rng(seed)
    n, last = int(random.integers(0, 400)), int(random.choice([1, 10**6, 10**9, 3 * 10**10, 10**14]))
    grid = random.choice([1, 100 * MS])

    def numbers(most: int, size: int = n) -> I64:
        return random.integers(0, most, size)

    call = Call(
        bin_ns=numbers(last + 10**9) // grid * grid - 100 * MS,
        bin_length_ns=random.choice([0, 1, 100 * MS, 100 * MS, 10**15], n).astype(np.int64),
        call=_words(random, ("write", "read", "open", "fsync"), n),
        target=_words(random, ("target", "elsewhere"), n),
        count=numbers(1000),
        bytes=numbers(10**9),
        over_bytes=numbers(2),
        errors=numbers(2),
        total_ns=numbers(10**9),
        max_ns=numbers(10**10),
        hist=np.zeros((n, 256), dtype=np.int64),
    )
    count = int(random.integers(0, 8))
    start = np.sort(numbers(last + 1, count))
    end, none = start + numbers(last + 1, count), start * 0
    phases = Phases([str(name) for name in numbers(3, count)], start, end, none, none, start, end)
    tracks = measure_tracks(call, phases, Window(0, last + 10, 5, last + 6, True))
    for track in tracks:
        assert (track.length_ns > 0).all()
        assert (track.start_ns[1:] >= track.end_ns[:-1]).all()
    measure_stops(tracks, call, NoPath(""), None)
    measure_dips(tracks, NoPath(""), None, None, None)
