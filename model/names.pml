/* names.pml -- publishing values under a name, attaching to them, and managers that take over: a model for Spin.
 *
 * One step is one atomic operation of the C on shared memory; a process may be killed before each (`OR_DIES`). Comments
 * name the functions of the C. `point: x` is a fail point of csrc/spec/failpoints.yaml that stands between the same two
 * steps. Freeing a block is one step here; blocks.pml has its parts.
 *
 * One name, two blocks, one manager. Client 1 publishes its blocks one after the other and drops them. Client 2 asks
 * with a handle whose block has gone, which is refused. Client 3 reads the name and attaches. A value is one block.
 *
 * Properties
 *   owners  a reader gets a value that was published as a whole, never parts of two (`attach`)
 *   held    a block that a name stands for, or a client holds, is not freed (`sweep`)
 *   freed   when nothing moves any more, every other block is free (`IS_QUIET`)
 */
#ifndef KILLS
#define KILLS 1
#endif
#ifndef MANAGER_KILLS
#define MANAGER_KILLS 1
#endif
#define GONE 3   /* SHMT_NAME_GONE */
#define MANAGER 0 /* holds for names are those of client 0 */

typedef words { byte block, generation } /* of a slot; they are written one by one */
words slots[2];
byte sequence; /* modulo 4 */
byte generation[2], holds[2];
bool is_used[2];
bool is_numbered[4], activity;

bool is_dead[4], is_ended[4];
byte kills_left[2];
byte asks[4];          /* by client: 1 + block: publish it; 8 + block: the same with an old generation; 0: answered */
byte uses[4];          /* by client: 1 + block that it has attached to; nothing in the C reads it */
#define OR_DIES :: atomic { kills_left[me == MANAGER] > 0 -> kills_left[me == MANAGER]--; goto killed }
#define SET_BIT(b, c) holds[b] = holds[b] | (1 << (c))
#define CLEAR_BIT(b, c) holds[b] = holds[b] & ~(1 << (c))
#define HAS_BIT(b, c) ((holds[b] >> (c)) & 1)
#define IS_NAMED(b) (slots[sequence % 2].block == (b) && slots[sequence % 2].generation == generation[b])

proctype client(byte me) {
  byte b, block, wanted, seen;
  if
  :: me == 1 ->
     for (b : 0 .. 1) {
       if
       :: asks[1] = 1 + b
       OR_DIES
       fi;
       if
       :: asks[1] == 0
       OR_DIES
       fi;
       if
       :: atomic { CLEAR_BIT(b, 1); activity = true }
       OR_DIES
       fi
     }
  :: me == 2 ->
     for (b : 0 .. 1) {
       asks[2] = 8 + b;
       if
       :: asks[2] == 0
       OR_DIES
       fi
     }
  :: me == 3 -> /* shmt__names_read, then attach */
again:
     atomic { seen = sequence }
     block = slots[seen % 2].block;
     wanted = slots[seen % 2].generation;
     if
     :: atomic { sequence == seen && block != GONE } /* a whole slot */
        if
        :: SET_BIT(block, 3)
        OR_DIES
        fi;
        if
        :: atomic { generation[block] == wanted && is_used[block] -> uses[3] = 1 + block }
        :: atomic { (generation[block] != wanted || !is_used[block]) -> assert(wanted == 1) } /* owners: it was published */
           if
           :: CLEAR_BIT(block, 3)
           OR_DIES
           fi;
           activity = true;
           goto again
        OR_DIES
        fi
     :: atomic { sequence != seen } goto again
     :: atomic { sequence == seen && block == GONE }
     fi;
     if
     :: atomic { uses[3] != 0 -> uses[3] = 0; CLEAR_BIT(block, 3) }
        activity = true
     :: true
     fi
  fi;
  is_ended[me] = true;
end:
  do
  OR_DIES
  od;
killed:
  atomic { is_dead[me] = true; is_ended[me] = true; uses[me] = 0; asks[me] = 0 }
}

/* use_block(): `ok` */
inline use_block(at, want) {
  ok = true;
#ifndef FAULT_REFUSED_PUBLICATION_DROPS_A_HOLD
  atomic { ok = (generation[at] == want) }
#endif
  if
  :: ok ->
     if
     :: SET_BIT(at, MANAGER)
     OR_DIES
     fi;
     if
     :: atomic { generation[at] == want && is_used[at] -> n_uses[at]++ }
     :: atomic { (generation[at] != want || !is_used[at]) -> CLEAR_BIT(at, MANAGER); activity = true; ok = false }
     OR_DIES
     fi
  :: !ok
  fi
}
/* disuse_blocks() */
inline disuse(at) {
  if
  :: at != GONE ->
     n_uses[at]--;
     if
     :: atomic { n_uses[at] == 0 -> CLEAR_BIT(at, MANAGER) }
     :: n_uses[at] != 0
     OR_DIES
     fi;
     if
     :: activity = true
     OR_DIES
     fi
  :: at == GONE
  fi
}
/* commit(), show() */
inline commit(at, want) {
#ifdef FAULT_TICK_BEFORE_SLOT
  sequence = (sequence + 1) % 4;
  own_sequence = sequence;
#else
  own_sequence = (own_sequence + 1) % 4;
#endif
#ifdef FAULT_ONE_SLOT
  slots[0].block = at; slots[1].block = at;
  if
  :: slots[0].generation = want; slots[1].generation = want
  OR_DIES
  fi;
#else
  slots[own_sequence % 2].block = at;
  if
  :: slots[own_sequence % 2].generation = want
  OR_DIES
  fi;
#endif
  if
  :: sequence = own_sequence
  OR_DIES /* point: name_written */
  fi
}

