/* One object (a table and its partitions) in a metastore, cached by two proxies, read and written by two clients.
 *
 * Every atomic block is what the named function of the package does without another process in between. README.md has
 * what is modelled and what is not, how to run it, and how to read a counterexample.
 *
 * Times are compared with the beginnings of steps only, so each is kept as a mark: 2 = later than the beginning of the
 * step that runs; 1 = later than the beginning that is published (BEGAN_NS), and not later than that of a step that
 * runs; 0 = earlier than the one that is published. `floors.block`, `revalidate` and strict mode ask whether it is 0.
 * Tickets likewise: ASKED = not taken by the step that runs, TAKEN = taken by it.
 */

#include "harness.pml"

/* Surroundings. */
#define ONE 1           /* SETTING: both clients at one proxy; one of them writes elsewhere, too */
#define TWO 2           /* SETTING: each client at a proxy of its own */
#define LOCKS 3         /* SETTING: one proxy; a client takes locks and is told event ids, the other writes elsewhere */
#define LOG 4           /* SETTING: one proxy; the log is purged, writes come from elsewhere, too */
#define RESTORED 11     /* SETTING: the same, and another database is restored in place of a purge; clients are told event ids */
#define FAULTS 5        /* SETTING: one proxy, whose follower dies, and writes of unknown outcome */
#define SILENT 6        /* SETTING: the same, with writes that no event tells of */
#define ELSEWHERE 10    /* SETTING: one proxy; no event tells of writes, and some are made elsewhere */
#define THRIFT 7        /* SETTING: one proxy that reads objects one by one, without a snapshot */
#define TIME 8          /* SETTING: one proxy, and a clock: what was confirmed too long ago does not count */
#define STRICT 9        /* SETTING: one proxy in mode strict */

/* What is done wrong. */
#define FENCE_DROPPED 1             /* RULE ONE: a write leaves without a fence */
#define FENCE_FINITE_AFTER_REPLY 2  /* RULE ONE: the fence is born only after the reply was passed on */
#define TICKET_AFTER_SNAPSHOT 3     /* RULE ONE: the step vouches for tickets that were given after its snapshot */
#define FLOOR_IGNORED 4             /* RULE TWO: what a connection was shown is forgotten */
#define CURSOR_BEFORE_OBJECTS 5     /* RULE ONE: the cursor moves in a commit of its own, before the objects */
#define LOCK_NOT_FENCED 6           /* RULE LOCKS: a granted lock does not hold back cached answers */
#define SHARED_LOCK_FORGOTTEN 23    /* RULE LOCKS: a lock that others may hold too holds nothing back from who took it */
#define LEARNED_EARLY 7             /* RULE ONE: a learned reply counts as if it were of the cache's present state */
#define CLOCK_AFTER_SNAPSHOT 8      /* RULE TWO: BEGAN_NS is read after the snapshot's first statement */
#define SNAPSHOT_FIRST 9            /* RULE ONE: the cache's snapshot is opened before the fences are looked at */
#define COMMIT_IN_PARTS 10          /* RULE TWO: table and partitions are committed one after the other */
#define EVENT_IDS_FREE 11           /* RULE LOCKS: an event id that a client is told holds nothing back */
#define RESTORE_UNNOTICED 12        /* RULE RESTORED: only the cursor says where the log goes on, no fingerprint */
#define GAP_UNNOTICED 13            /* RULE LOG: purged events are passed over */
#define RESET_KEEPS 14              /* RULE LOG: a reset moves the cursor, and objects stay as they are */
#define HOLD_CUT_SHORT 15           /* RULE SILENT: a write of unknown outcome is over before its time is */
#define TICKETS_LOST 16             /* RULE SILENT: a follower that begins forgets what was asked of its predecessor */
#define FLOOR_BEFORE_TICKET 17      /* RULE ELSEWHERE: a relayed read lifts its floor before it asks for a reload */
#define TICKET_RELOADS_NOTHING 18   /* RULE SILENT: a write's ticket waits for a step, which reads nothing for it */
#define NOT_HELD 19                 /* RULE THRIFT: what changed while it was read is shown */
#define UNCONFIRMED_SERVED 20       /* RULE TIME: the age of the confirmation does not count */
#define WENT_BACK_FREE 22           /* RULE RESTORED: when the log has gone back, hits do not wait for one step more */
#define STRICT_TAKES_ANY 21         /* RULE STRICT: a confirmation that began before the read arrived will do */

