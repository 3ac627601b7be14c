/* ring.pml -- the locks of rings, the leases of their messages, and the manager's audit: a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed before each (`OR_DIES`). Comments
 * name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands between the same two
 * steps.
 *
 * Three clients, two rings, one block that the messages name. Clients put what they hold into a ring and get messages.
 * Client 1 has a ring of its own, which it makes and frees. Client 3 may be stopped for ever inside a lock. Ring 1 is
 * kept by the program that started the clients. With REUSE, a dead client's number goes to another process, client 4.
 *
 * Sleeping and waking are not here: nobody sleeps for longer than a slice without checking (Note [Event words]).
 *
 * Properties
 *   owners  a lock has one owner (`lock`)
 *   held    the block is freed only when nobody holds it and no message names it (`sweep`)
 *   freed   when nothing moves any more, a block that nobody holds and no message names is free (`IS_QUIET`)
 *   locks   when nothing moves any more, and after each audit, no dead client owns a lock
 */
#ifndef OPS
#define OPS 3 /* puts and gets of all clients together */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef MANAGER_KILLS
#define MANAGER_KILLS 0
#endif
#ifndef STOPS
#define STOPS 0 /* clients that are stopped for ever */
#endif
#ifndef IDLE
#define IDLE 0 /* clients that do nothing and hold nothing; bit c: client c */
#endif
#define LAST_CLIENT 4
#define MANAGER 0
#define MANAGER_OWNER 14
#define DEAD 15
#define PUT 0
#define GET 1

/* --- shared memory --- */

typedef lock_word { byte owner, serial } /* owner 0: free */
typedef ring {
  bool is_made;        /* the block is USED, and its nbytes say that it is a ring */
  lock_word locks[2];
  byte head, tail;     /* counts; every message names the block once */
  byte n_unheld
}
ring rings[2];
byte n_ring_leases, holds;
bool ring_1_is_held; byte ring_1_generation;
bool is_free; /* the block's state */
bool is_numbered[LAST_CLIENT + 1];
bool rings_stale, activity;

/* --- what is not memory --- */

bool is_dead[LAST_CLIENT + 1], is_ended[LAST_CLIENT + 1];
byte ops_left = OPS, stops_left = STOPS, serial;
byte kills_left[2];
byte inside[4]; /* who is inside which lock, by 2 * ring + side; nothing in the C reads it */
#define OR_DIES :: atomic { kills_left[me == MANAGER] > 0 -> kills_left[me == MANAGER]--; goto killed }
#define HAS_BIT(c) ((holds >> (c)) & 1)
#define N_MESSAGES(r) (rings[r].tail - rings[r].head)
/* A ring that nobody holds is as good as free: nobody will get its messages. */
#define NAMED ((rings[0].is_made && N_MESSAGES(0) > 0) || (rings[1].is_made && ring_1_is_held && N_MESSAGES(1) > 0))

#define CLEAR(r) r.head = 0; r.tail = 0; r.n_unheld = 0; r.locks[0].owner = 0; r.locks[1].owner = 0

/* lock_ring(): waits until the lock is free or its owner dead. */
#define IS_TAKABLE(r, side) (rings[r].locks[side].owner == 0 || rings[r].locks[side].owner == DEAD)
inline lock(r, side) {
  if
  :: atomic {
       IS_TAKABLE(r, side) ->
       assert(inside[2 * (r) + side] == 0 || is_dead[inside[2 * (r) + side]]); /* owners */
       inside[2 * (r) + side] = who; serial++; mine = serial;
       rings[r].locks[side].owner = me; rings[r].locks[side].serial = mine
     }
  :: atomic { !IS_TAKABLE(r, side) && stops_left < STOPS -> goto busy } /* the deadline of the caller */
  OR_DIES
  fi
}
/* shmt__ring_unlock */
inline unlock(r, side) {
  if
  :: atomic {
       inside[2 * (r) + side] = 0;
       if
       :: rings[r].locks[side].owner == me && rings[r].locks[side].serial == mine -> rings[r].locks[side].owner = 0; rings[r].locks[side].serial = 0
       :: else
       fi;
       mine = 0
     }
  OR_DIES
  fi
  /* point: ring_unlocked, ring_event_raised */
}

