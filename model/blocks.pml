/* blocks.pml -- holds, leases, reclaiming and the manager's sweep: a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed before each. Comments name the
 * functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands between the same two steps.
 *
 * Three clients, two blocks in a slab each, one manager. Client 1 owns both slabs. When it is dead the manager retires
 * them and grants each to a client that asks. With SHARED, they begin when block 0 is in use. A client takes a free block of its own, sends what it holds, opens a
 * message, opens the handle of one a second time, drops what it holds, and looks again at blocks that it freed while
 * others held them. The bit of client 3 is in a word of its own, and its number is not below clients_end before it
 * takes it: a reclaimer may not look at it yet.
 *
 * Memory: what is not seq_cst in the C goes into the process's store buffer and reaches memory later, at the latest
 * with its next buffered store or its next release or seq_cst operation (`drain`). Loads do not wait for the buffer.
 *
 * Properties
 *   owners  a block that a client takes is used by nobody else (`take`)
 *   held    a block that is freed is used by nobody (`reclaim`), and a message can be opened (`open`)
 *   freed   when nothing moves any more, what nobody uses is free (`at_the_end`)
 */
#ifndef OPS
#define OPS 5 /* operations of all clients together */
#endif
#ifndef KILLS
#define KILLS 1 /* clients that are killed */
#endif
#ifndef MANAGER_KILLS
#define MANAGER_KILLS 0
#endif
#ifndef IDLE
#define IDLE 0 /* clients that do nothing; bit c: client c */
#endif
#define LAST_BLOCK 1
#define LAST_CLIENT 3
#define MANAGER 0 /* its row in the tables, and its marker */

mtype = { NONE, COLD, FREE, USED, RECLAIM, TRIM };

/* --- the control file --- */

typedef block_record {
  mtype state; /* state, generation and marker are the head: one word */
  byte generation, marker;
  byte holds; /* bit c: client c */
  byte leases, changes; /* one word */
  bool has_slab;
  byte owner /* of the slab; 0: an orphan */
}
block_record blocks[LAST_BLOCK + 1];

typedef lease_record { byte id, block, generation } /* each client's page has one */
lease_record records[LAST_CLIENT + 1];

bool is_numbered[LAST_CLIENT + 1]; /* the state of a client's entry is not NONE */
byte touching[LAST_CLIENT + 1];    /* block + 1 */
bool end_covers_3, activity, leases_stale;

/* --- what is not memory --- */

bool is_dead[LAST_CLIENT + 1], is_done[LAST_CLIENT + 1];
byte ops_left = OPS;
byte kills_left[2]; /* of clients, of managers */
#define OR_DIES :: atomic { kills_left[me == MANAGER] > 0 -> kills_left[me == MANAGER]--; goto killed }
byte asks[LAST_CLIENT + 1];    /* 1: a request for a slab; 2: refused; 3 + b: granted */
typedef handle { byte block, generation, slot, id }
chan pipe = [LAST_CLIENT] of { handle };
handle copied; /* of a message that was opened: a program may open it a second time */
#define COPY(from, to) to.block = from.block; to.generation = from.generation; to.slot = from.slot; to.id = from.id

/* Nothing in the C reads this: which generation a client believes to hold; 0: none. */
typedef of_blocks { byte generation[LAST_BLOCK + 1] }
of_blocks uses[LAST_CLIENT + 1];
#define USES(c, b) (uses[c].generation[b] != 0 && !is_dead[c])
#define IS_USED(b) (USES(1, b) || USES(2, b) || USES(3, b))
#define ALL_ENDED (is_done[1] && is_done[2] && is_done[3])

/* --- store buffers of one store each --- */

mtype = { NOTHING, CLEAR_HOLD, SET_HOLD, STOP_TOUCHING };
mtype pending[LAST_CLIENT + 1] = NOTHING;
byte pending_block[LAST_CLIENT + 1];

#define SET_BIT(b, c) blocks[b].holds = blocks[b].holds | (1 << (c))
#define CLEAR_BIT(b, c) blocks[b].holds = blocks[b].holds & ~(1 << (c))
#define HAS_BIT(b, c) ((blocks[b].holds >> (c)) & 1)
#define COUNT_UP(b) blocks[b].leases++; blocks[b].changes++

