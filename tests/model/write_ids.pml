/* A transactional table, read with a ValidWriteIdList and a table id: the list is all the proof that there is.
 *
 * Two transactions write a table of one name, which is dropped and made again; a follower; a reader that takes a list,
 * and reads some time later. No fence, no floor and no time helps: what is answered from the cache must be right for
 * whoever brings that list, through whatever proxy. README.md says what is modelled.
 *
 * Lists are sets of valid writes (write_ids.equivalent compares nothing else), objects are sets of changes: bit w is
 * the change that write w made to the table's metadata, bit 2 + w what its commit changed (a key-value commit).
 */

#include "harness.pml"

#define LISTS 1                 /* SETTING: two transactions, a table that may be dropped and made again, one reader */

#define WRITE_IDS_NEWER 1       /* RULE LISTS: a list proves the cache fresh if it shows all that the cache shows, or more */
#define OWN_WRITES_HIDDEN 2     /* RULE LISTS: writes that the cache knows as open make no difference */
#define TABLE_ID_IGNORED 3      /* RULE LISTS: any table of the name will do */
#define TAG_BEFORE_OBJECTS 4    /* RULE LISTS: lists are advanced in a commit of their own, before the objects */
#define COMMIT_NOT_RELOADED 5   /* RULE LISTS: the end of a transaction advances the list, and the object is not read again */
#define WRITE_IDS_OLDER 6       /* RULE LISTS: a list proves the cache fresh if the cache shows all that it shows, or more */
#define OPEN_WRITE_USED 7       /* RULE LISTS: a table that an open transaction has changed is used */
#define NEW_TABLE_UNSEEN 8      /* RULE LISTS: of a table that the cache meets first, open transactions count as not having written */

#define PROVED 1                /* MOMENT LISTS: a list is proof */
#define PROVED_AFTER_COMMIT 2   /* MOMENT LISTS: ... in which a write is valid */
#define PROVED_NEW_TABLE 3      /* MOMENT LISTS: ... of the table that was made again */
#define NO_PROOF 4              /* MOMENT LISTS: a list is none, as others have committed */
#define ANOTHER_TABLE 5         /* MOMENT LISTS: ... as it is another table's */
#define BEING_WRITTEN 6         /* MOMENT LISTS: ... as an open transaction has changed the table */
#define OWN_WRITE 7             /* MOMENT LISTS: a reader brings a list in which its own open write is valid */

#define WRITES 2
#define OPEN 1
#define COMMITTED 2
#define ABORTED 3

#define bit_of(w) (1 << (w))

/* The metastore's database. */
byte table_id = 1;
byte content;               /* of the table that is there */
byte state[WRITES];
byte of_table[WRITES];
bit changes_table, ends;    /* what is in the log after the cursor: an object is named, a transaction ended */
byte wrote;                 /* ... which writes changed something under their id */
bit news;                   /* ... anything */

#define open_on(w, t) (state[w] == OPEN && of_table[w] == (t))
#define committed_on(w, t) (state[w] == COMMITTED && of_table[w] == (t))
#define open_writes(t) ((open_on(0, t) -> 1 : 0) | (open_on(1, t) -> 2 : 0))
#define valid_writes(t) ((committed_on(0, t) -> 1 : 0) | (committed_on(1, t) -> 2 : 0))

/* The cache: one LMDB snapshot. */
byte cached_id = 1, cached_content, cached_valid, cached_open, cached_writers;

/* follower/cycle.py, Cycle.step; follower/reading.py, StepReading.write_ids */
proctype follower() {
    byte id, got, valid, opened, written;
    bit reads;
end_step:
    atomic {    /* one snapshot: the log, the table, its list */
        news ->
        id = table_id; got = content; valid = valid_writes(id); opened = open_writes(id);
        reads = changes_table || (ends && planted != COMMIT_NOT_RELOADED);
        if
        :: id == cached_id -> written = (wrote | cached_writers) & opened
        :: id != cached_id && planted != NEW_TABLE_UNSEEN -> written = opened    /* what was written before is not known */
        :: id != cached_id && planted == NEW_TABLE_UNSEEN -> written = 0
        fi;
        news = 0; changes_table = 0; ends = 0; wrote = 0;
        printf("follower: its snapshot has table %d, changes %d, valid writes %d, open ones %d\n", id, got, valid, opened)
    };
    if
    :: atomic {
        planted == TAG_BEFORE_OBJECTS && id == cached_id ->
        cached_valid = valid; cached_open = opened; cached_writers = written;
        printf("follower: the list is committed: valid writes %d\n", valid)
    }
    :: atomic { planted != TAG_BEFORE_OBJECTS || id != cached_id }
    fi;
    atomic {    /* CacheWriter.commit */
        if
        :: reads || id != cached_id -> cached_id = id; cached_content = got
        :: else
        fi;
        cached_valid = valid; cached_open = opened; cached_writers = written;
        printf("follower: committed: table %d, changes %d, valid writes %d, written by %d\n", cached_id, cached_content, valid, written);
        id = 0; got = 0; valid = 0; opened = 0; written = 0; reads = 0;
        goto end_step
    }
}