/* Moments that must happen. */
#define HIT 1               /* MOMENT ONE TWO LOCKS LOG RESTORED FAULTS SILENT ELSEWHERE THRIFT TIME STRICT: an answer from the cache */
#define HIT_AFTER_WRITE 2   /* MOMENT ONE TWO LOCKS FAULTS SILENT ELSEWHERE THRIFT TIME STRICT: with what was acknowledged last */
#define FENCE_LIFTED 3      /* MOMENT ONE TWO LOCKS LOG RESTORED FAULTS SILENT ELSEWHERE THRIFT TIME STRICT: a step lifts a fence */
#define FENCED 4            /* MOMENT ONE TWO LOCKS LOG RESTORED FAULTS SILENT ELSEWHERE THRIFT TIME STRICT: a read meets a fence */
#define BELOW_FLOOR 5       /* MOMENT ONE TWO LOCKS LOG RESTORED FAULTS SILENT ELSEWHERE THRIFT TIME: a read meets its floor */
#define KEPT_SERVED 6       /* MOMENT ONE LOG: a learned reply is given */
#define KEPT_DROPPED 7      /* MOMENT ONE LOG: a commit makes one invalid */
#define RESET 8             /* MOMENT LOG RESTORED: everything loses its validity */
#define HELD_BACK 9         /* MOMENT THRIFT: an object changed while it was read */
#define UNSETTLED 10        /* MOMENT THRIFT: a read meets such an object */
#define NOT_CONFIRMED 11    /* MOMENT TIME: a read finds the confirmation too old */
#define WAITED 12           /* MOMENT STRICT: a read waits for a step that begins after it */
#define TOLD_AHEAD 13       /* MOMENT LOCKS RESTORED: a client is told an event id that the cache has not reached */
#define WENT_BACK 18        /* MOMENT RESTORED: a step finds that the log has gone back */
#define FOLLOWER_DIED 14    /* MOMENT FAULTS SILENT: the follower dies */
#define LOST 15             /* MOMENT FAULTS SILENT: a client is not told what became of its write */
#define EXPIRED 16          /* MOMENT FAULTS SILENT: the time of such a write is over */
#define QUIET 17            /* MOMENT ONE TWO LOCKS LOG RESTORED FAULTS SILENT ELSEWHERE THRIFT STRICT: all is done, nothing holds readers back */

#define PROXIES 2
#define CLIENTS 2
#define WRITES 2
#define NOTHING 255

/* Where a fence, or a ticket, is. INF: Fence.state UNBOUND; UNKN: UNKNOWN; ASKED, TAKEN: FINITE. */
#define NONE 0
#define INF 1
#define UNKN 2
#define ASKED 3
#define TAKEN 4

/* A write at the metastore. */
#define FLYING 1
#define OVER 2

#define apart (setting == TWO)
#define proxy_of(c) (apart -> (c) : 0)
#define elsewhere (setting == LOCKS || setting == LOG || setting == RESTORED || setting == ELSEWHERE || setting == TIME || setting == STRICT)
#define may_write(c) (sent < WRITES && !(c == 0 && setting == ONE) && !(c == 1 && elsewhere && setting != STRICT))
#define may_write_elsewhere(c) (sent < WRITES && c == 1 && (elsewhere || setting == ONE))
#define may_read(c) (c == 0 || setting == TWO)
#define may_learn(c) (setting == ONE || (c == 0 && setting == LOG))
#define silent (setting == SILENT || setting == ELSEWHERE)
#define faults (setting == FAULTS || setting == SILENT)
#define now_of(p) (running[p] -> 2 : 1)

