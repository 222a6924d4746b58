"""Events for the queries of Nexmark, and what the queries must answer, worked out without Beam.

Times are milliseconds. Events come in the order of their times.
"""

import collections
import random

START_MS = 1_700_000_000_000
STEP_MS = 25
STATES = ("OR", "ID", "CA", "WA", "NY")
WINDOW_MS = 10_000
PERIOD_MS = 5_000
SESSION_GAP_MS = 10_000

# The arguments of the queries, as the package's launcher gives them.
ARGUMENTS = {
    "auction_skip": 123, "window_size_sec": WINDOW_MS // 1000,
    "window_period_sec": PERIOD_MS // 1000, "fanout": 5, "num_max_workers": 5,
    "max_log_events": 100_000, "occasional_delay_sec": 3, "max_auction_waiting_time": 600,
}


def events(count, seed, start=START_MS, step=STEP_MS):
    """Of every 50 events one is a person, three are auctions and the others bids."""
    chance = random.Random(seed)
    people, auctions, made = [], [], []
    for number in range(count):
        time = start + number * step
        if number % 50 == 0:
            people.append(_person(1000 + len(people), time, chance))
            made.append(people[-1])
        elif number % 50 < 4:
            seller = chance.choice(people[-8:])
            auctions.append(_auction(1000 + len(auctions), seller, time, chance))
            made.append(auctions[-1])
        else:
            made.append(_bid(chance.choice(auctions[-12:]), chance.choice(people), time, chance))
    return made


def _person(number, time, chance):
    return {
        "id": number, "name": f"Person {number}", "emailAddress": f"p{number}@example.com",
        "creditCard": "1234 5678", "city": "Portland", "state": chance.choice(STATES),
        "dateTime": time, "extra": "",
    }


def _auction(number, seller, time, chance):
    return {
        "id": number, "itemName": f"item {number}", "description": "", "initialBid": 1,
        "reserve": chance.randrange(1, 500), "dateTime": time,
        "expires": time + chance.randrange(1_000, 8_000), "seller": seller["id"],
        "category": 10 + chance.randrange(5), "extra": "x",
    }


def _bid(auction, bidder, time, chance):
    return {"auction": auction["id"], "bidder": bidder["id"], "price": chance.randrange(1, 1_000),
            "dateTime": time, "extra": "y" * chance.randrange(20)}


def people(of):
    """The persons among events."""
    return [event for event in of if "emailAddress" in event]


def auctions(of):
    """The auctions among events."""
    return [event for event in of if "itemName" in event]


def bids(of):
    """The bids among events."""
    return [event for event in of if "bidder" in event]


def winners(of):
    """Each closed auction that found a bid above its reserve, with the best bid."""
    by_auction = collections.defaultdict(list)
    for bid in bids(of):
        by_auction[bid["auction"]].append(bid)
    for auction in auctions(of):
        good = [bid for bid in by_auction[auction["id"]]
                if bid["dateTime"] < auction["expires"] and bid["price"] >= auction["reserve"]]
        if good:
            yield auction, max(good, key=lambda bid: (bid["price"], -bid["dateTime"]))


def fixed(time):
    """The start of the window."""
    return time // WINDOW_MS * WINDOW_MS


def sliding(time):
    """The starts of all windows."""
    last = time // PERIOD_MS * PERIOD_MS
    return range(last, last - WINDOW_MS, -PERIOD_MS)


def local_items(of):
    """Query 3: auctions of category 10 whose sellers live in three states."""
    near = {person["id"]: person for person in people(of) if person["state"] in STATES[:3]}
    return [(near[auction["seller"]]["name"], auction["id"]) for auction in auctions(of)
            if auction["category"] == 10 and auction["seller"] in near]


def category_prices(of):
    """Query 4: the mean price of what was won, by category and sliding window."""
    prices = collections.defaultdict(list)
    for auction, bid in winners(of):
        for window in sliding(auction["expires"] - 1):
            prices[window, auction["category"]].append(bid["price"])
    return [(category, round(sum(all_of) / len(all_of), 6))
            for (_, category), all_of in prices.items()]


def hot_items(of):
    """Query 5: the auctions with most bids, by sliding window."""
    counts = collections.defaultdict(collections.Counter)
    for bid in bids(of):
        for window in sliding(bid["dateTime"]):
            counts[window][bid["auction"]] += 1
    for counter in counts.values():
        most = max(counter.values())
        yield from ((auction, most) for auction, count in counter.items() if count == most)


def seller_prices(of):
    """Query 6: by seller, the mean price of the last ten things won."""
    by_seller = collections.defaultdict(list)
    for auction, bid in winners(of):
        by_seller[auction["seller"]].append((bid["dateTime"], bid["price"]))
    for seller, won in by_seller.items():
        last = [price for _, price in sorted(won)[-10:]]
        yield seller, int(sum(last) / len(last))


def highest_bids(of):
    """Query 7: the highest bids, by fixed window."""
    by_window = collections.defaultdict(list)
    for bid in bids(of):
        by_window[fixed(bid["dateTime"])].append(bid)
    for all_of in by_window.values():
        most = max(bid["price"] for bid in all_of)
        yield from ((bid["auction"], bid["price"]) for bid in all_of if bid["price"] == most)


def new_sellers(of):
    """Query 8: auctions in the window in which their seller is new."""
    by_id = {person["id"]: person for person in people(of)}
    for auction in auctions(of):
        person = by_id[auction["seller"]]
        if fixed(person["dateTime"]) == fixed(auction["dateTime"]):
            yield person["id"], auction["reserve"]


def sessions(of):
    """Query 11: how many bids each person made in a session."""
    times = collections.defaultdict(list)
    for bid in bids(of):
        times[bid["bidder"]].append(bid["dateTime"])
    for bidder, all_of in times.items():
        count = 0
        for time, following in zip(all_of, [*all_of[1:], float("inf")]):
            count += 1
            if following - time >= SESSION_GAP_MS:
                yield bidder, count
                count = 0
