/* events.pml -- events: set, clear, wait and pulse (csrc/ipc/ring/event.c): a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed, or stopped for ever, before each
 * (`OR_DIES`). Comments name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands
 * between the same two steps.
 *
 * Clients 1 and 2 set, clear and pulse one event. Clients 3 and 4 wait for it, 4 for pulses only. Here sleeping and
 * waking are modelled: a waiter sleeps until it is woken. The slice that ends every sleep in the C (Note [Event words])
 * passes only when nothing moves any more, and must then find nothing new unless a process is gone.
 *
 * Properties
 *   wake-ups  who began to wait before a set or a pulse began does not go on waiting after that call has returned,
 *             whoever clears the event, is killed or stopped meanwhile (`look`)
 *   sleepers  when nothing moves any more and nobody is gone, nobody sleeps who has something to see (`IS_QUIET`)
 *   ids       the id of a pulse is that of the number it was read for
 *   locks     when nothing moves any more, no dead client owns the lock
 */
#ifndef OPS
#define OPS 3 /* calls of clients 1 and 2 together */
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 0 /* clients that are stopped for ever */
#endif
/* With SETS or PULSES, clients 1 and 2 do only these. */
#ifndef WAITERS
#define WAITERS 2
#endif
#define DEAD 15

/* --- shared memory --- */

bool is_set; /* the tail is behind the message */
byte n_sets, n_pulses, pulse_ids[2], lock_owner;
typedef event_word { bool has_sleeper, has_more; byte n } /* Note [Event words] */
event_word data_event;
bool sleeps[5]; /* the kernel's list for the word */

/* --- what is not memory --- */

bool is_dead[5], is_ended[5], is_stopped[5], is_seen[5]; /* is_seen: the manager knows */
byte ops_left = OPS, kills_left = KILLS, stops_left = STOPS, n_gone;
byte last_id, id_of[OPS + 2]; /* by the number of a pulse; nothing in the C reads it */
bool begun[5], must_come[5];  /* of a waiter: it waits; a call that it has to notice has returned */
#define OR_DIES \
  :: atomic { kills_left > 0 -> kills_left--; n_gone++; goto killed } \
  :: atomic { stops_left > 0 -> stops_left--; n_gone++; is_stopped[me] = true; goto stopped }

/* shmt__ring_event_signal, of all */
inline signal() {
  if
  :: !data_event.has_sleeper
  :: data_event.has_sleeper ->
     if
     :: atomic {
          if
          :: data_event.has_sleeper -> data_event.n++; data_event.has_sleeper = false;
#ifdef FAULT_ONE_IS_WOKEN
             if :: data_event.has_more -> data_event.has_sleeper = true :: else fi
#else
             data_event.has_more = false
#endif
          :: else -> goto signalled /* another process woke them */
          fi
        }
     OR_DIES
     fi;
     if
#ifdef FAULT_ONE_IS_WOKEN
     :: atomic { if :: sleeps[3] -> sleeps[3] = false :: else -> sleeps[4] = false fi }
#else
     :: atomic { sleeps[3] = false; sleeps[4] = false } /* point: ring_event_raised */
#endif
     OR_DIES
     fi
  OR_DIES
  fi;
signalled:
  skip
}

/* Who waits now has to notice the call of `me`, if it returns. */
inline call_begins(pulses) {
  atomic { seen_by[3] = begun[3]; seen_by[4] = begun[4] && pulses }
}
inline call_returns() {
  atomic {
    must_come[3] = must_come[3] || seen_by[3]; must_come[4] = must_come[4] || seen_by[4];
    seen_by[3] = false; seen_by[4] = false
  }
}

/* shmt__event_set */
inline set() {
  call_begins(false);
#ifdef FAULT_WOKEN_BEFORE_IT_IS_SET
  signal();
#endif
  if
  :: atomic { !is_set -> is_set = true; has_moved = true }
  :: is_set
  OR_DIES
  fi; /* then point: event_set */
#ifndef FAULT_SETS_ARE_NOT_COUNTED
#ifdef FAULT_ONLY_THE_FIRST_COUNTS_A_SET
  if
  :: atomic { has_moved -> n_sets++ }
  :: !has_moved
  OR_DIES
  fi;
#else
  if
  :: n_sets++
  OR_DIES
  fi;
#endif
#endif
  has_moved = false;
#ifndef FAULT_WOKEN_BEFORE_IT_IS_SET
  signal();
#endif
  call_returns()
}
/* shmt__event_clear */
inline clear() {
  if
  :: is_set = false
  OR_DIES
  fi
}

