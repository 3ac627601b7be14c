/* calls.pml -- calls with an answer: words, lines, lost servers and clients (csrc/ipc/call/call.c): a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed, or stopped for ever, before each
 * (`OR_DIES`). Comments name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands
 * between the same two steps.
 *
 * Client 1 makes CALLS calls on one line: one after the other, with the same word for each, or with WORDS two at once.
 * It may stop waiting for any of them. Servers 2 and 3 share the requests; a server may let go of a request without an
 * answer. With REUSE, server 4 joins when a process has died, and gets its number. The steps of putting and getting are
 * those of ring.pml: here a message is put or taken in one step. The bytes of a message are its call's number.
 *
 * Properties
 *   once      a request is handed out once at most, and not any more when the client has given it up, or when the
 *             client's number is another process's
 *   answers   a reply that the client takes for a call is of the server that took that
 *   lost      a call that is said to be lost is in nobody's hands, and no reply of it will come
 *   ends      once the manager knows who is dead, nobody waits for a reply that cannot come: the request is in the
 *             ring, or a live server has it, or the reply is there, or the client sees that the call is lost
 */
#ifndef CALLS
#define CALLS 2
#endif
#ifndef WORDS
#define WORDS 1
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef STOPS
#define STOPS 0 /* processes that are stopped for ever */
#endif
#define CLIENT 1
#define LAST 4
#define DEAD 15
#define QUEUED 1
#define TAKEN 2
#define GIVEN_UP 3

/* --- shared memory: numbers, not processes, are all that it knows --- */

typedef word_of { byte serial, taker, n_claims, state }
word_of words[WORDS];
byte holds;              /* of the line, by number */
byte n_claims[LAST + 1]; /* by number: how often it was taken */
byte caller, caller_claims;
chan ring = [CALLS + 1] of { byte };       /* requests: their serials */
chan line = [CALLS + 1] of { byte, byte }; /* replies: serial, and who wrote it (nothing in the C reads that) */
byte get_lock;           /* of the server's ring */
bool is_numbered[LAST + 1];

/* --- what is not memory --- */

bool is_dead[LAST + 1], waits[CALLS + 1], gave_up[CALLS + 1];
byte number_of[LAST + 1], has[LAST + 1]; /* by process: its number; the request that it has taken */
byte server_of[CALLS + 1];               /* by serial: who took it */
byte kills_left = KILLS, stops_left = STOPS;
#define WORD(s) words[(s) % WORDS]
#define HOLDS(n) ((holds >> (n)) & 1)
#define OR_DIES \
  :: atomic { kills_left > 0 -> kills_left--; goto killed } \
  :: atomic { stops_left > 0 -> stops_left--; goto stopped }

/* has_line() */
#ifdef FAULT_NUMBERS_ARE_PROCESSES
#define HAS_LINE(n, claims) HOLDS(n)
#else
#define HAS_LINE(n, claims) (HOLDS(n) && n_claims[n] == (claims))
#endif
#define SAYS_TAKEN(s) (WORD(s).serial == (s) && WORD(s).state == TAKEN)
#define HAS_IT(p, s) (has[p] == (s) && !is_dead[p])
#define IS_IN_HANDS(s) (HAS_IT(2, s) || HAS_IT(3, s) || HAS_IT(4, s))
#define HAS_REPLY(s) (line??[eval(s), 2] || line??[eval(s), 3] || line??[eval(s), 4])

/* --- the client --- */

/* shmt__call_begin */
inline begin() {
  if
  :: atomic { caller = CLIENT; caller_claims = n_claims[CLIENT] }
  OR_DIES
  fi;
#ifdef FAULT_QUEUED_AFTER_THE_REQUEST
  if
  :: ring!serial
  OR_DIES
  fi;
#endif
  if
  :: atomic { WORD(serial).serial = serial; WORD(serial).taker = 0; WORD(serial).n_claims = 0; WORD(serial).state = QUEUED }
  OR_DIES
  fi;
#ifndef FAULT_QUEUED_AFTER_THE_REQUEST
  if
  :: atomic { ring!serial; waits[serial] = true }
  OR_DIES
  fi
#else
  waits[serial] = true
#endif
}