/* The metastore and its database. */
byte version;           /* of the object: each change raises it */
byte logged;            /* the newest version whose change is in the log */
byte event = 1;         /* NOTIFICATION_SEQUENCE */
byte oldest = 1;        /* events below are purged */
bit history;            /* of the database: 1 once another was restored */
byte sent;              /* writes that were begun */
byte write_at[WRITES];  /* FLYING, OVER */
byte logged_before[2];  /* `logged` at the last tick of the clock, and at the one before */
bit purged, failed;     /* what happens once */

/* The cache file of each proxy. */
byte table[PROXIES], partitions[PROXIES];   /* versions; NOTHING: not loaded */
byte cursor[PROXIES] = 1;
bit fingerprint[PROXIES];                   /* of the history that the cursor is in */
bit held[PROXIES];                          /* Meta.held */

/* The state page. */
bit confirmed[PROXIES] = 1;     /* BEGAN_NS is not 0 */
byte age[PROXIES];              /* ticks since the published step began, at most 2 */
byte page_cursor[PROXIES] = 1;

/* The follower's step, as others see it. */
bit running[PROXIES];           /* from the clock's reading to its publication */
bit done[PROXIES];              /* its tickets are published as DONE_TICKET */
byte running_age[PROXIES];

/* Fences, tickets, floors, kept replies. */
byte fence[WRITES], fenced_at[WRITES];      /* of each write; at which proxy */
byte lock_fence[CLIENTS];                   /* FenceStore.fence_now: after a lock, or an event id, of each client */
byte restore_fence[PROXIES];                /* ... of a step that found that the log has gone back */
byte reload[PROXIES];                       /* a ticket without a fence */
byte floor[CLIENTS];                        /* mark of each connection */
byte kept[PROXIES] = NOTHING;               /* ReplyEntry of a read that has no reader: its version */
byte learned[PROXIES];                      /* ... and its mark */
bit unchanged[CLIENTS];                     /* no commit has touched the object since this read took its versions */
byte arrived[CLIENTS];                      /* mark of the read under way (strict) */
bit busy[PROXIES];                          /* the loop of the worker is inside a decision about a read */

/* What readers must see. */
byte must[PROXIES];             /* through this proxy: acknowledged, locked, told by an event id */
byte seen[CLIENTS];             /* on this connection */
byte told[PROXIES];             /* through this proxy, once it knows of another history: what event ids said */

/* consistency/fences.py, FenceMirror.active: is the ticket above DONE_TICKET? */
#define up(f, p) ((f) == INF || (f) == UNKN || (f) == ASKED || ((f) == TAKEN && !done[p]))
#define fence_up(n, p) (fenced_at[n] == p && up(fence[n], p))
#define lock_up(c, p) (proxy_of(c) == p && up(lock_fence[c], p))
#define fenced(p) (up(restore_fence[p], p) || fence_up(0, p) || fence_up(1, p) || lock_up(0, p) || lock_up(1, p))

/* Is there anything that a step would change? One that changes nothing is left out. */
#define asked(p) ((fenced_at[0] == p && fence[0] == ASKED) || (fenced_at[1] == p && fence[1] == ASKED) \
    || (proxy_of(0) == p && lock_fence[0] == ASKED) || (proxy_of(1) == p && lock_fence[1] == ASKED) || reload[p] == ASKED || restore_fence[p] == ASKED)
#define behind(p) (cursor[p] != event || fingerprint[p] != history || table[p] == NOTHING || held[p])
#define waited_for(p) (!confirmed[p] || age[p] || learned[p] || (proxy_of(0) == p && (floor[0] || arrived[0])) \
    || (proxy_of(1) == p && (floor[1] || arrived[1])))

inline change(n) {
    version++;
    if
    :: silent
    :: else -> event++; logged = version
    fi;
    write_at[n] = OVER
}