/* shmt__ring_lock: until it is free, or its owner stays away for too long */
inline lock() {
  if
  :: atomic { lock_owner == 0 || lock_owner == DEAD -> lock_owner = me }
  :: atomic { lock_owner != 0 && lock_owner != DEAD && is_stopped[lock_owner] -> goto over }
  OR_DIES
  fi
}
inline unlock() {
  if
  :: atomic { if :: lock_owner == me -> lock_owner = 0 :: else fi }
  OR_DIES
  fi
}
/* shmt__event_pulse */
inline pulse() {
  call_begins(true);
  lock();
  atomic { n = n_pulses + 1; last_id++; id = last_id };
#ifdef FAULT_PULSE_COUNTED_BEFORE_ITS_ID
  if
  :: atomic { n_pulses = n; id_of[n] = id }
  OR_DIES
  fi;
#endif
  if
  :: pulse_ids[n % 2] = id /* then point: event_pulse_written */
  OR_DIES
  fi;
#ifndef FAULT_PULSE_COUNTED_BEFORE_ITS_ID
  if
  :: atomic { n_pulses = n; id_of[n] = id } /* then point: event_pulse_counted */
  OR_DIES
  fi;
#endif
  unlock();
  atomic { n = 0; id = 0 };
  signal();
  call_returns()
}

proctype waker(byte me) {
  bool has_moved, seen_by[5];
  byte n, id;
  do
#ifndef PULSES
  :: atomic { ops_left > 0 -> ops_left-- } set()
  :: atomic { ops_left > 0 -> ops_left-- } clear()
#endif
#ifndef SETS
  :: atomic { ops_left > 0 -> ops_left-- } pulse()
#endif
  :: atomic { ops_left == 0 -> break }
  od;
over:
  goto stopped;
killed:
  atomic { is_dead[me] = true; is_ended[me] = true };
stopped:
  is_ended[me] = true
}

/* One look at the event. Goes on to `come` when there is something new. */
inline look() {
  atomic { must = must_come[me] };
  atomic { has_come = n_pulses != mark_pulses };
  if
  :: !only_pulses ->
     atomic { has_come = has_come || n_sets != mark_sets };
     atomic { has_come = has_come || is_set }
  :: else
  fi;
  atomic {
    if
    :: has_come -> goto come
    :: else -> assert(!must); must = false /* wake-ups */
    fi
  }
}
#define HAS_COME(who, pulses, sets) (n_pulses != pulses || ((who) == 3 && (n_sets != sets || is_set)))
#define IS_UNSEEN(x) (is_dead[x] && !is_seen[x])
#define HAVE_ENDED (is_ended[1] && is_ended[2] && !IS_UNSEEN(1) && !IS_UNSEEN(2))

/* shmt__event_wait, shmt__event_pulse_since */
proctype waiter(byte me) {
  byte mark_pulses, mark_sets, n, again, id;
  bool only_pulses = me == 4, has_come, must, is_last;
  event_word armed;
  mark_pulses = n_pulses; /* shmt__event_mark_now */
  mark_sets = n_sets;
  begun[me] = true;
look_again:
  look();
  if
  :: is_last -> goto over
  :: else
  fi;
  atomic { /* shmt__ring_event_arm */
    if :: data_event.has_sleeper -> data_event.has_more = true :: else -> data_event.has_sleeper = true fi;
    armed.has_sleeper = true; armed.has_more = data_event.has_more; armed.n = data_event.n
  }
#ifndef FAULT_NO_LOOK_AFTER_ARMING
  look();
#endif
  atomic { /* shmt__os_futex_wait */
    if
    :: data_event.has_sleeper && data_event.has_more == armed.has_more && data_event.n == armed.n -> sleeps[me] = true
    :: else -> goto look_again
    fi
  }
  if
  :: atomic { !sleeps[me] -> goto look_again }
  :: atomic {
       HAVE_ENDED && sleeps[me] -> /* the slice is over */
       assert(n_gone > 0 || !HAS_COME(me, mark_pulses, mark_sets)); /* sleepers */
       sleeps[me] = false; is_last = true; goto look_again
     }
  fi;
come:
  n = n_pulses;
  if
  :: n != mark_pulses ->
     do
     :: id = pulse_ids[n % 2];
#ifndef FAULT_NO_SECOND_LOOK_AT_THE_NUMBER
        atomic { again = n_pulses; if :: again == n -> break :: else -> n = again fi }
#else
        break
#endif
     od;
     assert(id == id_of[n]) /* ids */
  :: else
  fi;
over:
  is_ended[me] = true
}

/* shmt__rings_client_died: the steps of a manager that is killed are in ring.pml. */
inline client_died(c) {
#ifndef FAULT_LOCK_OF_THE_DEAD_STAYS
  atomic { if :: lock_owner == c -> lock_owner = DEAD :: else fi };
#endif
  atomic { /* signals data_event */
    if
    :: data_event.has_sleeper -> data_event.n++; data_event.has_sleeper = false; data_event.has_more = false;
       sleeps[3] = false; sleeps[4] = false
    :: else
    fi;
    is_seen[c] = true;
    assert(lock_owner != c) /* locks */
  }
}

active proctype manager() {
  atomic { run waker(1); run waker(2); run waiter(3); if :: WAITERS == 2 -> run waiter(4) :: else -> is_ended[4] = true fi };
end:
  do
  :: IS_UNSEEN(1) -> client_died(1)
  :: IS_UNSEEN(2) -> client_died(2)
  od
}
