/* The fences' mirror in one worker: FENCE_SEQ, `lifted`, and the order in which a reader looks.
 *
 * Two other workers write through the proxy; the follower does their tickets; a worker reads. Commits of the fences'
 * environment are atomic, and what is done between them is not: the number of a commit is stored on the page some time
 * after it. See the proof in consistency/fences.py.
 */

#include "harness.pml"

#define GATE 1                  /* SETTING: the reader asks by the page's DONE_TICKET, then opens its snapshot (Gate.held_back) */
#define SNAPSHOT 2              /* SETTING: it has a snapshot already, and asks by the snapshot's own done_ticket */

#define RECORDS_BEFORE_SLOT 1   /* RULE GATE: the mirror reads the records, then the slot */
#define OWN_COUNTER_KEPT 2      /* RULE GATE: the mirror keeps the records' own number, not the slot's */
#define NEWER_ONLY 3            /* RULE GATE: the mirror is read again only if the slot is larger than what it kept */
#define STORED_LATE 4           /* RULE GATE: the number is stored after the write has left and the reply was passed on */
#define LIFTED_IGNORED 5        /* RULE SNAPSHOT: a snapshot older than the last deleted fence is used */

#define HIT 1                   /* MOMENT GATE SNAPSHOT: an answer from the cache */
#define HIT_AFTER_WRITE 2       /* MOMENT GATE SNAPSHOT: with what was acknowledged last */
#define FENCED 3                /* MOMENT GATE SNAPSHOT: a fence holds the read back */
#define BELOW_LIFTED 4          /* MOMENT GATE SNAPSHOT: the snapshot, or the page, is older than the last deleted fence */
#define UNCHANGED 5             /* MOMENT GATE SNAPSHOT: the mirror is used as it is */
#define SLOT_BACK 6             /* MOMENT GATE SNAPSHOT: a smaller number is stored after a larger one */

#define WRITES 2
#define INFINITE 200

byte version, acknowledged;     /* of the object; the newest that a client was told */

/* The fences' environment. */
byte number;                    /* of the last commit that changed a fence: row b"c" */
byte last_ticket, lifted;
byte by[WRITES];                /* Fence.lifted_by; 0: no record */

/* The page, the cache. */
byte fence_seq, page_done;
byte cached, cached_done;

inline store(n) { if :: n < fence_seq -> reach(SLOT_BACK) :: else fi; fence_seq = n }

/* Writes `first` to `last`, one after the other. */
proctype worker(byte first, last) {
    byte w, n, made;
    w = first;
    do
    :: w > last -> break
    :: else ->
        atomic { number++; n = number; by[w] = INFINITE; printf("worker %d: FenceStore.begin, write %d: commit %d\n", first, w, n) };
        if
        :: planted == STORED_LATE
        :: else -> atomic { store(n); printf("worker %d: FENCE_SEQ is %d; write %d leaves\n", first, n, w) }
        fi;
        atomic { version++; made = version; printf("metastore: write %d makes version %d\n", w, version) };
        atomic { number++; n = number; last_ticket++; by[w] = last_ticket; printf("worker %d: FenceStore.finish, write %d: ticket %d, commit %d\n", first, w, last_ticket, n) };
        if
        :: planted == STORED_LATE -> acknowledged = max(acknowledged, made); store(n)
        :: else -> atomic { store(n); acknowledged = max(acknowledged, made); printf("worker %d: FENCE_SEQ is %d; write %d is acknowledged\n", first, n, w) }
        fi;
        made = 0; n = 0; w++
    od
}

inline deleted() {  /* FenceStore.done */
    if
    :: (by[0] && by[0] <= taken) || (by[1] && by[1] <= taken) ->
        if :: by[0] && by[0] <= taken -> lifted = max(lifted, by[0]); by[0] = 0 :: else fi;
        if :: by[1] && by[1] <= taken -> lifted = max(lifted, by[1]); by[1] = 0 :: else fi;
        number++; n = number;
        printf("follower: FenceStore.done up to ticket %d: commit %d\n", taken, n)
    :: else
    fi
}

proctype follower() {
    byte taken, got, n;
end_step:
    atomic {
        last_ticket > cached_done -> taken = last_ticket; got = version;
        printf("follower: takes the tickets up to %d; its snapshot has version %d\n", taken, got)
    };
    atomic { cached = got; cached_done = taken; printf("follower: commits version %d, tickets up to %d\n", got, taken) };
    page_done = taken;
    atomic { deleted(); got = 0; taken = 0 };
    atomic { if :: n -> store(n) :: else fi; n = 0; goto end_step }
}

/* A worker's reads; consistency/fences.py, FenceMirror. */
proctype client() {
    byte seen, mirror_lifted, mirror[WRITES], owed, done, got, slot;
    seen = 255;
end_ready:
    atomic {
        owed = acknowledged;
        printf("client: a read arrives and must see version %d\n", owed);
        if
        :: setting == SNAPSHOT -> got = cached; done = cached_done; printf("client: its snapshot has version %d, tickets up to %d\n", got, done)
        :: setting == GATE -> done = page_done
        fi
    };
    atomic {
        slot = fence_seq;
        if
        :: slot == seen || (planted == NEWER_ONLY && seen != 255 && slot < seen) -> reach(UNCHANGED); goto asks
        :: else
        fi
    };
    atomic {    /* _refresh: `seen` before the records */
        slot = fence_seq;
        printf("client: FENCE_SEQ is %d\n", slot)
    };
    atomic {
        mirror[0] = by[0]; mirror[1] = by[1]; mirror_lifted = lifted;
        seen = (planted == OWN_COUNTER_KEPT -> number : slot);
        printf("client: reads the records of commit %d\n", number)
    };
    if
    :: atomic { planted == RECORDS_BEFORE_SLOT -> seen = fence_seq }
    :: atomic { planted != RECORDS_BEFORE_SLOT -> goto asks }
    fi;
    atomic {
        true;
asks:   slot = 0;
        if
        :: done < mirror_lifted && planted != LIFTED_IGNORED -> reach(BELOW_LIFTED); goto over
        :: else
        fi;
        if
        :: mirror[0] > done || mirror[1] > done -> reach(FENCED); goto over
        :: else
        fi;
        printf("client: no fence is in its mirror\n")
    };
    atomic {
        if
        :: setting == GATE -> got = cached
        :: setting == SNAPSHOT
        fi;
        reach(HIT);
        if :: got && got == acknowledged -> reach(HIT_AFTER_WRITE) :: else fi;
        printf("client: is answered from the cache: version %d\n", got);
        assert(got >= owed);
over:   owed = 0; done = 0; got = 0; slot = 0;
        goto end_ready
    }
}

init { atomic { BEGIN(); run follower(); run worker(0, 0); run worker(1, 1); run client() } }