#define IS_QUIET (is_ended[1] && is_ended[2] && is_ended[3] && !activity && asks[1] == 0 && asks[2] == 0 && \
                  !(is_dead[1] && is_numbered[1]) && !(is_dead[2] && is_numbered[2]) && !(is_dead[3] && is_numbered[3]))
#define IS_RIGHT(b) (!is_used[b] || IS_NAMED(b) || (HAS_BIT(b, 1) && !is_dead[1]) || (HAS_BIT(b, 3) && !is_dead[3]))

active proctype manager() {
  byte me = MANAGER, b, c, old, n_uses[2], own_sequence, own_block = GONE;
  bool ok;
  atomic {
    slots[0].block = GONE; slots[1].block = GONE; generation[0] = 1; generation[1] = 1;
    is_used[0] = true; is_used[1] = true; holds[0] = 2; holds[1] = 2;
    is_numbered[1] = true; is_numbered[2] = true; is_numbered[3] = true;
    kills_left[0] = KILLS; kills_left[1] = MANAGER_KILLS;
    run client(1); run client(2); run client(3)
  }
begin: /* adopt_entries() */
  own_sequence = sequence;
  own_block = slots[own_sequence % 2].block;
  if
  :: own_block != GONE -> use_block(own_block, slots[own_sequence % 2].generation); assert(ok)
  :: own_block == GONE
  fi;
#ifndef FAULT_SUCCESSOR_KEEPS_ALL_HOLDS
  for (b : 0 .. 1) {
    if
    :: atomic { n_uses[b] == 0 -> CLEAR_BIT(b, MANAGER) }
    :: n_uses[b] != 0
    OR_DIES
    fi
  }
#endif
  b = 0;
  activity = true;
end:
  do
  :: atomic { asks[1] != 0 -> c = 1; b = asks[1] - 1 } goto publish
  :: atomic { asks[2] != 0 -> c = 2; b = asks[2] - 8 } goto publish
  :: atomic { is_dead[1] && is_numbered[1] -> c = 1 } goto died
  :: atomic { is_dead[2] && is_numbered[2] -> c = 2 } goto died
  :: atomic { is_dead[3] && is_numbered[3] -> c = 3 } goto died
  :: atomic { activity -> activity = false }
     for (b : 0 .. 1) {
       atomic { /* shmt__arena_manager_sweep */
         if
         :: is_used[b] && holds[b] == 0 ->
            assert(!IS_NAMED(b) && uses[3] != 1 + b); /* held */
            is_used[b] = false; generation[b]++
         :: else
         fi
       }
     }
     b = 0
  :: atomic { IS_QUIET -> assert(IS_RIGHT(0) && IS_RIGHT(1)) } /* freed */
  OR_DIES
  od;
publish: /* shmt__names_publish; `b` of generation 1, or an old one */
  if
  :: c == 1 && own_block == b -> skip /* the manager before us published it */
  :: c != 1 || own_block != b ->
     use_block(b, (c == 1 -> 1 : 0));
     if
     :: ok -> /* point: name_held */
        old = own_block;
        commit(b, 1);
        own_block = b;
        if
        :: true
        OR_DIES /* point: name_committed */
        fi;
#ifdef FAULT_OLD_VERSION_STAYS_HELD
        skip
#else
        disuse(old)
#endif
     :: !ok
     fi
  fi;
  atomic { asks[c] = 0; b = 0; c = 0; old = 0; ok = false; goto end }
died: /* shmt__names_client_died, shmt__arena_manager_client_died */
  if
  :: c == 1 && own_block != GONE ->
     old = own_block;
     commit(GONE, 0);
     own_block = GONE;
     disuse(old)
  :: c != 1 || own_block == GONE
  fi;
  for (b : 0 .. 1) {
    if
    :: CLEAR_BIT(b, c)
    OR_DIES
    fi
  }
  if
  :: is_numbered[c] = false
  OR_DIES
  fi;
  atomic { activity = true; b = 0; c = 0; old = 0; goto end }
killed:
  atomic { b = 0; c = 0; old = 0; ok = false; n_uses[0] = 0; n_uses[1] = 0; goto begin }
}
