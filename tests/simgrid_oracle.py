"""When messages arrive, by SimGrid: for Debian's own Python, which has its bindings.

Standard input: {"up": [bytes per second], "down": [...], "compute": [seconds], "messages":
[[source, destination, bytes, [places of messages it waits for]], ...]}. Standard output: the second
at which each has arrived.
"""

import json
import sys

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, Semaphore, this_actor

PURE = (
    "--cfg=network/model:CM02",
    "--cfg=network/crosstraffic:0",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/weight-S:0",
    "--cfg=network/bandwidth-factor:1",
    "--cfg=network/latency-factor:1",
    "--log=root.thresh:critical",
)
"""Max-min fair shares and nothing else: no latency, no model of TCP."""


def main() -> None:
    asked = json.load(sys.stdin)
    engine = Engine(["oracle", *PURE])
    zone = NetZone.create_full_zone("zone")
    hosts = [zone.create_host(f"node{rank}", 1e9) for rank in range(len(asked["up"]))]
    up = [zone.create_link(f"up{rank}", rate) for rank, rate in enumerate(asked["up"])]
    down = [zone.create_link(f"down{rank}", rate) for rank, rate in enumerate(asked["down"])]
    for a, source in enumerate(hosts):
        for b, destination in enumerate(hosts):
            if a != b:
                route = [LinkInRoute(up[a]), LinkInRoute(down[b])]
                zone.add_route(source.netpoint, destination.netpoint, None, None, route, False)
    zone.seal()
    messages = asked["messages"]
    arrived = [0.0] * len(messages)
    before: dict[tuple[int, int], int] = {}
    awaited = []
    for place, (source, destination, _, waits_for) in enumerate(messages):
        pair = source, destination
        awaited.append({*waits_for, *([before[pair]] if pair in before else [])})
        before[pair] = place
    signals = {
        (place, other): Semaphore(0) for place in range(len(messages)) for other in awaited[place]
    }

    def send(place: int) -> None:
        source, destination, size, _ = messages[place]
        this_actor.sleep_until(max(asked["compute"][source], asked["compute"][destination]))
        for other in awaited[place]:
            signals[place, other].acquire()
        Comm.sendto(hosts[source], hosts[destination], round(size))
        arrived[place] = Engine.get_clock()
        for dependent, other in signals:
            if other == place:
                signals[dependent, other].release()

    for place, message in enumerate(messages):
        Actor.create(f"message{place}", hosts[message[0]], send, place)
    engine.run()
    print(json.dumps(arrived))


main()