inline begins(m) { if :: m == 2 -> m = 1 :: else fi }
inline publishes(m) { if :: m == 1 -> m = 0 :: else fi }
inline takes(f) { if :: f == ASKED -> f = TAKEN :: else fi }
inline gives_back(f) { if :: f == TAKEN -> f = (planted == TICKETS_LOST -> NONE : ASKED) :: else fi }
inline lifts(f) { if :: f == TAKEN -> f = NONE; reach(FENCE_LIFTED) :: else fi }

inline clock_read(p) {
    running[p] = 1; running_age[p] = 0; begins(learned[p]);
    if :: proxy_of(0) == p -> begins(floor[0]); begins(arrived[0]) :: else fi;
    if :: proxy_of(1) == p -> begins(floor[1]); begins(arrived[1]) :: else fi
}

inline tickets_taken(p) {
    if
    :: planted == TICKET_RELOADS_NOTHING
    :: else -> wanted = wanted || reload[p] == ASKED || (fenced_at[0] == p && fence[0] == ASKED) || (fenced_at[1] == p && fence[1] == ASKED)
    fi;
    if :: fenced_at[0] == p -> takes(fence[0]) :: else fi;
    if :: fenced_at[1] == p -> takes(fence[1]) :: else fi;
    if :: proxy_of(0) == p -> takes(lock_fence[0]) :: else fi;
    if :: proxy_of(1) == p -> takes(lock_fence[1]) :: else fi;
    takes(reload[p]); takes(restore_fence[p])
}

inline tickets_lifted(p) {
    if :: fenced_at[0] == p -> lifts(fence[0]) :: else fi;
    if :: fenced_at[1] == p -> lifts(fence[1]) :: else fi;
    if :: proxy_of(0) == p -> lifts(lock_fence[0]) :: else fi;
    if :: proxy_of(1) == p -> lifts(lock_fence[1]) :: else fi;
    if :: reload[p] == TAKEN -> reload[p] = NONE :: else fi;
    lifts(restore_fence[p]);
    done[p] = 0
}

/* follower/runner.py: a step that fails publishes nothing; a follower that dies has a successor, which clears BEGAN_NS. */
inline follower_dies(p) {
    failed = 1; running[p] = 0; running_age[p] = 0; confirmed[p] = 0; age[p] = 0;
    gives_back(fence[0]); gives_back(fence[1]); gives_back(reload[p]);
    reach(FOLLOWER_DIED);
    printf("proxy %d: the follower dies; its successor begins\n", p)
}

inline touched(p) {     /* the version of the object is raised */
    if :: kept[p] != NOTHING -> reach(KEPT_DROPPED) :: else fi;
    kept[p] = NOTHING; learned[p] = 0;
    if :: proxy_of(0) == p -> unchanged[0] = 0 :: else fi;
    if :: proxy_of(1) == p -> unchanged[1] = 0 :: else fi
}

