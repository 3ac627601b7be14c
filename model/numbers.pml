/* numbers.pml -- client numbers, their locks, claims during fork, and managers that take over: a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory, or one system call. A process may be killed before each
 * (`OR_DIES`). Comments name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands
 * between the same two steps.
 *
 * Two clients fork; number 3 is free, so their children compete for it. A client asks the manager for the child's number
 * and, when it does not answer (it is stopped, or was killed), claims it. Two managers may be started at the same time,
 * for members in different network namespaces; the second is also the successor of the first. Each grants one block.
 *
 * Properties
 *   owners  a block is granted once (`manager`); a number has one process (`claim`)
 *   held    the holds of a number are cleared only when no process has it (`client_died`)
 *   freed   when nothing moves any more, a number that nobody has is free and has no holds (`IS_QUIET`)
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef MANAGER_KILLS
#define MANAGER_KILLS 1
#endif
#define LAST 3            /* number */
#define CHILD(p) ((p) + 2) /* processes: clients 1 and 2, their children 3 and 4 */

mtype = { NONE, RESERVED, ALIVE };
mtype state[LAST + 1];       /* of a number's entry in the control file */
byte lockers[LAST + 1];      /* which processes have the description that locked the number; bits */
byte managing;               /* the same for the lock of number 0, by manager */
bool has_holds[LAST + 1];
bool block_is_granted;       /* in the copy of the manager's table */

byte owner[LAST + 1];        /* which process believes to have the number; nothing in the C reads it */
bool is_ended[5], is_dead[5], child_runs[5];
byte kills_left[2], n_granted;
byte asks[3];                /* by client: 1 asked for a number, 2 there is none, 3 answered; the descriptor is in the socket */
byte answer[3];
bool manager_runs[3], manager_is_over[3];
#define OR_DIES :: atomic { kills_left[is_manager] > 0 -> kills_left[is_manager]--; goto killed }
#define LOCK(n, p) lockers[n] = lockers[n] | (1 << (p))
#define CLOSE(n, p) lockers[n] = lockers[n] & ~(1 << (p))
#define CLOSE_ALL(p) CLOSE(1, p); CLOSE(2, p); CLOSE(3, p)
#define DISOWN(p) if :: owner[1] == p -> owner[1] = 0 :: else fi; if :: owner[2] == p -> owner[2] = 0 :: else fi; if :: owner[3] == p -> owner[3] = 0 :: else fi

/* shmt__client_claim_one for number n by process p: `claimed` */
inline claim(n, p) {
  if
  :: atomic { state[n] != NONE -> claimed = false }
  :: atomic { state[n] == NONE }
     if
     :: atomic { lockers[n] != 0 -> claimed = false }
     :: atomic { lockers[n] == 0 -> LOCK(n, p) }
        if
        :: atomic {
             if
             :: state[n] == NONE -> state[n] = RESERVED; claimed = true
             :: else -> CLOSE(n, p); claimed = false
             fi
           }
        OR_DIES
        fi
     OR_DIES
     fi
  OR_DIES
  fi
}

proctype client(byte me) {
  bool claimed, is_manager = false;
  byte n;
  if
  :: true -> /* request_child(), get_for_child() */
     asks[me] = 1;
     if
     :: atomic { asks[me] == 3 -> n = answer[me]; asks[me] = 0; owner[n] = me; claimed = true } /* point: serve_hello, serve_replying */
     :: atomic { asks[me] == 2 -> asks[me] = 0 }
     :: atomic { (asks[me] == 1 || asks[me] == 3) -> /* no answer in two seconds: close the socket */
          if :: asks[me] == 3 -> CLOSE(answer[me], me) :: else fi; asks[me] = 0 }
     OR_DIES
     fi
  :: true
  fi;
  if
  :: !claimed -> /* claim_for_child() */
     claim(3, me);
     if
     :: claimed ->
        n = 3;
        if
        :: atomic { assert(owner[n] == 0); owner[n] = me } /* owners */
        :: true -> /* no memory for the holds of so high a number */
#ifdef FAULT_CLAIMER_GIVES_NUMBER_BACK
           if
           :: state[n] = NONE
           OR_DIES
           fi;
#endif
           if
           :: atomic { CLOSE(n, me); n = 0; claimed = false }
           OR_DIES
           fi
        OR_DIES
        fi
     :: !claimed
     fi
  :: claimed -> skip /* point: fork_reserved */
  fi;
  if
  :: claimed ->
     if
     :: has_holds[n] = true /* hold_for_child() */
     OR_DIES /* point: fork_claimed */
     fi;
     if
     :: atomic { lockers[n] = lockers[n] | (1 << CHILD(me)); owner[n] = CHILD(me); LOCK(me, CHILD(me)); child_runs[me] = true; run child(CHILD(me), me, n) } /* fork(); the child has both descriptors */
     OR_DIES /* point: fork_held */
     fi;
     if
     :: CLOSE(n, me) /* in_parent() */
     OR_DIES /* point: fork_parent */
     fi
  :: !claimed
  fi;
  is_ended[me] = true;
end:
  do
  OR_DIES
  od;
killed:
  atomic { CLOSE_ALL(me); DISOWN(me); is_dead[me] = true; is_ended[me] = true; if :: asks[me] == 1 -> asks[me] = 0 :: asks[me] == 3 -> asks[me] = 0 :: else fi }
}