inline drain(who) {
  if
  :: pending[who] == NOTHING
  :: pending[who] == CLEAR_HOLD -> CLEAR_BIT(pending_block[who], who)
  :: pending[who] == SET_HOLD -> SET_BIT(pending_block[who], who)
  :: pending[who] == STOP_TOUCHING -> touching[who] = 0
  fi;
  pending[who] = NOTHING; pending_block[who] = 0
}
inline store_later(what, at) { drain(me); pending[me] = what; pending_block[me] = at }

active proctype memory() {
end:
  do
  :: atomic { pending[1] != NOTHING -> drain(1) }
  :: atomic { pending[2] != NOTHING -> drain(2) }
  :: atomic { pending[3] != NOTHING -> drain(3) }
  od
}

/* --- steps on a block's record (csrc/shm/block.c) --- */

#define HEAD_IS_SEEN(b) (blocks[b].state == state && blocks[b].generation == generation && blocks[b].marker == marker)
inline see_head(at) { state = blocks[at].state; generation = blocks[at].generation; marker = blocks[at].marker }
inline forget_head() { state = NONE; generation = 0; marker = 0 }

/* shmt__map_note_activity */
inline note_activity() {
  if :: atomic { drain(me); activity = true } OR_DIES fi
}

/* confirm(): `ok` */
inline confirm(at, want) {
  if
  :: atomic { see_head(at) }
  OR_DIES
  fi;
  do
  :: atomic { generation != want || (state != USED && state != RECLAIM) -> ok = false; forget_head(); break }
  :: atomic { generation == want && state == USED -> ok = true; forget_head(); break }
  :: atomic {
       generation == want && state == RECLAIM -> drain(me);
       if
       :: HEAD_IS_SEEN(at) ->
#ifndef FAULT_MARK_STAYS
          blocks[at].state = USED; blocks[at].marker = 0;
#endif
          ok = true; forget_head(); break
       :: else -> see_head(at)
       fi
     }
  OR_DIES
  od
}

/* shmt__block_hold: `ok` */
inline hold(at, want) {
#ifdef FAULT_HOLD_CHECKED_BEFORE_WRITTEN
  confirm(at, want);
  if
  :: atomic { ok -> drain(me); SET_BIT(at, me) }
  :: !ok
  OR_DIES
  fi;
#else
  if
#ifdef FAULT_HOLD_RELAXED
  :: atomic { store_later(SET_HOLD, at) }
#else
  :: atomic { drain(me); SET_BIT(at, me) } /* point: hold_set */
#endif
  OR_DIES
  fi;
  confirm(at, want);
#endif
  if
  :: atomic { ok -> assert(uses[me].generation[at] == 0); uses[me].generation[at] = want }
  :: atomic { !ok -> store_later(CLEAR_HOLD, at) }
#ifndef FAULT_FAILED_HOLD_IS_SILENT
     note_activity()
#endif
  OR_DIES
  fi
}

/* shmt__block_is_kept: `kept` */
inline is_kept(at) {
  if :: atomic { kept = blocks[at].leases != 0 } OR_DIES fi;
  if
  :: kept
  :: !kept -> atomic { sees_3 = end_covers_3 } /* shmt__map_clients_end */
     atomic { kept = (blocks[at].holds & 7) != 0 }
     if
     :: atomic { !kept && sees_3 -> kept = (blocks[at].holds & 8) != 0; sees_3 = false }
     :: atomic { kept || !sees_3 -> sees_3 = false }
     fi
  fi
}