/* follower/cycle.py, Cycle.step */
proctype follower(byte p) {
    byte got_table, got_partitions, got_event;
    bit got_history, wanted, reset, overtaken;
end_step:
    atomic {
        behind(p) || asked(p) || waited_for(p) ->
        if
        :: planted == CLOCK_AFTER_SNAPSHOT
        :: else -> clock_read(p); printf("proxy %d: a step begins: the clock is read\n", p)
        fi;
        if
        :: silent
        :: else -> tickets_taken(p); goto snapshot     /* only tickets that ask for objects need them apart */
        fi
    };
    atomic {    /* FenceStore.pending_tickets */
        tickets_taken(p);
        printf("proxy %d: its tickets are taken\n", p)
    };
    atomic {    /* RawStore.snapshot, its first statement: the event id; over SQL the objects are of the same moment */
        true;
snapshot:
        got_event = event; got_history = history; got_table = version; got_partitions = version;
        printf("proxy %d: its snapshot is of event %d, version %d\n", p, event, version);
        /* step.continues, step.gather */
        reset = got_event < cursor[p] || (got_history != fingerprint[p] && planted != RESTORE_UNNOTICED) ||
            (oldest > cursor[p] + 1 && got_event > cursor[p] && planted != GAP_UNNOTICED);
        wanted = wanted || table[p] == NOTHING || held[p] || (got_event > cursor[p] && oldest <= cursor[p] + 1);
        if
        :: setting == THRIFT
        :: faults && !failed -> follower_dies(p); goto over
        :: setting != THRIFT -> goto commit
        fi
    };
    /* store/thrift: there is no snapshot; each object is of the moment when it is asked for */
    atomic { got_table = version; printf("proxy %d: the table is read, version %d\n", p, version) };
    atomic { got_partitions = version; printf("proxy %d: its partitions are read, version %d\n", p, version) };
    atomic {    /* Log.overtaken */
        overtaken = event > got_event && planted != NOT_HELD;
        printf("proxy %d: changed meanwhile: %d\n", p, overtaken)
    };
commit:
    if
    :: atomic {
        planted == CURSOR_BEFORE_OBJECTS && !reset ->
        cursor[p] = got_event; page_cursor[p] = got_event; done[p] = 1;
        printf("proxy %d: the cursor is committed, and published\n", p)
    }
    :: atomic {
        planted == COMMIT_IN_PARTS && !reset && wanted ->
        table[p] = got_table;
        printf("proxy %d: the table is committed\n", p)
    }
    :: atomic {
        !((planted == CURSOR_BEFORE_OBJECTS && !reset) || (planted == COMMIT_IN_PARTS && !reset && wanted)) ->
        goto commit_all
    }
    fi;
    atomic {    /* CacheWriter.commit: objects, cursor, tickets, what is held back, in one transaction */
        true;
commit_all:
        if
        :: planted == TICKET_AFTER_SNAPSHOT -> tickets_taken(p)
        :: planted == CLOCK_AFTER_SNAPSHOT -> clock_read(p)
        :: else
        fi;
        if
        :: reset && planted != RESET_KEEPS ->   /* Cycle._start_again: the object is loaded in this commit, or later */
            reach(RESET);
            if
            :: got_event < cursor[p] -> restore_fence[p] = (planted == WENT_BACK_FREE -> NONE : ASKED); reach(WENT_BACK)
            :: else
            fi;
            if
            :: got_history != fingerprint[p] -> must[p] = max(must[p], told[p]); told[p] = 0
            :: else
            fi;
            touched(p);
            if
            :: table[p] = got_table; partitions[p] = got_partitions
            :: table[p] = NOTHING; partitions[p] = NOTHING
            fi
        :: !reset && wanted -> touched(p); table[p] = got_table; partitions[p] = got_partitions
        :: else
        fi;
        cursor[p] = got_event; fingerprint[p] = got_history; held[p] = overtaken;
        if :: overtaken -> reach(HELD_BACK) :: else fi;
        printf("proxy %d: committed: cursor %d, table %d, partitions %d; held back %d, reset %d\n", p, cursor[p], table[p], partitions[p], held[p], reset);
        got_table = 0; got_partitions = 0; got_history = 0; wanted = 0; reset = 0; overtaken = 0;
        if
        :: faults && !failed -> follower_dies(p); goto over
        :: true
        fi
    };
    atomic {    /* CacheWriter._publish, FenceStore.done, page[BEGAN_NS] = began_ns; mirror.pml and hot.pml take them apart */
        page_cursor[p] = got_event; done[p] = 1;
        tickets_lifted(p);
        confirmed[p] = 1; age[p] = running_age[p]; running[p] = 0; running_age[p] = 0; publishes(learned[p]);
        if :: proxy_of(0) == p -> publishes(floor[0]); publishes(arrived[0]) :: else fi;
        if :: proxy_of(1) == p -> publishes(floor[1]); publishes(arrived[1]) :: else fi;
        printf("proxy %d: published: cursor %d; its tickets are done, their fences deleted; its beginning confirms the cache\n", p, got_event);
over:   got_table = 0; got_partitions = 0; got_event = 0; got_history = 0; wanted = 0; reset = 0; overtaken = 0;
        goto end_step
    }
}