/* shmt__ring_put; the caller holds the block */
inline put(r) {
  lock(r, PUT); /* then point: ring_put_locked */
#ifdef FAULT_LEASE_AFTER_TAIL
  if
  :: rings[r].tail++
  OR_DIES
  fi;
#endif
  if
  :: n_ring_leases++ /* shmt__block_add_ring_lease, then point: ring_lease_set, ring_put_leased, ring_put_written */
  OR_DIES
  fi;
#ifndef FAULT_LEASE_AFTER_TAIL
  if
  :: rings[r].tail++ /* publish(), then point: ring_put_published */
  OR_DIES
  fi;
#endif
  if
  :: atomic { me == 3 && stops_left > 0 -> stops_left--; is_ended[who] = true; goto stopped }
  :: true
  fi;
  unlock(r, PUT)
}

/* shmt__ring_get: take_locked() */
inline get(r) {
  lock(r, GET);
  if
  :: atomic { N_MESSAGES(r) == 0 }
  :: atomic { N_MESSAGES(r) > 0 } /* then point: ring_get_locked */
#ifdef FAULT_LEASES_END_BEFORE_HOLD
     atomic { if :: n_ring_leases > 0 -> n_ring_leases-- :: else fi }
#endif
     if
     :: atomic { assert(!is_free); had = HAS_BIT(me); holds = holds | (1 << me) } /* shmt__ring_blocks_open */
     :: atomic { true -> had = false; rings[r].n_unheld = rings[r].n_unheld | 1 } /* memory is out */
     OR_DIES
     fi;
     if
     :: rings[r].head++
     OR_DIES /* point: ring_get_held */
     fi;
#ifndef FAULT_LEASES_END_BEFORE_HOLD
     if
     :: atomic { if :: n_ring_leases > 0 -> n_ring_leases-- :: else fi; activity = true } /* end_leases() */
     OR_DIES /* point: ring_get_claimed */
     fi;
#endif
     if
     :: atomic { rings[r].n_unheld % 2 == 1 -> rings[r].n_unheld = (rings[r].n_unheld + 1) % 4 }
     :: rings[r].n_unheld % 2 == 0
     OR_DIES /* point: ring_get_leases_ended */
     fi
  OR_DIES
  fi;
  had = false;
  if
  :: atomic { me == 3 && stops_left > 0 -> stops_left--; is_ended[who] = true; goto stopped }
  :: true
  fi;
  unlock(r, GET)
}

inline drop() {
  if
  :: holds = holds & ~(1 << me)
  OR_DIES
  fi;
  if
  :: activity = true
  OR_DIES
  fi
}