/* shmt__call_wait, for one call; a reply to the other one is kept. */
inline wait_for_reply() {
  do
  :: atomic { !waits[serial] -> break } /* its reply came while the client waited for another */
  :: atomic {
       waits[serial] && nempty(line) -> line?other,from; /* take_reply() */
       if
       :: waits[other] && !gave_up[other] -> assert(server_of[other] == from); waits[other] = false /* answers */
       :: else /* of a call that was given up */
       fi;
       from = 0; other = 0
     }
#ifdef FAULT_LOST_BEFORE_A_LOOK_AT_THE_TAKER
  :: atomic { waits[serial] && SAYS_TAKEN(serial) && empty(line) -> taker = WORD(serial).taker; claims = WORD(serial).n_claims }
     atomic {
       if
       :: !HAS_LINE(taker, claims) -> is_lost = true
       :: else
       fi;
       taker = 0; claims = 0
     }
     if
     :: atomic { is_lost -> is_lost = false; goto lost }
     :: !is_lost
     fi
#else
  :: atomic { waits[serial] && SAYS_TAKEN(serial) -> taker = WORD(serial).taker; claims = WORD(serial).n_claims } /* shmt__call_is_lost */
     atomic {
       if
       :: !HAS_LINE(taker, claims) -> is_lost = true
       :: else
       fi;
       taker = 0; claims = 0
     }
     if
     :: atomic { is_lost && empty(line) -> is_lost = false; goto lost }
     :: atomic { is_lost && nempty(line) -> is_lost = false }
     :: !is_lost
     fi
#endif
  :: waits[serial] -> /* its time has passed: shmt__call_give_up */
     if
     :: atomic {
#ifndef FAULT_GIVEN_UP_SILENTLY
          if :: WORD(serial).serial == serial && WORD(serial).state != 0 -> WORD(serial).state = GIVEN_UP :: else fi;
#endif
          gave_up[serial] = true; waits[serial] = false; break
        }
     OR_DIES
     fi
  OR_DIES
  od;
  goto waited;
lost:
  atomic {
    assert(!IS_IN_HANDS(serial)); /* lost */
    assert(!HAS_REPLY(serial));   /* lost */
    waits[serial] = false; gave_up[serial] = true
  }
waited:
  skip
}

proctype client(byte who) {
  byte serial, other, from, taker, claims, i;
  bool is_lost;
  do
  :: i < CALLS ->
     if
     :: WORDS == 2 -> serial = i + 1; begin(); serial = i + 2; begin(); serial = i + 1
     :: else -> serial = i + 1; begin()
     fi;
     do
     :: i < serial -> wait_for_reply(); i = serial;
        if
        :: WORDS == 2 && serial % 2 == 1 -> serial++
        :: else -> break
        fi
     od
  :: i == CALLS -> break
  od;
  goto stopped;
killed:
  is_dead[who] = true;
stopped:
  serial = 0
}

/* --- a server --- */