proctype client(byte c) {
    byte p, owed, got, n;
    bit asks, learns, fresh, keeps;
ready:
    if
    :: atomic { may_read(c) -> p = proxy_of(c); goto read }
    :: atomic { may_learn(c) -> p = proxy_of(c); learns = 1; goto read }
    :: atomic { may_write(c) -> p = proxy_of(c); goto write }
    :: atomic { may_write_elsewhere(c) -> n = sent; sent++; change(n); n = 0; printf("metastore: version %d is made elsewhere, event %d\n", version, event); goto ready }
    :: atomic { setting == LOCKS && c == 0 -> p = proxy_of(c); goto lock }
    :: atomic { (setting == LOCKS || setting == RESTORED) && c == 0 -> p = proxy_of(c); goto ids }
    :: goto stopped
    fi;

    atomic {    /* a read arrives */
        false;
read:
        owed = max(must[p], seen[c]);
        if
        :: setting == STRICT -> owed = max(owed, logged); arrived[c] = now_of(p)
        :: setting == TIME -> owed = max(owed, logged_before[1])
        :: else
        fi;
        printf("client %d: a read arrives at proxy %d and must see version %d\n", c, p, owed);
        if
        :: setting == STRICT
        :: else -> goto decide1        /* in other modes nothing depends on when it arrived */
        fi
    };
    atomic {    /* methods/dispatch.py, CacheDispatcher._read: Gate.standing, Gate.held_back */
        true;
decide1:
        !busy[p];
        fresh = learned[p] == 0;    /* seen = moved() */
        if
        :: !confirmed[p] -> goto missed                                                         /* starting */
        :: else
        fi;
        if
        :: setting == STRICT && arrived[c] && planted != STRICT_TAKES_ANY -> reach(WAITED); goto waits
        :: else
        fi;
        if
        :: setting == TIME && age[p] > 1 && planted != UNCONFIRMED_SERVED -> asks = 1; reach(NOT_CONFIRMED); goto missed
        :: else
        fi;
        if
        :: planted == SNAPSHOT_FIRST -> busy[p] = 1; got = table[p]; goto fences_after
        :: else
        fi;
held_back:
        if
        :: fenced(p) -> asks = 1; got = 0; reach(FENCED); goto waits
        :: else
        fi;
        if
        :: floor[c] && !(learns && kept[p] == NOTHING) -> asks = 1; got = 0; reach(BELOW_FLOOR); goto waits
        :: else
        fi;
        keeps = floor[c] != 0;      /* only to be learned */
        busy[p] = 1;
        printf("client %d: the gate is open, and neither a fence nor a floor holds it back\n", c)
    };
    atomic {    /* CacheReader.snapshot, CacheDispatcher._from_cache */
        if
        :: held[p] -> keeps = 0; reach(UNSETTLED); goto waits
        :: else
        fi;
        if
        :: table[p] == NOTHING -> keeps = 0; goto missed                                        /* not_loaded */
        :: else
        fi;
        if
        :: learns && (kept[p] == NOTHING || !fresh || keeps) -> keeps = 1; unchanged[c] = 1; goto missed     /* Misses.learn */
        :: learns && kept[p] != NOTHING && fresh && !keeps -> got = kept[p]; reach(KEPT_SERVED)      /* ReplyCache.revalidate */
        :: !learns && planted != SNAPSHOT_FIRST ->
            got = table[p];
            assert(table[p] == partitions[p])           /* of one snapshot, never torn */
        :: !learns && planted == SNAPSHOT_FIRST
        fi;
        printf("client %d: is answered from the cache of proxy %d: version %d\n", c, p, got);
        reach(HIT);
        if :: got > 0 && got == must[p] -> reach(HIT_AFTER_WRITE) :: else fi;
        assert(got >= owed);            /* what this reader must see */
        seen[c] = max(seen[c], got);
        busy[p] = 0;
        goto over
    };
    atomic { goto held_back };
        false;
waiting:
    atomic { setting == STRICT -> goto decide1 };
fences_after:
    atomic { true; goto held_back };

    atomic {    /* decision.Wait: until BEGAN_NS has moved; out of patience, it is relayed */
        false;
waits:
        busy[p] = 0;
        if
        :: setting == STRICT -> asks = 0; keeps = 0; fresh = 0; got = 0; goto waiting
        :: setting != STRICT -> printf("client %d: waits in vain\n", c); goto over     /* as if it arrived when it is decided */
        :: true
        fi;
missed: busy[p] = 0; fresh = 0; owed = 0; arrived[c] = 0;
    };
    atomic {    /* decision.Forward */
        got = version;
        printf("client %d: its read is relayed; the metastore has version %d\n", c, version)
    };
    if
    :: atomic {
        planted == FLOOR_BEFORE_TICKET && asks && !busy[p] ->
        floor[c] = now_of(p);
        printf("client %d: the reply with version %d arrives; its floor is up\n", c, got)
    }
    :: atomic { !(planted == FLOOR_BEFORE_TICKET && asks) && !busy[p] -> goto reply }
    fi;
    atomic {    /* effects.RelayedRead.reply_began, reply_done; then the reply goes on */
        !busy[p];
reply:  if :: asks -> reload[p] = ASKED :: else fi;
        if
        :: planted == FLOOR_IGNORED || (planted == FLOOR_BEFORE_TICKET && asks)
        :: else -> floor[c] = now_of(p)
        fi;
        seen[c] = max(seen[c], got);
        if
        :: keeps && planted == LEARNED_EARLY -> kept[p] = got; learned[p] = 0
        :: keeps && planted != LEARNED_EARLY && !unchanged[c] -> kept[p] = NOTHING; learned[p] = 0
        :: keeps && planted != LEARNED_EARLY && unchanged[c] && kept[p] == NOTHING -> kept[p] = got; learned[p] = now_of(p)
        :: else
        fi;
        printf("client %d: has a reply of the metastore, version %d; ticket %d, kept %d\n", c, got, asks, keeps);
over:   owed = 0; got = 0; n = 0; asks = 0; learns = 0; fresh = 0; keeps = 0; unchanged[c] = 0; arrived[c] = 0; p = 0;
        goto ready
    };

    atomic {    /* effects.FencedWrite.sending, FenceStore.begin; the request leaves */
        false;
write:
        n = sent; sent++;
        fenced_at[n] = p;
        fence[n] = ((planted == FENCE_DROPPED || planted == FENCE_FINITE_AFTER_REPLY) -> NONE : INF);
        write_at[n] = FLYING;
        printf("client %d: write %d is fenced at proxy %d and leaves\n", c, n, p)
    };
    if
    :: atomic { true -> change(n); got = version; printf("metastore: write %d makes version %d, event %d\n", n, version, event) }
    :: atomic { faults -> write_at[n] = OVER; printf("metastore: write %d is refused\n", n) }
    :: atomic { faults -> goto lost }
    fi;
    if
    :: atomic { faults -> goto lost }
    :: atomic {     /* effects.FencedWrite.reply_done, FenceStore.finish; then the reply goes on */
        true ->
        if
        :: planted == FENCE_DROPPED || planted == FENCE_FINITE_AFTER_REPLY
        :: else -> fence[n] = ASKED
        fi;
        must[p] = max(must[p], got); seen[c] = max(seen[c], got);
        printf("client %d: write %d is acknowledged; its fence has a ticket\n", c, n);
        if
        :: planted == FENCE_FINITE_AFTER_REPLY
        :: else -> goto over
        fi
    }
    fi;
    atomic { fence[n] = ASKED; printf("proxy %d: the fence of write %d is there\n", p, n); goto over };

    atomic {    /* effects.FencedWrite.failed, FenceStore.unknown; or its worker died: FenceStore.expire */
        false;
lost:
        fence[n] = UNKN; reach(LOST);
        printf("client %d: is not told what became of write %d\n", c, n);
        goto over
    };

    atomic {
        false;
lock:
        got = logged;
        printf("metastore: client %d has the lock\n", c)
    };
    atomic {    /* effects.Lock.reply_done; then the reply goes on */
        if
        :: true ->      /* exclusive: FenceStore.fence_now */
            lock_fence[c] = (planted == LOCK_NOT_FENCED -> lock_fence[c] : ASKED);
            must[p] = max(must[p], got);
            printf("client %d: is told that it has the lock; the object is fenced at proxy %d\n", c, p)
        :: true ->      /* SHARED_READ: Floors.lift */
            floor[c] = (planted == SHARED_LOCK_FORGOTTEN -> floor[c] : now_of(p));
            seen[c] = max(seen[c], got);
            printf("client %d: is told that it has the shared lock; its floor is up\n", c)
        fi;
        goto over
    };

    atomic {    /* get_current_notificationEventId */
        false;
ids:
        got = event; n = logged;
        printf("metastore: client %d asks for the event id: %d\n", c, event)
    };
    atomic {    /* effects.EventIds.reply_done, EffectsContext.fence_now, FenceStore.fence_now; then the reply goes on */
        if
        :: got > page_cursor[p] && planted != EVENT_IDS_FREE -> lock_fence[c] = ASKED; reach(TOLD_AHEAD)
        :: else
        fi;
        if
        :: fingerprint[p] == history -> must[p] = max(must[p], n)
        :: else -> told[p] = max(told[p], n)      /* until its next step a proxy does not know that there is another history */
        fi;
        printf("client %d: is told the event id %d by proxy %d\n", c, got, p);
        goto over
    };

stopped: skip
}