/* in_child(); `parent` is the parent's number and process */
proctype child(byte me; byte parent; byte n) {
  bool is_manager = false;
#ifndef FAULT_CHILD_KEEPS_ITS_PARENTS_LOCK
  if
  :: CLOSE(parent, me)
  OR_DIES /* point: fork_child */
  fi;
#endif
  if
  :: state[n] = ALIVE /* arrive(), shmt__client_mark_alive */
  OR_DIES /* point: fork_adopting */
  fi;
  child_runs[parent] = false;
end:
  do
  OR_DIES
  od;
killed:
  atomic { CLOSE_ALL(me); DISOWN(me); is_dead[me] = true; child_runs[parent] = false }
}

/* lives() */
#ifdef FAULT_LIVES_BY_PID /* of another pid namespace */
#define LIVES(n) false
#else
#define LIVES(n) (lockers[n] != 0)
#endif

inline clear_holds(n) {
  if
  :: atomic { assert(owner[n] == 0); has_holds[n] = false } /* held */
  OR_DIES
  fi
}
inline free_number(n) {
  if
  :: atomic { known[n] = NONE; state[n] = NONE }
  OR_DIES /* point: client_unheld */
  fi
}

#define FIND_WORK(n) (known[n] == NONE && state[n] != NONE) || (known[n] != NONE && !LIVES(n))
#define WANTED(p) (asks[p] == 1)

#define IS_QUIET (is_ended[1] && is_ended[2] && !child_runs[1] && !child_runs[2] && !(FIND_WORK(1)) && !(FIND_WORK(2)) && !(FIND_WORK(3)) && !WANTED(1) && !WANTED(2))
#define IS_RIGHT(n) (owner[n] != 0 || (!has_holds[n] && state[n] == NONE))

proctype manager(byte id) {
  bool is_manager = true, claimed, knows_granted, dies;
  mtype known[LAST + 1] = NONE;
  byte n, p;
  /* shmt__management_claim; the socket's name keeps only managers of one network namespace apart */
  if
#ifdef FAULT_TWO_MANAGERS
  :: true
#else
  :: atomic { managing == 0 -> managing = id }
  :: managing != 0 && manager_is_over[3 - id] == false -> goto over
#endif
  OR_DIES
  fi;
  manager_runs[id] = true;
  /* adopt_slabs(), adopt_clients() */
  knows_granted = block_is_granted;
  for (n : 1 .. LAST) {
    if
    :: atomic { state[n] != NONE -> known[n] = state[n] }
    :: atomic { state[n] == NONE && lockers[n] != 0 } state[n] = RESERVED; known[n] = RESERVED
    :: atomic { state[n] == NONE && lockers[n] == 0 }
    fi
  }
  n = 0;
end:
  do
  :: atomic { FIND_WORK(1) -> n = 1 } goto check
  :: atomic { FIND_WORK(2) -> n = 2 } goto check
  :: atomic { FIND_WORK(3) -> n = 3 } goto check
  :: atomic { WANTED(1) -> p = 1 } goto serve
  :: atomic { WANTED(2) -> p = 2 } goto serve
  :: !knows_granted -> knows_granted = true;
     if
     :: atomic { block_is_granted = true; n_granted++; assert(n_granted == 1) } /* owners; the client learns of it now */
     OR_DIES /* point: slab_blocks_made, slab_stated */
     fi
  OR_DIES
  :: atomic { IS_QUIET -> assert(IS_RIGHT(1) && IS_RIGHT(2) && IS_RIGHT(3)) } /* freed */
  od;
check: /* shmt__manager_check_unwatched, shmt__manager_watch_client */
  if
  :: known[n] == NONE -> atomic { known[n] = state[n] }
  :: known[n] != NONE
  fi;
  if
  :: atomic { known[n] != NONE && !LIVES(n) -> dies = true }
  :: atomic { known[n] == NONE || LIVES(n) -> dies = false }
  fi;
  if
  :: dies -> /* client_died() */
#ifdef FAULT_NUMBER_FREED_BEFORE_HOLDS
     free_number(n);
     clear_holds(n)
#else
     clear_holds(n);
     free_number(n)
#endif
  :: !dies
  fi;
  atomic { n = 0; dies = false; goto end }
serve: /* serve_fork(), shmt__arena_manager_reserve_client */
  claimed = false;
  if
  :: known[3] == NONE -> claim(3, 5 + id)
  :: known[3] != NONE
  fi;
  if
  :: claimed ->
     known[3] = RESERVED;
     if
     :: atomic { /* the descriptor goes into the socket, and ours is closed */
          if
          :: asks[p] == 1 -> LOCK(3, p); answer[p] = 3; asks[p] = 3
          :: else
          fi;
          CLOSE(3, 5 + id)
        }
     OR_DIES /* point: client_reserved */
     fi
  :: !claimed -> atomic { if :: asks[p] == 1 -> asks[p] = 2 :: else fi }
  fi;
  atomic { p = 0; claimed = false; goto end }
killed:
  atomic {
    CLOSE_ALL(5 + id); if :: managing == id -> managing = 0 :: else fi;
    manager_is_over[id] = true; manager_runs[id] = false;
    /* its connections are closed */
    if :: asks[1] == 1 -> asks[1] = 2 :: else fi; if :: asks[2] == 1 -> asks[2] = 2 :: else fi;
    if :: id == 1 && !manager_runs[2] -> run manager(2) :: else fi
  }
over:
  skip
}

init {
  atomic {
    state[0] = NONE; state[1] = ALIVE; state[2] = ALIVE; state[3] = NONE;
    LOCK(1, 1); LOCK(2, 2); owner[1] = 1; owner[2] = 2; has_holds[1] = true; has_holds[2] = true;
    kills_left[0] = KILLS; kills_left[1] = MANAGER_KILLS;
    run client(1); run client(2); run manager(1);
#ifdef TWO_NAMESPACES
    run manager(2)
#endif
  }
}