proctype server(byte who) {
  byte me = who, serial;
  bool is_ours;
  if
  :: who == 4 -> /* a process that joins when a number is free */
end_waiting:
     if
     :: atomic { is_dead[1] && !is_numbered[1] -> me = 1 }
     :: atomic { is_dead[2] && !is_numbered[2] -> me = 2 }
     fi;
     atomic { is_numbered[me] = true; n_claims[me]++; number_of[4] = me }
  :: who != 4
  fi;
  do
  :: true -> /* shmt__ring_get */
end_getting:
     if
     :: atomic { (get_lock == 0 || get_lock == DEAD) && nempty(ring) -> get_lock = me; ring?<serial> }
     OR_DIES
     fi;
#ifdef FAULT_TAKEN_AFTER_THE_REQUEST_HAS_LEFT
     if
     :: ring?_
     OR_DIES
     fi;
#endif
#ifndef FAULT_TAKEN_BEFORE_THE_LINE_IS_HELD
     if
     :: holds = holds | (1 << me) /* receive() */
     OR_DIES
     fi;
#endif
     if /* mark_taken(), caller_lives() */
     :: atomic { !HAS_LINE(caller, caller_claims) -> is_ours = false }
     :: atomic { HAS_LINE(caller, caller_claims) -> assert(!is_dead[1] || n_claims[1] == 1) } /* once */
        if
        :: atomic {
             if
#ifndef FAULT_ANY_WORD_IS_TAKEN
             :: WORD(serial).serial == serial && WORD(serial).state == QUEUED ->
#else
             :: WORD(serial).serial == serial ->
#endif
                WORD(serial).taker = me; WORD(serial).n_claims = n_claims[me]; WORD(serial).state = TAKEN; is_ours = true;
                assert(server_of[serial] == 0 && !gave_up[serial]); /* once */
                server_of[serial] = who; has[who] = serial
             :: else -> is_ours = false
             fi
           } /* then point: call_marked_taken */
        OR_DIES
        fi
     OR_DIES
     fi;
#ifdef FAULT_TAKEN_BEFORE_THE_LINE_IS_HELD
     if
     :: holds = holds | (1 << me)
     OR_DIES
     fi;
#endif
#ifndef FAULT_TAKEN_AFTER_THE_REQUEST_HAS_LEFT
     if
     :: ring?_
     OR_DIES
     fi;
#endif
     if
     :: atomic { if :: get_lock == me -> get_lock = 0 :: else fi }
     OR_DIES
     fi;
     if
     :: is_ours ->
        if
        :: atomic { SAYS_TAKEN(serial) && HAS_LINE(caller, caller_claims) -> skip } /* shmt__call_reply */
#ifdef FAULT_LINE_LET_GO_BEFORE_THE_REPLY
           if
           :: holds = holds & ~(1 << me)
           OR_DIES
           fi;
#endif
           if
           :: line!serial,who /* then point: call_replied */
           OR_DIES
           fi
        :: true /* nobody waits for it, or the server lets go of it */
        OR_DIES
        fi
     :: !is_ours
     fi;
     if /* shmt__call_close */
     :: atomic {
          is_ours -> has[who] = 0;
#ifndef FAULT_LET_GO_SILENTLY
          if :: SAYS_TAKEN(serial) && WORD(serial).taker == me && WORD(serial).n_claims == n_claims[me] -> WORD(serial).taker = 0 :: else fi
#endif
        }
     :: !is_ours
     OR_DIES
     fi;
     if
     :: atomic { holds = holds & ~(1 << me); serial = 0; is_ours = false }
     OR_DIES
     fi
  od;
killed:
  is_dead[who] = true;
stopped:
  skip
}

/* --- the manager: csrc/ipc/manager/dead_clients.c; the steps of one that is killed are in ring.pml --- */

#define IS_UNSEEN(x) (is_dead[x] && number_of[x] != 0)
inline client_died(x) {
  me = number_of[x];
  atomic { if :: get_lock == me -> get_lock = DEAD :: else fi };
#ifndef FAULT_HOLDS_OF_THE_DEAD_STAY
  atomic { holds = holds & ~(1 << me) };
#endif
  atomic { is_numbered[me] = false; number_of[x] = 0; me = 0 }
}

#define IS_IN_RING(s) (ring??[eval(s)])
/* The client waits for a call, and nothing that it looks at will ever tell it more. */
#define WAITS_IN_VAIN(s) \
  (waits[s] && !is_dead[1] && !HAS_REPLY(s) && \
   ((SAYS_TAKEN(s) && HAS_LINE(WORD(s).taker, WORD(s).n_claims) && !IS_IN_HANDS(s)) || \
    (WORD(s).serial == (s) && WORD(s).state == QUEUED && !IS_IN_RING(s))))

active proctype manager() {
  byte me;
  atomic {
    is_numbered[1] = true; is_numbered[2] = true; is_numbered[3] = true;
    n_claims[1] = 1; n_claims[2] = 1; n_claims[3] = 1;
    number_of[1] = 1; number_of[2] = 2; number_of[3] = 3;
    holds = 1 << CLIENT; /* shmt__call_make_line */
    run client(1); run server(2);
#ifdef REUSE
    run server(4)
#else
    run server(3)
#endif
  }
end:
  do
  :: IS_UNSEEN(1) -> client_died(1)
  :: IS_UNSEEN(2) -> client_died(2)
  :: IS_UNSEEN(3) -> client_died(3)
  :: IS_UNSEEN(4) -> client_died(4)
  :: atomic {
       !IS_UNSEEN(1) && !IS_UNSEEN(2) && !IS_UNSEEN(3) && !IS_UNSEEN(4) && (WAITS_IN_VAIN(1) || WAITS_IN_VAIN(CALLS)) ->
       assert(!WAITS_IN_VAIN(1) && !WAITS_IN_VAIN(CALLS)) /* ends */
     }
  od
}