/* What happens by itself. */
proctype world() {
again:
    if
    :: atomic {
        setting == TIME ->
        logged_before[1] = logged_before[0]; logged_before[0] = logged;
        age[0] = (age[0] < 2 -> age[0] + 1 : 2);
        running_age[0] = ((running[0] && running_age[0] < 2) -> running_age[0] + 1 : running_age[0]);
        printf("the clock ticks\n")
    }
    /* The metastore carries a write of unknown outcome out, or not, within the longest request time; FenceStore.expire. */
#define UNKNOWN_OUTCOME(n) \
    :: atomic { fence[n] == UNKN && write_at[n] == FLYING -> change(n); printf("metastore: write %d, of unknown outcome, makes version %d\n", n, version) } \
    :: atomic { fence[n] == UNKN && write_at[n] == FLYING -> write_at[n] = OVER; printf("metastore: write %d never happens\n", n) } \
    :: atomic { fence[n] == UNKN && (write_at[n] == OVER || planted == HOLD_CUT_SHORT) -> fence[n] = ASKED; reach(EXPIRED); \
        printf("proxy %d: the time of write %d is over; its fence has a ticket\n", fenced_at[n], n) } \
    :: atomic { planted == HOLD_CUT_SHORT && faults && fence[n] != UNKN && fence[n] != INF && write_at[n] == FLYING -> \
        change(n); printf("metastore: write %d, of unknown outcome, makes version %d\n", n, version) }
    UNKNOWN_OUTCOME(0)
    UNKNOWN_OUTCOME(1)
    :: atomic { setting == LOG && !purged && event > 1 -> purged = 1; oldest = event + 1; printf("metastore: the log is purged up to event %d\n", event) }
    :: atomic {
        setting == RESTORED && !history && event > 1 ->
        history = 1; event--; version++; logged = version; oldest = 1;
        printf("metastore: another database is restored: version %d, event %d\n", version, event)
    }
    :: timeout -> goto quiet
    fi;
    goto again;
quiet:  /* Nothing is left to do: nothing holds readers back, and the caches are as the metastore. */
    assert(fence[0] == NONE && fence[1] == NONE && lock_fence[0] == NONE && lock_fence[1] == NONE && restore_fence[0] == NONE);
    assert((table[0] == version || setting == ELSEWHERE) && confirmed[0] && !held[0] && !floor[0] && !floor[1]);
    assert(!apart || (table[1] == version && confirmed[1]));
    reach(QUIET)
}

init {
    atomic {
        BEGIN();
        run follower(0);
        if :: apart -> run follower(1) :: else fi;
        run client(0); run client(1); run world()
    }
}
