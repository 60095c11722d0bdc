/* The short way in one worker (methods/hot.py): a reply that was given before is given again if the page's words are
 * those for which it was approved. It must not give what the long way would not give at that moment.
 *
 * One kept reply, assembled from the cache; the worker's reads, hot and long, on one connection; a follower; another
 * worker, which writes through the proxy with a fence, or without one as its disk is full. The words are stored one by
 * one, and copied one by one while others store them. The fences' mirror is taken as true: mirror.pml.
 */

#include "harness.pml"

#define FENCES 1                /* SETTING: writes with a fence */
#define FULL 2                  /* SETTING: the disk is full for a time: a write cannot be fenced */
#define ELSEWHERE 3             /* SETTING: writes that are made elsewhere, which no fence tells of */

#define FENCE_SEQ_LEFT_OUT 1    /* RULE FENCES: fences that came since are not among what is compared */
#define UNFENCED_LEFT_OUT 2     /* RULE FULL: nor is the word that stops all hits */
#define SEQ_STORED_LAST 3       /* RULE FENCES: CACHE_SEQ is stored after DONE_TICKET */
#define SEEN_SEQ_IGNORED 4      /* RULE ELSEWHERE: a newer snapshot that this worker has answered from does not count */
#define FLOOR_IGNORED 5         /* RULE ELSEWHERE: what the connection was shown by the metastore does not count */
#define VALID_FOR_EVER 6        /* RULE FENCES: a reply that was found valid once is not looked at after a commit */
#define UNFENCED_REUSED 7       /* RULE FULL: UNFENCED goes back to where it was when all is recorded */

#define HOT 1                   /* MOMENT FENCES FULL ELSEWHERE: a hit by the short way */
#define HOT_AFTER_WRITE 2       /* MOMENT FENCES FULL: ... with what was acknowledged last */
#define AS_IT_IS 3              /* MOMENT FENCES FULL: ... as the words are those for which it was approved */
#define STILL_VALID 4           /* MOMENT FENCES FULL: ... as other words changed, and the reply is valid */
#define REVALIDATED 5           /* MOMENT FENCES FULL: ... after a look at its versions */
#define CHANGED_MEANWHILE 6     /* MOMENT FENCES FULL: words change between two looks */
#define SUSPENDED 7             /* MOMENT FULL: all hits are stopped */

#define WRITES 1
#define STEPS 3
#define INFINITE 200
#define NOTHING 255

/* The page, in the order in which it is copied. */
#define SEQ 0
#define DONE 1
#define BEGAN 2
#define FENCE 3
#define UNFENCED 4
#define WORDS 5

byte page[WORDS];

byte version, acknowledged;     /* of the object; the newest that a client was told */
byte number, last_ticket;       /* the fences' environment */
byte by[WRITES];                /* Fence.lifted_by */
byte cached, cached_seq, cached_done;
byte begun;                     /* steps of the follower; a floor is the number of steps begun when it was lifted */
bit owed_word;                  /* Suspension: a write could not be recorded */

#define fenced(t) (by[0] > (t))

proctype follower() {
    byte taken, got, n;
end_step:
    atomic {
        begun < STEPS && (last_ticket > cached_done || cached != version) ->
        begun++; taken = last_ticket; got = version;
        printf("follower: a step begins: tickets up to %d, version %d\n", taken, got)
    };
    atomic {
        if
        :: got != cached || taken > cached_done -> cached = got; cached_seq++; cached_done = taken
        :: else
        fi;
        printf("follower: commits version %d, sequence number %d, tickets up to %d\n", cached, cached_seq, cached_done)
    };
    if
    :: planted == SEQ_STORED_LAST -> page[DONE] = cached_done; page[SEQ] = cached_seq
    :: else -> page[SEQ] = cached_seq; page[DONE] = cached_done
    fi;
    atomic {    /* FenceStore.done */
        if
        :: (by[0] && by[0] <= taken) ->
            if :: by[0] <= taken -> by[0] = 0 :: else fi;
            number++; n = number
        :: else
        fi
    };
    atomic { if :: n -> page[FENCE] = n :: else fi };
    atomic { page[BEGAN] = begun; taken = 0; got = 0; n = 0; printf("follower: is confirmed as of step %d\n", begun); goto end_step }
}

/* Another worker: two writes, one after the other; consistency/guards.py, suspension.py. */
proctype worker() {
    byte w, n, made;
    bit recorded;
    do
    :: w == WRITES -> break
    :: else ->
        atomic {
            if
            :: setting == ELSEWHERE
            :: setting != ELSEWHERE -> recorded = 1; number++; n = number; by[w] = INFINITE; printf("worker 1: write %d is fenced\n", w)
            :: setting == FULL -> page[UNFENCED] = page[UNFENCED] + 1; printf("worker 1: write %d cannot be fenced: UNFENCED is %d\n", w, page[UNFENCED])
            fi
        };
        if :: recorded -> page[FENCE] = n :: else fi;
        atomic { version++; made = version; printf("metastore: write %d makes version %d\n", w, version) };
        if
        :: recorded -> atomic { number++; n = number; last_ticket++; by[w] = last_ticket }; page[FENCE] = n
        :: else
        fi;
        if
        :: setting == ELSEWHERE -> made = 0
        :: else
        fi;
        atomic { acknowledged = max(acknowledged, made); printf("worker 1: write %d is acknowledged\n", w) };
        if
        :: recorded || setting == ELSEWHERE
        :: setting == FULL && !recorded ->      /* Guards.settle: there is room again */
            atomic { number++; n = number; last_ticket++; by[w] = last_ticket; printf("worker 1: write %d is recorded: ticket %d\n", w, last_ticket) };
            page[FENCE] = n;
            page[UNFENCED] = (planted == UNFENCED_REUSED -> page[UNFENCED] - 1 : page[UNFENCED] + 1)
        fi;
        atomic { recorded = 0; n = 0; made = 0; w++ }
    od
}