/* `who` is the process, `me` its number. */
proctype client(byte who) {
  byte me = who, mine;
  bool had;
  if
  :: (IDLE >> who) & 1 -> goto over
  :: who == 4 -> /* a process that joins when a number is free */
end_waiting:
     if
     :: atomic { is_dead[1] && !is_numbered[1] -> me = 1; is_numbered[1] = true; is_dead[1] = false; is_ended[4] = false }
     :: atomic { is_dead[2] && !is_numbered[2] -> me = 2; is_numbered[2] = true; is_dead[2] = false; is_ended[4] = false }
     fi
  :: who != 4 && !((IDLE >> who) & 1)
  fi;
busy:
  do
  :: atomic { ops_left > 0 && who != 2 && rings[0].is_made && HAS_BIT(me) -> ops_left-- }
     put(0)
  :: atomic { ops_left > 0 && who != 1 && N_MESSAGES(0) > 0 -> ops_left-- }
     get(0)
#ifdef OWN_RING
  :: atomic { ops_left > 0 && who == 1 && rings[1].is_made && HAS_BIT(me) -> ops_left-- }
     put(1)
  :: atomic { ops_left > 0 && who == 1 && rings[1].is_made && N_MESSAGES(1) > 0 -> ops_left-- }
     get(1)
  :: atomic { ops_left > 0 && who == 1 && !rings[1].is_made -> ops_left--; CLEAR(rings[1]); ring_1_is_held = true; rings[1].is_made = true } /* shmt__ring_create */
     /* point: ring_made, ring_marked */
#ifndef FAULT_AUDIT_MISSES_A_RING
     if
     :: rings_stale = true
     OR_DIES
     fi
#endif
  :: atomic { who == 1 && rings[1].is_made -> ring_1_is_held = false; rings[1].is_made = false; ring_1_generation++ } /* shmt__ring_close, shmt__block_reclaim */
#ifndef FAULT_FREED_RING_IS_NOT_AUDITED
     if
     :: rings_stale = true
     OR_DIES
     fi
#endif
#endif
  :: HAS_BIT(me) -> drop()
  OR_DIES
  :: true -> break
  od;
over:
  is_ended[who] = true;
end:
stopped:
  do
  OR_DIES
  od;
killed:
  atomic { is_dead[me] = true; is_ended[who] = true; if :: inside[0] == who -> inside[0] = 0 :: else fi;
           if :: inside[1] == who -> inside[1] = 0 :: else fi; if :: inside[2] == who -> inside[2] = 0 :: else fi;
           if :: inside[3] == who -> inside[3] = 0 :: else fi }
}

/* --- the manager: csrc/ipc/manager/ring_audit.c, csrc/ipc/manager/dead_clients.c --- */

#define IS_UNSEEN(x) (is_dead[x] && is_numbered[x])
#define IS_LOCK_OF_THE_DEAD(r, side) \
  (rings[r].is_made && rings[r].locks[side].owner != 0 && rings[r].locks[side].owner != DEAD && \
   (rings[r].locks[side].owner == MANAGER_OWNER || is_dead[rings[r].locks[side].owner]))
#define IS_KEPT(r) (rings[r].is_made && ((r) == 0 || ring_1_is_held))

inline free_number() {
  if
  :: is_numbered[c] = false
  OR_DIES
  fi
}
inline mark_owner_dead(r, side, whose) {
#ifndef FAULT_LOCK_OF_THE_DEAD_STAYS
  if
  :: atomic { if :: rings[r].locks[side].owner == whose -> assert(inside[2 * (r) + side] == 0); rings[r].locks[side].owner = DEAD; rings[r].locks[side].serial = 0 :: else fi }
  OR_DIES /* point: ring_owner_marked_dead */
  fi
#else
  skip
#endif
}
/* shmt__rings_client_died, shmt__arena_manager_client_died */
inline client_died() {
#ifdef FAULT_NUMBER_FREED_BEFORE_LOCKS
  free_number();
#endif
  for (r : 0 .. 1) {
    if
    :: rings[r].is_made -> mark_owner_dead(r, PUT, c); mark_owner_dead(r, GET, c)
#ifdef FAULT_NO_AUDIT_WITHOUT_A_RING
       rings_stale = true
#endif
    :: else
    fi
  }
#ifndef FAULT_NO_AUDIT_WITHOUT_A_RING
  if
  :: rings_stale = true
  OR_DIES
  fi;
#endif
  if
  :: atomic { holds = holds & ~(1 << c); if :: c == 1 -> ring_1_is_held = false :: else fi }
  OR_DIES
  fi;
#ifndef FAULT_NUMBER_FREED_BEFORE_LOCKS
  free_number();
#endif
  activity = true
}