/* shmt__block_reclaim */
inline reclaim(at, by) {
  if
  :: atomic { blocks[at].state == USED -> generation = blocks[at].generation }
     is_kept(at);
     if
     :: kept
     :: atomic { /* the mark */
          !kept -> drain(me);
          if
          :: blocks[at].state == USED && blocks[at].generation == generation -> blocks[at].state = RECLAIM; blocks[at].marker = by
          :: else -> generation = 0
          fi
        }
        if
        :: generation != 0 -> /* point: reclaim_marked */
#ifndef FAULT_NOT_CHECKED_AGAIN
           is_kept(at);
#endif
           if
           :: atomic {
                drain(me);
                if
                :: blocks[at].state == RECLAIM && blocks[at].generation == generation && blocks[at].marker == by ->
                   blocks[at].marker = 0;
                   if
                   :: kept -> blocks[at].state = USED
                   :: else ->
                      assert(!IS_USED(at)); /* held */
                      blocks[at].state = FREE; blocks[at].generation++
                   fi
                :: else
                fi
              }
           OR_DIES /* point: reclaim_checked */
           fi
        :: generation == 0
        fi
     OR_DIES
     fi
  :: atomic { blocks[at].state != USED }
  OR_DIES
  fi;
  atomic { generation = 0; kept = false }
}

/* shmt__block_take */
inline take(at) {
  if
  :: atomic { blocks[at].state == FREE || blocks[at].state == COLD -> see_head(at) }
     if
     :: atomic { store_later(SET_HOLD, at) }
     OR_DIES
     fi;
     if
     :: atomic {
          drain(me);
          if
          :: HEAD_IS_SEEN(at) ->
             assert(!IS_USED(at)); /* owners */
             blocks[at].state = USED; uses[me].generation[at] = generation /* point: block_taken, block_populated */
          :: else -> CLEAR_BIT(at, me)
          fi;
          forget_head()
        }
     OR_DIES /* point: take_held */
     fi
  :: atomic { blocks[at].state != FREE && blocks[at].state != COLD }
  fi
}

/* shmt__arena_free of an owner, give_up() of others */
inline drop(at) {
  if
  :: atomic { drain(me); uses[me].generation[at] = 0; CLEAR_BIT(at, me) }
  OR_DIES
  fi;
  if
  :: (own >> at) & 1 -> reclaim(at, me) /* point: block_unheld */
  :: else
  fi;
  note_activity()
}

/* --- leases (csrc/shm/lease.c) --- */

/* shmt__lease_take, then the message is written */
inline send(at) {
  if
  :: atomic {
       drain(me); records[me].block = at; records[me].generation = uses[me].generation[at];
       touching[me] = at + 1
     }
  OR_DIES
  fi;
  if
  :: atomic { drain(me); COUNT_UP(at) }
  OR_DIES
  fi;
  confirm(at, records[me].generation); /* point: lease_set */
  assert(ok);
  if
  :: atomic { drain(me); last_id++; records[me].id = me * 16 + last_id }
  OR_DIES
  fi;
  if
  :: atomic { store_later(STOP_TOUCHING, 0) }
  OR_DIES
  fi;
  if
  :: atomic {
       drain(me);
       h.block = at; h.generation = uses[me].generation[at]; h.slot = me; h.id = me * 16 + last_id;
       pipe!h
     }
  OR_DIES
  fi
}

/* shmt__lease_end */
#define DROP_LEASE(b) if :: blocks[b].leases > 0 -> blocks[b].leases--; blocks[b].changes++ :: else fi
inline end_lease() {
#ifdef FAULT_SECOND_OPENING_ENDS_A_LEASE
  if :: atomic { drain(me); records[h.slot].id = 0; DROP_LEASE(h.block) } OR_DIES fi;
#else
  if
  :: atomic { records[h.slot].id == h.id -> drain(me); touching[me] = records[h.slot].block + 1 }
     if
     :: atomic { drain(me); ok = records[h.slot].id == h.id; if :: ok -> records[h.slot].id = 0 :: else fi }
     OR_DIES
     fi;
     if
     :: atomic { ok -> drain(me); DROP_LEASE(records[h.slot].block) }
     :: !ok
     OR_DIES /* point: lease_taken_up */
     fi;
     if
     :: atomic { store_later(STOP_TOUCHING, 0) }
     OR_DIES
     fi
  :: records[h.slot].id != h.id
  OR_DIES
  fi;
#endif
  ok = false
}

