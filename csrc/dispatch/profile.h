/* dispatch/profile.h -- what a profiler is told: begin and end of operators, nodes and named ranges, and memory.
 *
 * While a profile runs, every thread appends records to a buffer of its own:
 *
 *   process --buffers--> buffer (one a thread and profile) --chunks--> 64 KB of records, each followed by its payload
 *
 * A record has a kind, a time and what it is about. A begin and the END that belongs to it are matched by nesting, as
 * parentheses are. See ADR 0054 for how this can fail.
 *
 * Note [Profiles cost nothing while none runs]
 * Calls are recorded by the traced twins of the generated callers (dispatch/trace.h), which run while shmt__trace_on is
 * set. The engine looks at the same flag. Allocations are seen through the thread's place of new storages, which is set
 * inside recorded calls only, and frees through a flag of the storages made there.
 */
#ifndef SHMT_DISPATCH_PROFILE_H
#define SHMT_DISPATCH_PROFILE_H

#include "dispatch/operator.h"
#include "storage/storage.h"

enum {
  SHMT_PROFILE_SHAPES = 1 << 0, /* arguments of operators, as payload */
  SHMT_PROFILE_MEMORY = 1 << 1,
  SHMT_PROFILE_STACK = 1 << 2, /* asks shmt__profile_stack */
};

typedef enum shmt__profile_kind {
  SHMT_PROFILE_END,      /* number: as the operator's */
  SHMT_PROFILE_OPERATOR, /* op; number: of the last node that the thread has made. It rises when the call is recorded */
  SHMT_PROFILE_NODE,     /* name, of a node's class; number: its sequence number */
  SHMT_PROFILE_ENGINE,   /* the same, with hooks and delivery */
  SHMT_PROFILE_RANGE,    /* name, owned by the record */
  SHMT_PROFILE_DELTA,    /* delta: bytes that were allocated, or freed when negative; number: bytes in use then */
} shmt__profile_kind;

typedef struct shmt__profile_record {
  uint8_t kind;
  uint8_t reserved[3];
  uint32_t n_words; /* of payload, which follows */
  int64_t t_ns;     /* monotonic */
  union {
    const shmt_operator* op;
    const char* name;
    int64_t delta;
  };
  uint64_t number;
  char* stack; /* malloc'ed, owned by the record; NULL: not asked for, or a thread that Python does not know */
} shmt__profile_record;

/* The payload of an operator: for each argument a word `tag | count << 8`, then its words. */
typedef enum shmt__profile_tag {
  SHMT_PROFILE_NONE,
  SHMT_PROFILE_TENSOR, /* count: dtype << 8 | dims, then the sizes and the strides */
  SHMT_PROFILE_LIST,   /* count tensors, each with its own word */
  SHMT_PROFILE_INT,    /* one word */
  SHMT_PROFILE_FLOAT,  /* one word, the bits of a double */
  SHMT_PROFILE_BOOL,   /* one word */
  SHMT_PROFILE_INTS,   /* count words */
  SHMT_PROFILE_OTHER,
} shmt__profile_tag;

/* Forget the last profile and begin one on all threads. flags: SHMT_PROFILE_... */
void shmt__profile_start(unsigned flags);
/* Record nothing more. A thread that is inside a call may still append its END. */
void shmt__profile_stop(void);
bool shmt__profile_runs(void);
/* Free what was recorded, but for buffers that a thread still writes to. */
void shmt__profile_clear(void);
/* How many begins found no room since the start. */
int64_t shmt__profile_lost(void);

/* Called for each record of a thread, in order; payload: n_words words. false: stop. */
typedef bool (*shmt__profile_visitor)(void* ctx, int64_t thread, const shmt__profile_record* record,
                                      const uint64_t* payload);
/* Show all records, thread by thread. Returns false when a visitor said so. */
bool shmt__profile_visit(shmt__profile_visitor visit, void* ctx);

/* --- recording ----------------------------------------------------------------------------- */

/* An operator begins; args may be NULL. */
void shmt__profile_enter(const shmt_operator* op, const shmt_value* args);
/* A node or the engine's work on it begins. */
void shmt__profile_enter_node(shmt__profile_kind kind, const char* name, uint64_t sequence_nr);
/* A range with a name (copied) begins. */
void shmt__profile_enter_range(const char* name);
/* What this thread began last ends; nothing when the profile has changed since. */
void shmt__profile_leave(void);

/* Installed by the autograd layer: the number of the last node that this thread made. */
extern uint64_t (*shmt__profile_sequence)(void);
/* Installed by the Python layer: a malloc'ed text of the stack, innermost frame first, or NULL. */
extern char* (*shmt__profile_stack)(void);

#endif
