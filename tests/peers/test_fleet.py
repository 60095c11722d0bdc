"""What one member does with messages: events in, commands out."""

from __future__ import annotations

import pytest

from hms_cache_proxy.cache.state import Slot
from hms_cache_proxy.cache.targets import ALL
from hms_cache_proxy.consistency.notes import Note, NoteKind
from hms_cache_proxy.errors import CacheError, WireError
from hms_cache_proxy.peers.fleet import UNLISTED
from hms_cache_proxy.peers.messages import (
    Acknowledged,
    AnswersNothing,
    CallsCounted,
    EventReached,
    FenceLifted,
    FenceOwed,
    FenceRaised,
    Hello,
    LeaseAsked,
    LeaseGiven,
    PeerMessage,
    RefusedPeer,
    Replayed,
    TokensCancelled,
    Welcome,
)
from hms_cache_proxy.peers.protocol import (
    CancelTokens,
    ClosePeer,
    DialPeer,
    FleetTimes,
    MayLeave,
    SendToPeer,
    ServeUntil,
    TellPeer,
)
from hms_cache_proxy.security.cancelled_tokens import RECORD_BYTES
from tests.peers.members import OTHER, OWN, TABLE, THIRD, Member, S, given, of


@pytest.fixture
def member() -> Member:
    made = Member()
    assert DialPeer("other:1") in made.listed("other:1")
    return made


def test_a_lease_is_asked_for_after_the_replay_and_counts_from_the_question(member: Member) -> None:
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    assert SendToPeer(1, Hello(b"m", b"own:1", b"", 0)) in member.take()
    assert not of(SendToPeer, member.got(1, Welcome(), FenceRaised(OTHER, 1, TABLE)))
    commands = member.got(1, Replayed(7))
    assert of(SendToPeer, commands) == [SendToPeer(1, Acknowledged(2)), SendToPeer(1, LeaseAsked(member.now_ns))]
    asked_ns = member.now_ns
    member.now_ns += S
    assert of(ServeUntil, member.got(1, LeaseGiven(asked_ns, 2 * S, 7))) == [ServeUntil(asked_ns + 2 * S)]
    assert member.records.under_way()[0][1] == TABLE
    assert member.records.covered(OTHER) == 7


def test_a_new_connection_drops_the_lease_of_the_last_one(member: Member) -> None:
    member.followed()
    member.fleet.closed(1, member.now_ns)
    assert not of(ServeUntil, member.take()), "it is good until it has run out"
    member.after(0.2)
    member.fleet.dialled(5, "other:1", OTHER, member.now_ns)
    commands = member.take()
    assert commands[0] == ServeUntil(0), "before anything is sent"
    assert isinstance(commands[1], SendToPeer)


def test_a_new_incarnation_is_required_before_it_is_welcomed(member: Member) -> None:
    member.followed()
    commands = member.follows(incarnation=THIRD)
    assert [type(one) for one in commands[:3]] == [ClosePeer, ServeUntil, SendToPeer]
    assert commands[1:3] == [ServeUntil(0), SendToPeer(2, Welcome())]
    assert member.got(1, LeaseGiven(0, S, 0)) == [], "what is under way on the closed connection does not count"


def test_a_member_that_is_in_no_list_is_required_once_it_has_said_hello(member: Member) -> None:
    member.followed()
    assert ServeUntil(0) in member.follows(incarnation=THIRD, address=b"third:1")
    assert DialPeer("third:1") in member.after(4.1)


def test_with_a_fixed_list_a_member_that_is_not_in_it_is_required_while_it_is_cut_off(member: Member) -> None:
    """It may go on to write: nothing says that its process has ended, until a successor names its address."""
    member.followed()
    member.follows(incarnation=THIRD, address=b"third:1")
    told = of(TellPeer, member.after(4.1))
    assert told == [TellPeer("a peer is not in the list", "third:1", UNLISTED)]
    member.leased()
    member.fleet.closed(2, member.now_ns)
    member.after(3)
    member.leased()
    assert member.fleet.serves_until(member.now_ns) == 0
    assert not of(TellPeer, member.after(0.2)), "once is enough"
    member.follows(link=4, incarnation=b"z" * 16, address=b"third:1")
    assert THIRD not in member.fleet.roster.required()


def test_a_member_that_a_fixed_list_has_named_is_forgotten_once_the_list_lacks_it(member: Member) -> None:
    member.listed("other:1", "third:1")
    member.followed()
    member.follows(incarnation=THIRD, address=b"third.example:1")
    member.fleet.dialled(3, "third:1", THIRD, member.now_ns)
    member.fleet.closed(2, member.now_ns)
    member.fleet.closed(3, member.now_ns)
    member.after(3)
    member.leased()
    assert member.fleet.serves_until(member.now_ns) == 0
    member.listed("other:1")
    member.after(1)
    assert member.fleet.serves_until(member.now_ns) > member.now_ns


