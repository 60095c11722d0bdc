/* The loading cache of TTL mode (cache/ttl.py): one entry, two loads at a time, a write through the proxy and writes
 * elsewhere, and a clock by which answers grow old.
 */

#include "harness.pml"

#define THROUGH 1               /* SETTING: two writes through the proxy */
#define ELSEWHERE 2             /* SETTING: writes elsewhere, and the clock */

#define END_NOT_INVALIDATED 1   /* RULE THROUGH: what a write touches is forgotten before it leaves, and not again at its end */
#define SEQ_AT_REPLY 2          /* RULE THROUGH: a load counts as begun when its reply arrives */
#define INVALID_IGNORED 3       /* RULE THROUGH: a load that began before an invalidation is kept */
#define AGE_FROM_REPLY 4        /* RULE ELSEWHERE: an entry's age counts from when it was published */
#define OLDER_REPLACES 5        /* RULE ELSEWHERE: a load replaces one that began after it, and takes over its age */

#define HIT 1                   /* MOMENT THROUGH ELSEWHERE: an answer from the cache */
#define HIT_AFTER_WRITE 2       /* MOMENT THROUGH: with what was acknowledged last */
#define EXPIRED 3               /* MOMENT ELSEWHERE: an entry is too old */
#define INVALID 4               /* MOMENT THROUGH: an entry was loaded before an invalidation */
#define HELD 5                  /* MOMENT THROUGH: a load is not kept, as a write is in flight */
#define OVERTAKEN 6             /* MOMENT ELSEWHERE: a load is not kept, as a later one is there */

#define WRITES 2
#define OLDEST 1                /* ttl, in ticks */
#define LOADS 2

byte version, acknowledged, sent;
byte before[2];                 /* the version at the last tick, and at the one before */
byte seq, invalid;              /* TtlCache: the counter, and the number of the object's last invalidation */
bit held;                       /* a write in flight */
bit there;
byte entry, entry_seq, entry_age;
byte age[LOADS];                /* ticks since each load began, at most 3 */

proctype client(byte c) {
    byte got, began, owed;
end_ready:
    atomic {
        owed = acknowledged;
        if :: setting == ELSEWHERE -> owed = max(owed, before[1]) :: else fi;
        if
        :: there && (entry_seq >= invalid || planted == INVALID_IGNORED) && entry_age <= OLDEST ->
            reach(HIT);
            if :: entry && entry == acknowledged -> reach(HIT_AFTER_WRITE) :: else fi;
            printf("client %d: is answered from the cache: version %d, owed %d\n", c, entry, owed);
            assert(entry >= owed);
            owed = 0; goto end_ready
        :: there && entry_seq < invalid -> reach(INVALID)
        :: there && entry_age > OLDEST -> reach(EXPIRED)
        :: !there
        :: true     /* due for a refresh, or another reader's claim has run out: more than one load */
        fi;
        began = seq; age[c] = 0; owed = 0;
        printf("client %d: TtlCache.begin: a load begins, seq %d\n", c, seq)
    };
    atomic {
        got = version;
        if :: planted == SEQ_AT_REPLY -> began = 255 :: else fi;
        printf("metastore: client %d loads version %d\n", c, got)
    };
    atomic {    /* TtlCache.publish, _held, _put */
        if :: began == 255 -> began = seq :: else fi;
        if
        :: held -> reach(HELD)
        :: !held && began < invalid && planted != INVALID_IGNORED
        :: !held && (began >= invalid || planted == INVALID_IGNORED) && there && entry_age < age[c] && planted != OLDER_REPLACES -> reach(OVERTAKEN)
        :: else ->
            if
            :: planted == AGE_FROM_REPLY -> entry_age = 0
            :: planted == OLDER_REPLACES && there && entry_age < age[c]
            :: else -> entry_age = age[c]
            fi;
            there = 1; entry = got; entry_seq = began;
            printf("client %d: TtlCache.publish: version %d, seq %d, age %d\n", c, entry, entry_seq, entry_age)
        fi;
        got = 0; began = 0; age[c] = 0;
        goto end_ready
    }
}

proctype writer() {
    byte made;
end_idle:
    if
    :: atomic {     /* TtlCache.hold */
        setting == THROUGH && sent < WRITES -> sent++; held = 1; seq++; invalid = seq;
        printf("client 2: TtlCache.hold: a write leaves, seq %d\n", seq)
    }
    :: atomic { setting == ELSEWHERE && version < 3 -> version++; printf("metastore: version %d is made elsewhere\n", version); goto end_idle }
    :: atomic {
        setting == ELSEWHERE ->
        before[1] = before[0]; before[0] = version;
        entry_age = (entry_age < 3 -> entry_age + 1 : 3); age[0] = (age[0] < 3 -> age[0] + 1 : 3); age[1] = (age[1] < 3 -> age[1] + 1 : 3);
        printf("the clock ticks\n");
        goto end_idle
    }
    fi;
    atomic { version++; made = version; printf("metastore: makes version %d\n", version) };
    atomic {        /* TtlCache.end_hold; then the reply goes on */
        held = 0;
        if :: planted == END_NOT_INVALIDATED :: else -> seq++; invalid = seq fi;
        acknowledged = made; made = 0;
        printf("client 2: TtlCache.end_hold: version %d is acknowledged, seq %d\n", acknowledged, seq);
        goto end_idle
    }
}

init { atomic { BEGIN(); run client(0); run client(1); run writer() } }