/* shmt__storage_import */
inline open(is_first) {
  if
  :: atomic { uses[me].generation[h.block] != 0 -> ok = uses[me].generation[h.block] == h.generation }
  :: uses[me].generation[h.block] == 0 ->
#ifdef FAULT_NUMBER_AFTER_HOLD
     hold(h.block, h.generation);
     if :: atomic { me == 3 -> end_covers_3 = true } :: me != 3 fi;
#else
     if :: atomic { me == 3 -> drain(me); end_covers_3 = true } :: me != 3 fi; /* raise_end() */
#ifdef FAULT_LEASE_ENDS_BEFORE_HOLD
     end_lease();
#endif
     hold(h.block, h.generation)
#endif
  fi;
  assert(ok || !is_first); /* held */
  if
  :: ok -> end_lease() /* point: import_held */
  :: !ok
  fi
}

/* --- a client --- */

#define IS_USER(c) (uses[c].generation[0] + uses[c].generation[1] > 0)
#define CHOOSE_USED if :: uses[me].generation[0] != 0 -> b = 0 :: uses[me].generation[1] != 0 -> b = 1 fi
#define BEGIN ops_left > 0 -> ops_left--

proctype client(byte me) {
  byte b, generation, marker, last_id, own;
  handle h;
  mtype state = NONE;
  bool ok, kept, sees_3;
  if :: me == 1 -> own = 3 :: else fi;
  if :: (IDLE >> me) & 1 -> is_done[me] = true; goto end :: else fi;
  do
  :: atomic { ops_left > 0 && (own & 1) && uses[me].generation[0] == 0 -> BEGIN; b = 0 }
     take(b)
  :: atomic { ops_left > 0 && (own & 2) && uses[me].generation[1] == 0 -> BEGIN; b = 1 }
     take(b)
  :: atomic { ops_left > 0 && IS_USER(me) -> BEGIN; CHOOSE_USED }
     drop(b)
  :: atomic { ops_left > 0 && records[me].id == 0 && IS_USER(me) -> BEGIN; CHOOSE_USED } /* find_in_page() */
     send(b)
  :: atomic { ops_left > 0 && len(pipe) > 0 -> BEGIN; pipe?h }
     open(true);
     atomic { COPY(h, copied) }
  :: atomic { ops_left > 0 && copied.id != 0 -> BEGIN; COPY(copied, h) }
     open(false)
  :: atomic { ops_left > 0 && (own & 1) && uses[me].generation[0] == 0 && blocks[0].state == USED -> BEGIN; b = 0 } /* is_free_now() */
     reclaim(b, me)
  :: atomic { ops_left > 0 && (own & 2) && uses[me].generation[1] == 0 && blocks[1].state == USED -> BEGIN; b = 1 }
     reclaim(b, me)
  :: atomic { ops_left > 0 && own == 0 && asks[me] == 0 -> BEGIN; if :: me == 3 -> end_covers_3 = true :: else fi; asks[me] = 1 } /* grant() */
     if
     :: atomic { asks[me] > 1 -> if :: asks[me] > 2 -> own = 1 << (asks[me] - 3) :: else fi; asks[me] = 2 }
     OR_DIES /* point: slab_granted */
     fi
  OR_DIES
  :: atomic { is_done[me] = true; break } /* at any time, with what it holds */
  od;
end:
  do
  OR_DIES
  od;
killed:
  atomic { drain(me); is_dead[me] = true; is_done[me] = true }
}

/* --- the manager (csrc/shm/manager, csrc/ipc/manager/dead_clients.c) --- */

#define IS_UNSEEN(x) (is_dead[x] && is_numbered[x])

/* shmt__arena_manager_client_died */
inline client_died() {
  for (b : 0 .. LAST_BLOCK) {
    if
    :: atomic { CLEAR_BIT(b, c) }
    OR_DIES
    fi;
    if
    :: atomic {
#ifndef FAULT_MARK_OF_THE_DEAD_STAYS
         if :: blocks[b].state == RECLAIM && blocks[b].marker == c -> blocks[b].state = USED; blocks[b].marker = 0 :: else fi;
#endif
         if :: blocks[b].owner == c -> blocks[b].owner = 0 :: else fi
       }
    OR_DIES
    fi
  }
  if
#ifdef FAULT_LEASES_OF_THE_DEAD_UNCOUNTED
  :: skip
#else
  :: leases_stale = true
#endif
  OR_DIES
  fi;
  if
  :: is_numbered[c] = false
  OR_DIES /* point: client_unheld */
  fi;
  note_activity()
}