def test_a_write_waits_for_leases_that_were_given_before_it(member: Member) -> None:
    member.followed()
    member.follows()
    member.fleet.write(1, 1, TABLE, member.now_ns)
    assert MayLeave(1) in member.take(), "it has no lease yet"
    member.got(2, Acknowledged(2))
    commands = member.got(2, LeaseAsked(5))
    assert given(commands) == [(5, 2 * S)]
    assert member.records._proxy.page[Slot.GIVEN_UNTIL_NS] == member.now_ns + 2_100_000_000
    member.fleet.write(2, 2, TABLE, member.now_ns)
    assert not of(MayLeave, member.take())
    assert MayLeave(2) in member.got(2, Acknowledged(3))
    member.fleet.over(2, member.now_ns)
    assert member.take() == [SendToPeer(2, FenceLifted(OWN, 2, 1))]


def test_a_lease_does_not_overtake_a_fence_that_this_process_has_not_been_told_of(member: Member) -> None:
    """As when it was stopped, and a worker has let its write leave by the words of the state page."""
    member.followed()
    member.follows()
    number = member.records.begin(TABLE)
    commands = [one.message for one in member.got(2, LeaseAsked(5)) if isinstance(one, SendToPeer)]
    assert commands[0] == FenceRaised(OWN, number, TABLE)
    assert isinstance(commands[1], LeaseGiven)
    member.fleet.write(1, number, TABLE, member.now_ns)
    assert not of(SendToPeer, member.take()), "it is told once"


def test_a_fence_is_not_lifted_before_what_takes_its_place_is_told_of(member: Member) -> None:
    """As in the place of damaged fences: one over everything stands until a worker has recorded its write again, and
    the follower, which has a lease, must be fenced without a gap."""
    member.followed()
    everything = member.records.begin((ALL,))
    member.follows()
    assert given(member.got(2, Acknowledged(2), LeaseAsked(5))) == [(5, 2 * S)]
    write = member.records.begin(TABLE)
    member.records.finish(everything, silent=False)
    told = [one.message for one in member.after(1.1) if isinstance(one, SendToPeer) and one.link == 2]
    assert told == [FenceRaised(OWN, write, TABLE), FenceLifted(OWN, everything, 1)]


def test_a_reply_that_is_noted_waits_for_whoever_has_not_acknowledged_its_note(member: Member) -> None:
    member.followed()
    member.follows()
    member.got(2, Acknowledged(1), LeaseAsked(5))
    lock = member.records.note(Note(NoteKind.OWED, TABLE))
    event = member.records.note(Note(NoteKind.EVENT, event=9))
    member.fleet.noted(1, lock, member.now_ns)
    commands = member.take()
    assert [one.message for one in commands if isinstance(one, SendToPeer)] == [FenceOwed(TABLE), EventReached(9)]
    assert not of(MayLeave, commands)
    assert of(MayLeave, member.got(2, Acknowledged(2))) == [MayLeave(1)]
    member.fleet.noted(2, event, member.now_ns)
    assert member.take() == [], "it is told once"
    assert of(MayLeave, member.got(2, Acknowledged(3))) == [MayLeave(2)]
    member.fleet.noted(3, event, member.now_ns)
    assert member.take() == [MayLeave(3)], "nobody is waited for any more"
    member.after(1.1)
    assert member.records.notes_after(0) == [], "everybody has been told"


def test_a_lease_does_not_overtake_a_note(member: Member) -> None:
    member.followed()
    member.follows()
    number = member.records.note(Note(NoteKind.OWED, TABLE))
    commands = [one.message for one in member.got(2, LeaseAsked(5)) if isinstance(one, SendToPeer)]
    assert commands[0] == FenceOwed(TABLE) and isinstance(commands[1], LeaseGiven)
    member.fleet.noted(1, number, member.now_ns)
    assert not of(MayLeave, member.take())


def test_a_write_waits_until_the_last_lease_of_a_lost_follower_has_run_out(member: Member) -> None:
    member.followed()
    member.follows()
    member.got(2, LeaseAsked(5))
    member.fleet.closed(2, member.now_ns)
    member.fleet.write(1, 1, TABLE, member.now_ns)
    assert not of(MayLeave, member.after(2.05))
    assert MayLeave(1) in member.after(0.06)
    member.fleet.write(2, 2, TABLE, member.now_ns)
    assert MayLeave(2) in member.take()


