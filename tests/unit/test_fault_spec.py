"""Faults and storms as text: what is understood, one spelling, and what is refused."""

import itertools

import pytest

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.faults.fault import Act, Clock, Fault, Moment, parse_fault, parse_faults
from cluster.spec.faults.storm import LEAST_UP, parse_storm

AN_HOUR_S = 3600


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("2:kill@step40", Fault(2, Act.KILL, Moment(Clock.STEP, 40))),
        ("2:kill@exchange40", Fault(2, Act.KILL, Moment(Clock.EXCHANGE, 40))),
        ("2:freeze@30s/10s", Fault(2, Act.FREEZE, Moment(Clock.SECONDS, 30.0), 10.0)),
        ("0:unplug@500ms", Fault(0, Act.UNPLUG, Moment(Clock.SECONDS, 0.5))),
        (
            "2:throttle=5mbit@30s/20s",
            Fault(2, Act.THROTTLE, Moment(Clock.SECONDS, 30.0), 20.0, rate_bit=5_000_000),
        ),
        (
            "2:cpu=0.1@step3/20s",
            Fault(2, Act.CPU, Moment(Clock.STEP, 3), 20.0, cores=0.1),
        ),
        ("2:restart@step60", Fault(2, Act.RESTART, Moment(Clock.STEP, 60))),
        ("2:join@step80", Fault(2, Act.JOIN, Moment(Clock.STEP, 80))),
    ],
)
def test_a_fault_is_read_and_written_in_one_spelling(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault
    assert parse_fault(str(fault)) == fault


def test_faults_are_stored_in_the_order_of_their_moments() -> None:
    faults = "2:freeze@30.0s/10000ms, 1:throttle=5000kbit@0.01s,3:kill@step2"
    given = Experiment(fault=faults, link="100mbit")
    assert given.fault == "1:throttle=5mbit@0.01s,2:freeze@30s/10s,3:kill@step2"
    assert tuple(given.faults()) == parse_faults(given.fault)
    assert Experiment.from_json(given.to_json()) == given


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"fault": "4:kill@step1"}, "there is no node 4, the 4 nodes are 0 to 3"),
        ({"fault": "1:kill@step277"}, "after the end of the run, which has 276 steps"),
        ({"fault": "1:kill@exchange277"}, "after the end of the run, which has 276 exchanges"),
        (
            {"fault": "1:kill@exchange37", "strategy": "local-sgd"},
            "after the end of the run, which has 36 exchanges",
        ),
        ({"fault": "1:kill@30s,1:freeze@30s"}, "two faults at the same moment"),
        ({"fault": "1:kill@30s,1:freeze@40s"}, "was killed for good"),
        ({"fault": "1:freeze@30s/10s,1:freeze@35s"}, "before the one of 30s is over"),
        ({"fault": "1:freeze@30s,1:freeze@35s"}, "before the one of 30s is over"),
        ({"fault": "1:kill"}, "'1:kill' is no fault: write RANK:ACT"),
        ({"fault": "1:kil@step1"}, "did you mean kill?"),
        ({"fault": "1:kill=3@step1"}, "kill takes no value"),
        ({"fault": "1:throttle=5mbit@step1"}, "give it one by --link or --bottleneck"),
        ({"fault": "1:join@exchange3"}, "joins between two exchanges"),
        ({"fault": "1:throttle@step1"}, "throttle needs a rate"),
        ({"fault": "1:throttle=5mb@step1"}, "must end in kbit, mbit, gbit"),
        ({"fault": "1:kill@step0"}, "counted from 1"),
        ({"fault": "1:kill@step"}, "write step40, exchange40 or 30s"),
        ({"fault": "1:kill@30"}, "must end in us, ms, s"),
        ({"fault": "1:freeze@30s/0s"}, "a fault of 0 s is none"),
        ({"fault": "1:restart@step3/10s"}, "has no duration"),
        ({"fault": "1:restart@step3"}, "needs --on-failure continue"),
        ({"fault": "1:kill@step3/10s"}, "needs --on-failure continue"),
        ({"fault": "1:join@step3"}, "needs --on-failure continue"),
        (
            {"fault": "4:kill@step3", "strategy": "parameter-server"},
            "is the parameter server, which makes no steps",
        ),
        ({"fault": "1:kill@step3", "launcher": "horovod"}, "use --launcher torch"),
        ({"fault": "1:kill@step3", "gpu": 1}, "does not go with gpu"),
        ({"fault": "1:kill@step3", "storm": "freezes=60s"}, "give one of them"),
        (
            {"strategy": "quorum", "partition": "label", "on_failure": "continue"},
            "on_failure continue does not go with partition label and strategy quorum",
        ),
        ({"storm": "kills=60s"}, "needs --on-failure continue"),
        ({"storm": "freezes=60s", "workers": 2}, "needs more than 2 workers"),
        ({"storm": "freeze=60s"}, "did you mean freezes?"),
        ({"storm": "seed=7"}, "there is no fault in it"),
        ({"storm": "freezes=60s,seed=-1"}, "seed must be a whole number"),
        ({"storm": "freezes=60s,freezes=30s"}, "freezes is given twice"),
        ({"storm": "freezes=10ms"}, "freezes must be at least 1s, not 10ms"),
    ],
)
def test_what_cannot_be_done_to_a_run_is_refused_in_one_line(
    options: dict[str, str], refusal: str
) -> None:
    with pytest.raises(SpecError) as refused:
        Experiment(**options)  # type: ignore[arg-type]
    assert refusal in str(refused.value)
    assert "\n" not in str(refused.value)


def storm_of_an_hour(text: str, workers: int) -> list[Fault]:
    faults = parse_storm(text).faults(workers)
    return list(itertools.takewhile(lambda fault: fault.moment.at < AN_HOUR_S, faults))


def test_a_storm_is_the_same_for_every_run_and_another_for_another_seed() -> None:
    text = "kills=60s,freezes=240s,seed=7"
    assert str(parse_storm("freezes=240s,seed=7,kills=60000ms,down=10s")) == text
    assert storm_of_an_hour(text, 6) == storm_of_an_hour(text, 6)
    assert storm_of_an_hour(text, 6) != storm_of_an_hour("kills=60s,freezes=240s,seed=8", 6)


@pytest.mark.parametrize("seed", range(5))
def test_a_storm_has_the_faults_that_were_asked_for_and_leaves_enough_workers(seed: int) -> None:
    """An hour with a mean of 60 and 15: four standard deviations of a Poisson process."""
    faults = storm_of_an_hour(f"kills=60s,freezes=240s,seed={seed}", 6)
    counts = {act: sum(fault.act == act for fault in faults) for act in (Act.KILL, Act.FREEZE)}
    assert abs(counts[Act.KILL] - 60) < 4 * 60**0.5
    assert abs(counts[Act.FREEZE] - 15) < 4 * 15**0.5
    for fault in faults:
        moment = fault.moment.at
        down = [f for f in faults if f.moment.at <= moment < f.moment.at + (f.lasts_s or 0)]
        assert len({f.rank for f in down}) == len(down) <= 6 - LEAST_UP


def test_other_kinds_of_faults_do_not_move_the_kills() -> None:
    """Each kind is a process of its own; only who is hit depends on who is up."""
    alone = [f.moment for f in storm_of_an_hour("kills=60s,seed=3", 6)]
    both = storm_of_an_hour("kills=60s,unplugs=60s,seed=3", 6)
    assert {f.moment for f in both if f.act == Act.KILL} <= set(alone)