/* shmt__leases_audit */
inline mark_touched() {
  for (c : 1 .. LAST_CLIENT) {
    atomic { if :: is_numbered[c] && touching[c] != 0 -> touched = touched | (1 << (touching[c] - 1)) :: else fi }
  }
}
inline audit() {
  for (b : 0 .. LAST_BLOCK) {
    atomic { word_leases[b] = blocks[b].leases; word_changes[b] = blocks[b].changes }
  }
  mark_touched();
  for (c : 1 .. LAST_CLIENT) {
    atomic {
      if
      :: records[c].id != 0 && blocks[records[c].block].generation == records[c].generation -> counts[records[c].block]++
      :: else
      fi
    }
  }
  mark_touched();
  for (b : 0 .. LAST_BLOCK) {
    if
    :: atomic {
         if
         :: (touched >> b) & 1 -> again = true
         :: else ->
            if
            :: counts[b] == word_leases[b]
            :: else ->
               if
               :: blocks[b].leases == word_leases[b] && blocks[b].changes == word_changes[b] ->
                  blocks[b].leases = counts[b]; blocks[b].changes++
               :: else -> again = true
               fi
            fi
         fi;
         counts[b] = 0; word_leases[b] = 0; word_changes[b] = 0
       }
    OR_DIES
    fi
  }
  touched = 0;
  note_activity();
  if
  :: atomic { again -> leases_stale = true; again = false }
  :: !again
  OR_DIES
  fi
}

/* A manager that takes over (adopt.c): is_retired(), settle_blocks(), adopt_clients(), do_again(). */
inline settle() {
#ifndef FAULT_SUCCESSOR_BELIEVES_FLAGS
  activity = true;
  leases_stale = true;
#endif
  for (b : 0 .. LAST_BLOCK) {
    atomic {
      if
      :: blocks[b].has_slab && blocks[b].state == NONE -> blocks[b].has_slab = false; blocks[b].owner = 0
      :: blocks[b].has_slab && blocks[b].state == RECLAIM && blocks[b].marker == MANAGER -> blocks[b].state = USED
      :: blocks[b].has_slab && blocks[b].state == TRIM -> blocks[b].state = FREE; blocks[b].marker = 0
      :: else
      fi;
      if :: blocks[b].owner != 0 && !is_numbered[blocks[b].owner] -> blocks[b].owner = 0 :: else fi
    }
  }
}

/* sweep_arena_slab() */
inline sweep() {
  for (b : 0 .. LAST_BLOCK) {
    if
    :: blocks[b].has_slab ->
       reclaim(b, MANAGER);
       if
       :: atomic { blocks[b].state == FREE || blocks[b].state == COLD -> blocks[b].state = TRIM; blocks[b].marker = MANAGER }
          if
          :: atomic { blocks[b].state = COLD; blocks[b].marker = 0 }
          :: atomic { blocks[b].owner != 0 -> blocks[b].state = FREE; blocks[b].marker = 0 } /* the kernel refused */
          OR_DIES /* point: trim_begun, trim_punched, trim_small_begun */
          fi
       :: blocks[b].state != NONE && (blocks[b].owner != 0 || (blocks[b].state != FREE && blocks[b].state != COLD)) /* or it is not old enough */
       fi;
       if
       :: atomic { blocks[b].owner == 0 && blocks[b].state == COLD -> blocks[b].state = NONE; blocks[b].generation++ } /* shmt__arena_manager_retire */
          if
          :: blocks[b].has_slab = false /* then point: retired */
          OR_DIES /* point: retire_blocks_gone */
          fi
       :: else
       fi
    :: else
    fi
  }
}