def test_leases_of_the_last_peer_process_are_waited_for() -> None:
    member = Member(given_until_ns=101 * S)
    member.listed("other:1")
    member.followed()
    member.fleet.write(1, 1, TABLE, member.now_ns)
    assert not of(MayLeave, member.take())
    assert MayLeave(1) in member.after(1.0)


def test_no_write_leaves_before_everybody_in_the_list_has_answered(member: Member) -> None:
    member.fleet.write(1, 1, TABLE, member.now_ns)
    member.fleet.passes(2)
    assert not of(MayLeave, member.take())
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    assert of(MayLeave, member.got(1, Welcome(), Replayed(1))) == [MayLeave(1), MayLeave(2)]


def test_writes_leave_without_an_answer_once_every_lease_has_run_out(member: Member) -> None:
    member.fleet.write(1, 1, TABLE, member.now_ns)
    assert not of(MayLeave, member.after(2.0))
    assert MayLeave(1) in member.after(0.2)


def test_a_slow_follower_gets_no_lease(member: Member) -> None:
    member.followed()
    member.follows()
    member.fleet.write(1, member.records.begin(TABLE), TABLE, member.now_ns)
    member.after(0.3)
    assert given(member.got(2, LeaseAsked(1))) == [(1, 0)]
    member.got(2, Acknowledged(2))
    assert given(member.got(2, LeaseAsked(2))) == [(2, 0)], "nor for ten seconds after that"
    for _ in range(10):
        member.got(2, LeaseAsked(3))
        member.after(1.01)
    assert given(member.got(2, LeaseAsked(4))) == [(4, 2 * S)]


def test_who_has_cost_a_write_a_whole_lease_gets_none_for_a_while_also_on_a_new_connection(member: Member) -> None:
    """Otherwise one whose connection breaks with each write would cost each of them a lease."""
    member.follows()
    assert given(member.got(2, Acknowledged(1), LeaseAsked(1))) == [(1, 2 * S)]
    number = member.records.begin(TABLE)
    member.fleet.write(1, number, TABLE, member.now_ns)
    member.fleet.closed(2, member.now_ns)
    assert MayLeave(1) not in member.after(2.0)
    assert MayLeave(1) in member.after(0.11)
    member.records.finish(number, silent=False)
    member.fleet.over(number, member.now_ns)
    records = of(SendToPeer, member.follows(3))
    assert given(member.got(3, Acknowledged(len(records) - 1), LeaseAsked(2))) == [(2, 0)]  # all but the welcome
    member.fleet.write(2, member.records.begin(TABLE), TABLE, member.now_ns)
    assert MayLeave(2) in member.take()
    member.got(3, Acknowledged(len(records)))
    for asked_ns in (3, 4):
        member.after(4.9)
        assert given(member.got(3, LeaseAsked(asked_ns))) == [(asked_ns, 0)]
    member.after(0.2)
    assert given(member.got(3, LeaseAsked(5))) == [(5, 2 * S)]


def test_who_gets_no_lease_leaves_the_word_of_the_page_as_it_is(member: Member) -> None:
    """A worker that hears nothing of its peers' process waits until that word is over."""
    page = member.records._proxy.page
    member.follows()
    member.got(2, Acknowledged(1), LeaseAsked(1))
    word = page[Slot.GIVEN_UNTIL_NS]
    assert word == member.now_ns + 2.1 * S
    member.after(0.1)
    page[Slot.UNFENCED] = 1
    assert given(member.got(2, LeaseAsked(2))) == [(2, 0)], "nothing can be recorded"
    assert page[Slot.GIVEN_UNTIL_NS] == word
    page[Slot.UNFENCED] = 2
    member.fleet.write(1, member.records.begin(TABLE), TABLE, member.now_ns)
    member.after(0.3)
    assert given(member.got(2, LeaseAsked(3))) == [(3, 0)], "it is slow"
    assert page[Slot.GIVEN_UNTIL_NS] == word


def test_each_tells_the_others_of_its_hits(member: Member) -> None:
    member.followed()
    member.follows()
    assert [(one["hits"], one["reads"]) for one in member.fleet.report(member.now_ns)] == [(None, None)]
    member.got(2, CallsCounted(90, 100))
    assert [(one["hits"], one["reads"]) for one in member.fleet.report(member.now_ns)] == [(90, 100)]
    member.fleet.counted(7, 8)
    assert member.take() == [SendToPeer(1, CallsCounted(7, 8))]