/* Each change and its log row are of one transaction of the database. */
proctype metastore() {
    byte w;
end_idle:
    if
#define TRANSACTION(w) \
    :: atomic { state[w] == 0 && (w == 0 || state[0] != 0) -> state[w] = OPEN; of_table[w] = table_id; news = 1; \
        printf("metastore: write %d is allocated for table %d\n", w, table_id) } \
    :: atomic { open_on(w, table_id) && !(content & bit_of(w)) -> content = content | bit_of(w); news = 1; changes_table = 1; \
        wrote = wrote | bit_of(w); printf("metastore: write %d changes the table\n", w) } \
    :: atomic { state[w] == OPEN -> state[w] = COMMITTED; news = 1; ends = 1; \
        if :: true :: of_table[w] == table_id -> content = content | bit_of(2 + w) fi; \
        printf("metastore: write %d is committed: changes %d\n", w, content) } \
    :: atomic { state[w] == OPEN -> state[w] = ABORTED; news = 1; ends = 1; printf("metastore: write %d is aborted\n", w) }
    TRANSACTION(0)
    TRANSACTION(1)
    :: atomic { table_id == 1 -> table_id = 2; content = 0; news = 1; changes_table = 1; printf("metastore: the table is dropped and made again\n") }
    fi;
    goto end_idle
}

#define owes(w) ((valid & bit_of(w)) != 0)

proctype reader() {
    byte id, valid, owed, own, w;
end_ready:
    atomic {    /* get_valid_write_ids, and the table's id; `own`: the reader is the transaction of this write */
        id = table_id; valid = valid_writes(id); own = 0;
        if
        :: true
        :: open_on(0, id) -> own = 1; valid = valid | 1
        :: open_on(1, id) -> own = 2; valid = valid | 2
        fi;
        if :: own -> reach(OWN_WRITE) :: else fi;
        owed = content;     /* of this, what is valid */
        printf("client: takes a list of table %d: valid writes %d, of which its own %d\n", id, valid, own)
    };
    if
    :: atomic { goto request }
    :: atomic {     /* its own write goes on: it must see that as well */
        own && id == table_id && !(content & own) && state[own - 1] == OPEN ->
        content = content | own; owed = owed | own; news = 1; changes_table = 1; wrote = wrote | own;
        printf("client: changes the table under its write\n")
    }
    fi;
    atomic {    /* methods/proof.py, Proof.lacks, in one snapshot of the cache */
        true;
request:
        if
        :: cached_id != id && planted != TABLE_ID_IGNORED -> reach(ANOTHER_TABLE); goto relayed
        :: else
        fi;
        if
        :: cached_writers && planted != OPEN_WRITE_USED -> reach(BEING_WRITTEN); goto relayed
        :: else
        fi;
        if
        :: valid == cached_valid
        :: valid != cached_valid ->     /* write_ids.equivalent: the same writes are valid */
            if
            :: planted == WRITE_IDS_NEWER && (valid & cached_valid) == cached_valid
            :: planted == WRITE_IDS_OLDER && (valid & cached_valid) == valid
            :: planted == OWN_WRITES_HIDDEN && (valid & ~cached_open) == cached_valid
            :: else -> reach(NO_PROOF); goto relayed
            fi
        fi;
        reach(PROVED);
        if :: valid -> reach(PROVED_AFTER_COMMIT) :: else fi;
        if :: id == 2 -> reach(PROVED_NEW_TABLE) :: else fi;
        printf("client: is answered from the cache: table %d, changes %d\n", cached_id, cached_content);
        assert(cached_id == id);
        /* It shows what is valid in the list: the change of each such write, and what its commit changed. */
        assert(!owes(0) || (owed & 5 & ~cached_content) == 0);
        assert(!owes(1) || (owed & 10 & ~cached_content) == 0);
        /* It shows nothing of writes that are not, except what aborted ones have left. */
        assert(owes(0) || state[0] == ABORTED || of_table[0] != id || (cached_content & 5) == 0);
        assert(owes(1) || state[1] == ABORTED || of_table[1] != id || (cached_content & 10) == 0);
relayed:
        id = 0; valid = 0; owed = 0; own = 0;
        goto end_ready
    }
}

init { atomic { BEGIN(); run follower(); run metastore(); run reader() } }