/* shmt__arena_manager_grant */
inline grant() {
  atomic { if :: !blocks[0].has_slab -> b = 0 :: blocks[0].has_slab && !blocks[1].has_slab -> b = 1 :: else -> b = 9 fi }
  if
  :: b != 9 ->
     atomic { blocks[b].leases = 0; blocks[b].changes++; blocks[b].holds = 0 }
     atomic { blocks[b].state = COLD; blocks[b].marker = 0; blocks[b].generation++ }
     if
     :: atomic { blocks[b].has_slab = true; blocks[b].owner = c }
     OR_DIES /* point: slab_blocks_made */
     fi;
     if
     :: asks[c] = 3 + b
     OR_DIES /* point: slab_stated, serve_replying */
     fi
  :: b == 9 -> asks[c] = 2
  fi
}

/* The leases of messages that nobody can read any more: shmt__leases_end_if */
#define HAS_UNREAD (records[1].id != 0 || records[2].id != 0 || records[3].id != 0)
inline collect() {
  for (c : 1 .. LAST_CLIENT) {
    if
    :: atomic { ok = records[c].id != 0; records[c].id = 0 }
    OR_DIES
    fi;
    if
    :: atomic { ok -> DROP_LEASE(records[c].block) }
    :: !ok
    OR_DIES
    fi
  }
  note_activity()
}

/* Nothing moves any more. */
#define IS_QUIET (ALL_ENDED && !activity && !leases_stale && !HAS_UNREAD && !IS_UNSEEN(1) && !IS_UNSEEN(2) && !IS_UNSEEN(3) && \
                  pending[1] == NOTHING && pending[2] == NOTHING && pending[3] == NOTHING && ops_left != 99)
#define IS_FREED(b) (blocks[b].leases == 0 && blocks[b].state != RECLAIM && blocks[b].state != TRIM && (blocks[b].state != USED || IS_USED(b)))

active proctype manager() {
  byte me = MANAGER, b, c, generation, touched, counts[LAST_BLOCK + 1], word_leases[LAST_BLOCK + 1], word_changes[LAST_BLOCK + 1];
  bool ok, kept, sees_3, again;
  atomic {
    blocks[0].state = COLD; blocks[0].generation = 1; blocks[0].has_slab = true; blocks[0].owner = 1;
    blocks[1].state = COLD; blocks[1].generation = 1; blocks[1].has_slab = true; blocks[1].owner = 1;
    is_numbered[1] = true; is_numbered[2] = true; is_numbered[3] = true;
    kills_left[0] = KILLS; kills_left[1] = MANAGER_KILLS;
#ifdef SHARED /* client 1 has block 0, and a message about it was opened long ago; STALE: about an earlier use of it */
    blocks[0].state = USED; blocks[0].generation = 2; blocks[0].holds = 2; uses[1].generation[0] = 2;
    copied.slot = 1; copied.id = 31; copied.generation = 2;
#endif
#ifdef STALE
    copied.generation = 1;
#endif
    run client(1); run client(2); run client(3)
  }
begin:
  settle();
end:
  do
  :: atomic { IS_UNSEEN(1) -> c = 1 }
     client_died()
  :: atomic { IS_UNSEEN(2) -> c = 2 }
     client_died()
  :: atomic { IS_UNSEEN(3) -> c = 3 }
     client_died()
  :: atomic { asks[1] == 1 && !is_dead[1] -> c = 1 }
     grant()
  :: atomic { asks[2] == 1 && !is_dead[2] -> c = 2 }
     grant()
  :: atomic { asks[3] == 1 && !is_dead[3] -> c = 3 }
     grant()
  :: atomic { leases_stale -> leases_stale = false }
     audit()
  :: atomic { activity -> activity = false }
     sweep()
  :: ALL_ENDED && HAS_UNREAD ->
     collect()
  :: atomic { IS_QUIET -> assert(IS_FREED(0)); assert(IS_FREED(1)) } /* freed */
  OR_DIES
  od;
killed:
  atomic {
    b = 0; c = 0; generation = 0; touched = 0; ok = false; kept = false; sees_3 = false; again = false;
    counts[0] = 0; counts[1] = 0; word_leases[0] = 0; word_leases[1] = 0; word_changes[0] = 0; word_changes[1] = 0;

    goto begin
  }
}