/* lock_soon() */
inline lock_soon(side) {
  if
  :: atomic {
       IS_TAKABLE(r, side) ->
       assert(inside[2 * r + side] == 0); /* owners */
       words[2 * r + side].owner = MANAGER_OWNER; is_ours[2 * r + side] = true;
       rings[r].locks[side].owner = MANAGER_OWNER; rings[r].locks[side].serial = 0
     }
  :: atomic { !IS_TAKABLE(r, side) -> skip }
     atomic { words[2 * r + side].owner = rings[r].locks[side].owner; words[2 * r + side].serial = rings[r].locks[side].serial }
     /* has_owner() */
     if
     :: atomic { words[2 * r + side].owner == 0 || words[2 * r + side].owner == DEAD || !is_numbered[words[2 * r + side].owner] -> again = true }
     :: else
     fi
  OR_DIES
  fi /* then point: ring_audit_locked */
}
#define FORGET_WORD(i) is_ours[i] = false; words[i].owner = 0; words[i].serial = 0
#define FORGET \
  FORGET_WORD(0); FORGET_WORD(1); FORGET_WORD(2); FORGET_WORD(3); is_counted[0] = false; is_counted[1] = false; \
  n_unheld[0] = 0; n_unheld[1] = 0; count = 0; leak = 0; head = 0; generation = 0; is_same = false; is_calm = false; again = false; r = 0; i = 0; c = 0

inline audit() {
  for (r : 0 .. 1) {
    if
    :: atomic { IS_KEPT(r) && !again -> is_counted[r] = true; if :: r == 1 -> generation = ring_1_generation :: else fi }
       lock_soon(PUT);
       lock_soon(GET);
       atomic { n_unheld[r] = (is_ours[2 * r + 1] -> 0 : rings[r].n_unheld); again = again || n_unheld[r] % 2 == 1 }
    :: else
    fi
  }
#ifdef FAULT_AUDIT_NEEDS_ALL_LOCKS
  again = again || (is_counted[0] && (!is_ours[0] || !is_ours[1])) || (is_counted[1] && (!is_ours[2] || !is_ours[3]));
#endif
  if
  :: !again ->
     for (r : 0 .. 1) { /* count_ring() */
       if
       :: is_counted[r] ->
          head = rings[r].head;
          atomic { count = count + rings[r].tail - head; head = 0 }
       :: else
       fi
     }
     /* find_leaks(), is_in_flux() */
     atomic {
       leak = n_ring_leases - count;
       if
       :: leak != 0 && ((is_counted[0] && ((!is_ours[0] && HAS_BIT(words[0].owner)) || (!is_ours[1] && HAS_BIT(words[1].owner)))) ||
                        (is_counted[1] && ((!is_ours[2] && HAS_BIT(words[2].owner)) || (!is_ours[3] && HAS_BIT(words[3].owner))))) ->
#ifndef FAULT_AUDIT_IGNORES_FLUX
          leak = 0; again = true
#endif
       :: else
       fi
     }
     /* is_consistent() */
#ifndef FAULT_AUDIT_MISSES_A_RING
     atomic { is_same = !rings_stale }
#else
     is_same = true;
#endif
     for (i : 0 .. 3) {
       atomic {
         if
         :: is_counted[i / 2] && !is_ours[i] ->
            is_same = is_same && rings[i / 2].locks[i % 2].owner == words[i].owner && rings[i / 2].locks[i % 2].serial == words[i].serial
         :: else
         fi
       }
     }
     for (r : 0 .. 1) {
       atomic { if :: is_counted[r] && !is_ours[2 * r + 1] -> is_same = is_same && n_unheld[r] == rings[r].n_unheld :: else fi }
     }
     atomic { is_same = is_same && (!IS_KEPT(1) || (is_counted[1] && generation == ring_1_generation)) }
     if
#ifdef FAULT_AUDIT_STORES_THE_COUNT
     :: is_same -> n_ring_leases = count
#else
     :: atomic { is_same && leak != 0 -> n_ring_leases = n_ring_leases - leak }
     :: is_same && leak == 0
#endif
     :: !is_same -> again = true
     OR_DIES
     fi /* then point: ring_audit_corrected */
  :: again
  fi;
  for (i : 0 .. 3) { /* unlock_all() */
    atomic {
      if
      :: is_ours[i] && rings[i / 2].locks[i % 2].owner == MANAGER_OWNER ->
         rings[i / 2].locks[i % 2].owner = 0; rings[i / 2].locks[i % 2].serial = 0
      :: else
      fi
    }
  }
  /* An audit of what has ended corrects the count, whoever is stopped. */
#ifndef REUSE
  assert(!is_calm || holds != 0 || NAMED || n_ring_leases == 0); /* freed */
#endif
  assert(IS_UNSEEN(1) || IS_UNSEEN(2) || IS_UNSEEN(3) || (!IS_LOCK_OF_THE_DEAD(0, PUT) && !IS_LOCK_OF_THE_DEAD(0, GET))); /* locks */
  atomic { if :: again -> rings_stale = true :: else fi; activity = true; FORGET }
}
/* shmt__arena_manager_sweep: blocks.pml has the steps of reclaiming */
inline sweep() {
  atomic { if :: !is_free && holds == 0 && n_ring_leases == 0 -> assert(!NAMED); is_free = true :: else fi } /* held */
  if
  :: atomic { rings[1].is_made && !ring_1_is_held -> rings[1].is_made = false; ring_1_generation++ }
#ifndef FAULT_FREED_RING_IS_NOT_AUDITED
     if
     :: rings_stale = true
     OR_DIES
     fi
#endif
  :: else
  fi
}