def test_a_proxy_that_cannot_write_its_fences_gives_no_leases(member: Member) -> None:
    member.follows()
    member.records._proxy.page[Slot.UNFENCED] = 1
    assert given(member.got(2, LeaseAsked(1))) == [(1, 0)]


def test_what_cannot_be_recorded_is_not_acknowledged(member: Member) -> None:
    member.followed()

    def full(*_: object) -> None:
        raise CacheError("the disk is full")

    member.records.hold = full  # type: ignore[method-assign, assignment]
    commands = member.got(1, FenceRaised(OTHER, 9, TABLE))
    assert commands == [ServeUntil(0), ClosePeer(1, "the disk is full")] or commands == [
        ClosePeer(1, "the disk is full"),
        ServeUntil(0),
    ]


def test_another_metastore_is_refused(member: Member) -> None:
    member.fleet.accepted(2, OTHER, member.now_ns)
    commands = member.got(2, Hello(b"another", b"other:1", b"", 0))
    assert isinstance(commands[0], SendToPeer) and isinstance(commands[0].message, RefusedPeer)
    assert of(ClosePeer, commands)
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    assert ClosePeer(1, "why") in member.got(1, RefusedPeer(b"why"))


def test_who_refuses_this_proxy_is_dialled_seldom(member: Member) -> None:
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    member.got(1, RefusedPeer(b"why"))
    assert [one["problem"] for one in member.fleet.report(member.now_ns)] == ["why"]
    assert not of(DialPeer, member.after(1))
    assert of(DialPeer, member.after(2)) == [DialPeer("other:1")]


def test_its_own_address(member: Member) -> None:
    member.listed("own:1", "other:1")
    member.fleet.dialled(1, "own:1", OWN, member.now_ns)
    assert of(ClosePeer, member.take())
    member.fleet.dialled(2, "other:1", OTHER, member.now_ns)
    commands = member.got(2, Welcome(), Replayed(1), LeaseGiven(member.now_ns, 2 * S, 1))
    assert ServeUntil(member.now_ns + 2 * S) in commands, "its own lease is not required"
    assert DialPeer("own:1") not in member.after(5)


def test_one_member_at_two_addresses(member: Member) -> None:
    """It is followed at one of them, and not dialled at the other again and again. It has answered at both."""
    member.followed()
    assert DialPeer("alias:1") in member.listed("other:1", "alias:1")
    assert not member.fleet.writes_leave
    member.fleet.dialled(7, "alias:1", OTHER, member.now_ns)
    assert member.fleet.writes_leave
    assert of(ClosePeer, member.take()) == [ClosePeer(7, "it is followed at another address")]
    assert not of(DialPeer, member.after(1))
    member.fleet.closed(1, member.now_ns)
    assert {DialPeer("other:1"), DialPeer("alias:1")} & set(of(DialPeer, member.after(3)))


def test_who_answers_at_an_address_that_a_newcomer_names_is_seen_there(member: Member) -> None:
    """Two members may name the same address, such as that of their containers on two machines. The one that answered
    there may have been cut off; nobody has seen that it has ended."""
    member.listed("other:1", "third:1")
    member.followed()
    member.follows(link=2, incarnation=THIRD)
    member.fleet.dialled(3, "third:1", THIRD, member.now_ns)
    asked = of(SendToPeer, member.got(3, Welcome(), Replayed(3)))[-1]
    assert isinstance(asked, SendToPeer) and isinstance(asked.message, LeaseAsked)
    commands = member.got(3, LeaseGiven(asked.message.asked_ns, 2 * S, 3))
    assert not of(ServeUntil, commands) and not member.fleet.serves_until(member.now_ns), "other:1 has not answered"
    member.after(0.2)
    member.followed(link=4)
    assert member.fleet.serves_until(member.now_ns) > member.now_ns


def test_an_orderly_stop(member: Member) -> None:
    member.followed()
    member.follows()
    member.got(2, LeaseAsked(5))
    member.fleet.stop(member.now_ns)
    commands = member.take()
    assert commands[0] == ServeUntil(0)
    assert given(commands) == [(5, 2 * S)]
    assert commands[-1] == SendToPeer(1, AnswersNothing())
    assert given(member.got(2, LeaseAsked(6))) == [(6, 0)]
    assert not of(SendToPeer, member.after(0.6)), "it asks for no lease: writes elsewhere would wait for it"