#define compared(n) (!((n) == FENCE && planted == FENCE_SEQ_LEFT_OUT) && !((n) == UNFENCED && planted == UNFENCED_LEFT_OUT))

/* A worker and its one connection. */
proctype client() {
    byte state[WORDS];              /* HotPath._state */
    byte unchanging_seen, next[WORDS];
    byte kept, kept_seq, seen_seq, floor, seen, owed, n;
    bit approved, valid, any, same, after, changed;
    kept = NOTHING;
end_ready:
    atomic {
        owed = max(acknowledged, seen);
        if
        :: goto long
        :: kept != NOTHING -> goto hot
        :: begun < STEPS && !floor && version > seen -> goto relay
        fi
    };

    /* CacheDispatcher._read: the page, the fences and floors, then the snapshot. */
    atomic {
        false;
long:   if
        :: (page[UNFENCED] & 1) || fenced(page[DONE]) || (floor && floor >= page[BEGAN]) -> goto over
        :: else
        fi
    };
    atomic {
        seen_seq = max(seen_seq, cached_seq); floor = 0;
        if
        :: kept = cached; kept_seq = cached_seq; approved = 0; valid = 0; printf("client: its answer is kept\n")
        :: kept != NOTHING      /* another request about the same object */
        fi;
        printf("client: is answered the long way: version %d\n", cached);
        assert(cached >= owed);
        seen = max(seen, cached);
        goto over
    };

    /* A read that is relayed: RelayedRead.reply_began. */
    atomic {
        false;
relay:  seen = version; floor = max(begun, 1);
        printf("client: is relayed, and shown version %d\n", version);
        goto over
    };

    /* HotPath.answer: are the words those of `state`? */
hot:
    n = 0; same = 1;
    do
    :: atomic { n < WORDS -> if :: page[n] != state[n] && compared(n) -> same = 0 :: else fi; n++ }
    :: atomic { n == WORDS -> n = 0; break }
    od;
    atomic {
        if
        :: same && approved && any && (seen_seq <= unchanging_seen || planted == SEEN_SEQ_IGNORED) -> reach(AS_IT_IS); goto give
        :: else
        fi
    };
    /* _approve: the words are copied again; _renew: is the gate open in them? */
    do
    :: atomic { n < WORDS -> next[n] = page[n]; n++ }
    :: atomic { n == WORDS -> n = 0; break }
    od;
    atomic {
        if
        :: page[UNFENCED] & 1 -> reach(SUSPENDED); goto over        /* Gate.standing */
        :: else -> same = 1
        fi
    };
    do
    :: atomic { n < WORDS -> if :: page[n] != next[n] && compared(n) -> same = 0 :: else fi; n++ }
    :: atomic { n == WORDS -> n = 0; break }
    od;
    atomic {
        if
        :: !same -> reach(CHANGED_MEANWHILE); goto over
        :: else
        fi;
        changed = !any || next[SEQ] != state[SEQ] || next[DONE] != state[DONE] || (next[FENCE] != state[FENCE] && compared(FENCE)) || (next[UNFENCED] != state[UNFENCED] && compared(UNFENCED)) || max(next[SEQ], seen_seq) != unchanging_seen;
        if :: changed && planted != VALID_FOR_EVER -> valid = 0 :: else fi;
        state[0] = next[0]; state[1] = next[1]; state[2] = next[2]; state[3] = next[3]; state[4] = next[4];
        unchanging_seen = max(next[SEQ], seen_seq); any = 1; approved = 0; changed = 0;
        if
        :: valid -> approved = 1; reach(STILL_VALID); goto give
        :: else
        fi
    };
    /* _still_valid: the fences, then the versions */
    atomic {
        if
        :: fenced(page[DONE]) -> goto over      /* Gate.held_back */
        :: else
        fi
    };
    atomic {    /* ReplyCache.get: by the page's number; revalidate: by a snapshot */
        if
        :: kept_seq == max(page[SEQ], seen_seq)
        :: kept_seq != max(page[SEQ], seen_seq) ->
            seen_seq = max(seen_seq, cached_seq);
            if
            :: kept == cached -> kept_seq = cached_seq; reach(REVALIDATED)
            :: kept != cached -> kept = NOTHING; goto over
            fi
        fi;
        same = 1
    };
    do
    :: atomic { n < WORDS -> if :: page[n] != state[n] && compared(n) -> same = 0 :: else fi; n++ }
    :: atomic { n == WORDS -> n = 0; break }
    od;
    atomic {
        if
        :: !same || (seen_seq > unchanging_seen && planted != SEEN_SEQ_IGNORED) -> reach(CHANGED_MEANWHILE); goto over
        :: else
        fi;
        valid = 1; approved = 1;
give:   if
        :: floor && floor >= state[BEGAN] && planted != FLOOR_IGNORED -> goto over     /* _below_floor */
        :: else
        fi;
        floor = (planted == FLOOR_IGNORED -> floor : 0);     /* Floors.block forgets them */
        reach(HOT);
        if :: kept && kept == acknowledged -> reach(HOT_AFTER_WRITE) :: else fi;
        printf("client: is answered the short way: version %d, owed %d\n", kept, owed);
        assert(kept >= owed);
        seen = max(seen, kept);
over:   owed = 0; n = 0; same = 0; next[0] = 0; next[1] = 0; next[2] = 0; next[3] = 0; next[4] = 0;
        goto end_ready
    }
}

init { atomic { BEGIN(); page[BEGAN] = 1; begun = 1; run follower(); run worker(); run client() } }