/* Nothing moves any more. */
#define HAVE_ENDED \
  (is_ended[1] && is_ended[2] && is_ended[3] && is_ended[4] && !IS_UNSEEN(1) && !IS_UNSEEN(2) && !IS_UNSEEN(3))
#define IS_QUIET (HAVE_ENDED && !activity && !rings_stale)

active proctype manager() {
  byte me = MANAGER, c, r, i, count, leak, head, generation, n_unheld[2];
  lock_word words[4];
  bool is_ours[4], is_counted[2], is_same, is_calm, again;
  atomic {
    holds = (2 + 8) & ~IDLE; /* clients 1 and 3 hold the block */
#ifndef NO_RING_0
    rings[0].is_made = true;
#endif
    is_numbered[1] = true; is_numbered[2] = true; is_numbered[3] = true;
    kills_left[0] = KILLS; kills_left[1] = MANAGER_KILLS;
    run client(1); run client(2); run client(3);
#ifdef REUSE
    run client(4);
#endif
    is_ended[4] = true
  }
begin:
  /* shmt__manager_init: a manager that was killed may have locks */
  mark_owner_dead(0, PUT, MANAGER_OWNER);
  mark_owner_dead(0, GET, MANAGER_OWNER);
  mark_owner_dead(1, PUT, MANAGER_OWNER);
  mark_owner_dead(1, GET, MANAGER_OWNER);
  atomic { rings_stale = true; activity = true }
end:
  do
  :: atomic { IS_UNSEEN(1) -> c = 1 }
     client_died()
  :: atomic { IS_UNSEEN(2) -> c = 2 }
     client_died()
  :: atomic { IS_UNSEEN(3) -> c = 3 }
     client_died()
  :: atomic { rings_stale -> rings_stale = false; is_calm = HAVE_ENDED }
     audit()
  :: atomic { activity -> activity = false }
     sweep()
  :: atomic {
       IS_QUIET ->
       assert(is_free || holds != 0 || NAMED); /* freed */
       assert(!IS_LOCK_OF_THE_DEAD(0, PUT) && !IS_LOCK_OF_THE_DEAD(0, GET)) /* locks */
     }
  OR_DIES
  od;
killed:
  atomic { FORGET; goto begin }
}