@pytest.mark.parametrize("serves", [True, False])
@pytest.mark.parametrize("said", [[], [Welcome(), Replayed(3)]])
def test_who_asks_for_no_lease_stays_connected_while_nothing_is_written(serves: bool, said: list[PeerMessage]) -> None:
    """As with `strict` and `eventual`."""
    member = Member(serves=serves)
    member.listed("other:1")
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    member.got(1, *said)
    commands = [command for _ in range(20) for command in member.after(1)]
    stays = not serves and said != []
    assert bool(of(ClosePeer, commands)) is bool(of(DialPeer, commands)) is not stays
    asked = [one for one in commands if isinstance(one, SendToPeer) and isinstance(one.message, LeaseAsked)]
    assert bool(asked) is (serves and said != [])


def test_a_follower_that_stops_is_not_waited_for(member: Member) -> None:
    member.followed()
    member.follows()
    member.got(2, LeaseAsked(5))
    member.fleet.write(1, 1, TABLE, member.now_ns)
    assert not of(MayLeave, member.take())
    assert MayLeave(1) in member.got(2, AnswersNothing())


@pytest.mark.parametrize("lag_s", [0, 1, 3, 35, 100])
def test_a_start_waits_longer_than_any_lease_that_was_given_before(lag_s: int) -> None:
    times = FleetTimes(list_lag_ns=lag_s * S)
    assert times.write_age_ns >= times.outlasted(times.last_lease_ns)
    assert times.last_lease_ns <= 15 * S


def test_a_list_that_cannot_be_looked_up_counts_for_a_while() -> None:
    member = Member(lag_s=35)
    member.listed("own:1", "other:1")
    member.fleet.dialled(9, "own:1", OWN, member.now_ns)
    member.now_ns += 71 * S
    member.listed("own:1", "other:1")
    member.followed()
    assert member.fleet.serves_until(member.now_ns) == member.now_ns + 2 * S
    member.now_ns += 4 * S
    member.fleet.listed([], member.now_ns, complete=False)
    assert member.fleet.roster.places["other:1"].listed, "nothing is removed"
    fresh_until_ns = member.now_ns + S
    member.fleet._leases[OTHER] = member.now_ns + 2 * S
    assert member.fleet.serves_until(member.now_ns) == fresh_until_ns
    assert member.fleet.serves_until(member.now_ns) < member.now_ns + 2 * S


def test_a_peer_that_speaks_before_its_hello(member: Member) -> None:
    """Also on a second connection, while the hello was said on the first one."""
    member.follows()
    member.fleet.accepted(3, OTHER, member.now_ns)
    with pytest.raises(WireError):
        member.got(3, LeaseAsked(1))


@pytest.mark.parametrize(
    "message", [FenceRaised(OTHER, 1, TABLE), Replayed(1), Hello(b"m", b"a", b"", 0), TokensCancelled(())]
)
def test_messages_in_the_wrong_order(member: Member, message: PeerMessage) -> None:
    member.fleet.dialled(1, "other:1", OTHER, member.now_ns)
    with pytest.raises(WireError):
        member.got(1, message)


def test_a_lease_that_was_not_asked_for(member: Member) -> None:
    member.followed()
    with pytest.raises(WireError):
        member.got(1, LeaseGiven(member.now_ns + S, 2 * S, 0))


def test_cancelled_tokens_are_told_once_and_all_of_them_to_a_new_follower(member: Member) -> None:
    one, two, three = (bytes([number]) * RECORD_BYTES for number in range(3))
    member.fleet.tokens_cancelled((one,))
    sent = of(SendToPeer, member.follows())
    assert sent[-2:] == [SendToPeer(2, Replayed(0)), SendToPeer(2, TokensCancelled((one,)))]
    assert sent[0] == SendToPeer(2, Welcome())
    member.fleet.tokens_cancelled((one, two))
    assert member.take() == [SendToPeer(2, TokensCancelled((two,)))]
    member.fleet.tokens_cancelled((two,))
    assert member.take() == [], "what is forgotten is not told"
    member.fleet.closed(2, member.now_ns)
    member.fleet.tokens_cancelled((two, three))
    assert not of(SendToPeer, member.take())
    assert of(SendToPeer, member.follows(link=4))[-1] == SendToPeer(4, TokensCancelled((two, three)))


def test_cancelled_tokens_are_no_record_of_the_stream(member: Member) -> None:
    """They are not acknowledged, and no write waits for them."""
    member.followed()
    record = b"r" * RECORD_BYTES
    assert member.got(1, TokensCancelled((record,))) == [CancelTokens((record,))]
    raised = member.got(1, FenceRaised(OTHER, 1, TABLE))
    assert of(SendToPeer, raised) == [SendToPeer(1, Acknowledged(2))]
    for wrong in (b"", record[1:], record + b"r"):
        with pytest.raises(WireError, match="another form"):
            member.got(1, TokensCancelled((record, wrong)))
    assert not of(CancelTokens, member.take())
