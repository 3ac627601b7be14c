/* capi/shmtensor.h -- shmtensor for programs in C and C++: services, values, queues, topics, calls, events, locks,
 * barriers.
 *
 * A service is memory that unrelated programs share, and names in it, of 1 to 127 bytes of UTF-8. This header is the
 * whole interface of libshmtensor.so; docs/c-api.md explains it with programs, docs/service.md the things themselves.
 * What one language puts, the other one gets.
 *
 * Statuses. A function returns a shmtensor_status unless its comment says otherwise: 0, or why it did nothing. The text
 * of the last failure of the calling thread is shmtensor_message(). Every function refuses NULL, a handle of another
 * kind (SHMTENSOR_E_VALUE) and a handle that is closed (SHMTENSOR_E_CLOSED); the text names function and argument.
 * Results are stored through `out` on success only.
 *
 * Handles. What is opened here (services, queues, topics, ...) is a handle: a number in the guise of a pointer, which
 * cannot be dereferenced. Closing one twice is an error and nothing worse. All functions of handles may be called by
 * any thread at any time; closing a handle ends the waits of other threads at it soon, with SHMTENSOR_E_CLOSED. A
 * handle keeps what it needs: a service may be closed before its queues.
 *
 * Values. A shmtensor_value is a tree in this program's memory, and not a handle: one thread at a time uses a tree, and
 * shmtensor_value_free() ends it. Functions that put or publish a value only read it.
 *
 * Timeouts are seconds. 0 does not wait, a negative one waits for ever. A signal whose handler ran ends a wait with
 * SHMTENSOR_E_INTERRUPTED; nothing has happened then, and the call may be repeated.
 *
 * Structs that are passed in begin with their size: set it by `{.size = sizeof options}` in C, by the functions of
 * shmtensor.hpp in C++. All other fields may be 0, which is the default.
 *
 * After fork() the child may use handles of services, queues, topics, servers' names, events, locks and barriers.
 * Subscriptions, deliveries, requests and acquired locks are the parent's.
 */
#ifndef SHMTENSOR_H
#define SHMTENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "shmtensor_dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMTENSOR_ABI_VERSION 3 /* grows with each function or field that is added; none is ever removed */

typedef int shmtensor_status;

enum {
  SHMTENSOR_OK = 0,
  SHMTENSOR_E_VALUE = 1,       /* an argument: NULL, a wrong size, out of range, of another kind */
  SHMTENSOR_E_TYPE = 2,        /* a value of a kind that cannot be sent, or read in C (a pickle of Python) */
  SHMTENSOR_E_KEY = 3,         /* nothing has this name or key */
  SHMTENSOR_E_TIMEOUT = 4,     /* the time has passed: a wait, a lock, a call */
  SHMTENSOR_E_EMPTY = 5,       /* the time has passed, or was 0: no message */
  SHMTENSOR_E_FULL = 6,        /* the time has passed, or was 0: no room for the message */
  SHMTENSOR_E_CLOSED = 7,      /* the handle is closed, or was closed during the call */
  SHMTENSOR_E_NO_MEMORY = 8,   /* of this process, or a limit of the service */
  SHMTENSOR_E_OS = 9,          /* a system call failed; the text has its reason */
  SHMTENSOR_E_MANAGER = 10,    /* the service does not run, or cannot be reached */
  SHMTENSOR_E_HANDLE = 11,     /* what lies in shared memory is damaged or gone */
  SHMTENSOR_E_LOST = 12,       /* the server was killed, or let go of the request, before it answered */
  SHMTENSOR_E_REMOTE = 13,     /* the server answered with an error; the text is its */
  SHMTENSOR_E_INTERRUPTED = 14, /* a signal came */
  SHMTENSOR_E_STATE = 15,      /* done before: a loan published, a request answered, a message acknowledged */
  SHMTENSOR_E_OTHER = 16,      /* anything else; the text says what */
};

/* The SHMTENSOR_ABI_VERSION of the library: what a program was compiled with must not be above it. Cannot fail. */
uint32_t shmtensor_abi_version(void);
/* The version of the package, as "0.1.0". Cannot fail. */
const char* shmtensor_version(void);
/* The text of the calling thread's last failure, at most 4095 bytes; "" before the first. Cannot fail.
 * Ownership: borrowed, until the next call of this thread. */
const char* shmtensor_message(void);
/* "SHMTENSOR_E_VALUE" and so on; "unknown" for numbers that are none. Cannot fail. */
const char* shmtensor_status_name(shmtensor_status status);

/* --- services ------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_service shmtensor_service;

typedef struct shmtensor_service_options {
  size_t size;
  const char* name;    /* NULL: SHMTENSOR_SERVICE of the environment, or "default" */
  const char* socket;  /* path of its socket; NULL: found by its name */
  const char* manager; /* path of the program shmtensor-manager; NULL: the one beside this library */
  int start;           /* start the service if it does not run; the default service is started anyway */
  int is_of_owner;     /* it is run by the user `owner`, not by the user of this process */
  uint32_t owner;
} shmtensor_service_options;

/* Join a service. options may be NULL. What a call first needs the manager for may wait for it, a second or so.
 * Errors: VALUE (the path is too long, `start` with a socket or another owner), MANAGER, NO_MEMORY.
 * Ownership: *out is the caller's; shmtensor_service_close. */
shmtensor_status shmtensor_service_open(const shmtensor_service_options* options, shmtensor_service** out);
/* Stop using the service by this handle. Values that this process has published stay until the process ends. */
shmtensor_status shmtensor_service_close(shmtensor_service* service);

/* --- tensors -------------------------------------------------------------------------------------------------- */

/* {code, bits, 1}: a DLDataType by DLDataTypeCode and bits. */
static inline DLDataType shmtensor_dtype(DLDataTypeCode code, int bits) {
  DLDataType type;
  type.code = (uint8_t)code;
  type.bits = (uint8_t)bits;
  type.lanes = 1;
  return type;
}

/* Make a tensor in the service's memory, which is sent and published without a copy. It is row-major; its elements are
 * not initialised. shape has ndim sizes, at most 64, and may be NULL where ndim is 0.
 * Errors: VALUE, TYPE (no such dtype), NO_MEMORY, MANAGER.
 * Ownership: *out is the caller's, who calls its deleter, on any thread: that ends the hold on the memory. */
shmtensor_status shmtensor_empty(shmtensor_service* service, DLDataType dtype, int ndim, const int64_t* shape,
                                 DLManagedTensorVersioned** out);
/* The same, and wait for room where a limit of the service is reached. Errors: also NO_MEMORY (there was no room in
 * time), INTERRUPTED. Since ABI version 2. */
shmtensor_status shmtensor_empty_within(shmtensor_service* service, DLDataType dtype, int ndim, const int64_t* shape,
                                        double timeout, DLManagedTensorVersioned** out);

/* --- values --------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_value shmtensor_value;

enum {
  SHMTENSOR_NONE = 0,
  SHMTENSOR_BOOL = 1,
  SHMTENSOR_INT = 2,   /* int64 */
  SHMTENSOR_FLOAT = 3, /* double */
  SHMTENSOR_TEXT = 4,  /* UTF-8, with its length; may have zeros inside, and has one behind its end */
  SHMTENSOR_BYTES = 5,
  SHMTENSOR_LIST = 6,
  SHMTENSOR_TUPLE = 7,
  SHMTENSOR_DICT = 8, /* in the order of insertion; keys are NONE, BOOL, INT or TEXT */
  SHMTENSOR_TENSOR = 9,
};

/* Builders: a new value. Errors: VALUE, NO_MEMORY. Ownership: *out is the caller's. */
shmtensor_status shmtensor_none(shmtensor_value** out);
shmtensor_status shmtensor_bool(int value, shmtensor_value** out);
shmtensor_status shmtensor_int(int64_t value, shmtensor_value** out);
shmtensor_status shmtensor_float(double value, shmtensor_value** out);
/* n bytes of UTF-8, which are copied; n SIZE_MAX: up to the zero; text may be NULL where n is 0. Errors: also VALUE: it
 * is not UTF-8. */
shmtensor_status shmtensor_text(const char* text, size_t n, shmtensor_value** out);
/* n bytes, which are copied; data may be NULL where n is 0. */
shmtensor_status shmtensor_bytes(const void* data, size_t n, shmtensor_value** out);
/* Empty ones, to append to. */
shmtensor_status shmtensor_list(shmtensor_value** out);
shmtensor_status shmtensor_tuple(shmtensor_value** out);
shmtensor_status shmtensor_dict(shmtensor_value** out);
/* A tensor of the CPU, from this library or any other one. Errors: TYPE (its device, its dtype), VALUE (its sizes,
 * strides or version make no sense).
 * Ownership: consumes the tensor on success; its deleter is called when the last value or message with it is gone. */
shmtensor_status shmtensor_tensor(DLManagedTensorVersioned* tensor, shmtensor_value** out);

/* Append to a list or a tuple. A value that another one has consumed is a part of it: it is neither changed any more
 * nor put anywhere else. Errors: VALUE (it is none, a part, nested more than 200 deep), NO_MEMORY.
 * Ownership: consumes the item on success. */
shmtensor_status shmtensor_value_append(shmtensor_value* sequence, shmtensor_value* item);
/* Set the item of a key; who sets a key twice has the last item. Errors: VALUE (no dict, a key of another kind, a part,
 * nested too deep), NO_MEMORY. Ownership: consumes key and item on success. */
shmtensor_status shmtensor_value_set(shmtensor_value* dict, shmtensor_value* key, shmtensor_value* item);
/* The same with a text of UTF-8 as the key. */
shmtensor_status shmtensor_value_set_text(shmtensor_value* dict, const char* key, shmtensor_value* item);
/* Free a tree. NULL is fine, and a part of another value, which stays. Cannot fail. */
void shmtensor_value_free(shmtensor_value* value);

/* Accessors. Errors: VALUE (NULL, a value of another kind, an index that is too high).
 * Ownership: what they store is borrowed from the value, except for tensors. */
shmtensor_status shmtensor_value_kind(const shmtensor_value* value, int* out);
shmtensor_status shmtensor_value_get_bool(const shmtensor_value* value, int* out);
shmtensor_status shmtensor_value_get_int(const shmtensor_value* value, int64_t* out);
/* Also of an INT. */
shmtensor_status shmtensor_value_get_float(const shmtensor_value* value, double* out);
shmtensor_status shmtensor_value_get_text(const shmtensor_value* value, const char** out, size_t* out_n);
shmtensor_status shmtensor_value_get_bytes(const shmtensor_value* value, const void** out, size_t* out_n);
/* Items of a list or a tuple, entries of a dict. */
shmtensor_status shmtensor_value_length(const shmtensor_value* value, size_t* out);
shmtensor_status shmtensor_value_item(const shmtensor_value* value, size_t i, const shmtensor_value** out);
shmtensor_status shmtensor_value_entry(const shmtensor_value* dict, size_t i, const shmtensor_value** out_key,
                                       const shmtensor_value** out_item);
/* The item of a text. Errors: also KEY. */
shmtensor_status shmtensor_value_find(const shmtensor_value* dict, const char* key, const shmtensor_value** out);
/* A tensor over the same memory. Errors: also NO_MEMORY. Ownership: *out is the caller's, who calls its deleter; it
 * outlives the value. DLPACK_FLAG_BITMASK_READ_ONLY says that it cannot be written: a store ends the process. */
shmtensor_status shmtensor_value_get_tensor(const shmtensor_value* value, DLManagedTensorVersioned** out);

/* --- published values ------------------------------------------------------------------------------------------ */

/* How the tensors of what is attached or received may be used. */
enum {
  SHMTENSOR_READ_WRITE = 0,    /* everybody who has them sees what one writes */
  SHMTENSOR_READ_ONLY = 1,
  SHMTENSOR_COPY_ON_WRITE = 2, /* what this process writes stays its own */
};

typedef struct shmtensor_publish_options {
  size_t size;
  int persist;    /* the name outlives this process */
  double timeout; /* to wait for room where a limit of the service is reached */
} shmtensor_publish_options;

/* Publish a value under a name of 1 to 127 bytes, as a new version. Tensors in the service's memory go as they are,
 * all others are copied there. options and out_version may be NULL.
 * Errors: VALUE (the name, or it stands for a queue, a topic, ...), NO_MEMORY, MANAGER, OTHER (the name is another
 * user's), INTERRUPTED. */
shmtensor_status shmtensor_publish(shmtensor_service* service, const char* name, const shmtensor_value* value,
                                   const shmtensor_publish_options* options, uint64_t* out_version);
/* Remove the value of a name; who has it keeps it. Errors: KEY, OTHER (another user's), MANAGER. */
shmtensor_status shmtensor_unpublish(shmtensor_service* service, const char* name);
/* The newest version of a value, without a copy of its tensors. mode: SHMTENSOR_READ_ONLY and so on. Of a module the
 * value is a dict of its tensors. out_version may be NULL.
 * Errors: KEY, VALUE (the name is none of a value), TYPE (it has what C does not know: integers above 64 bits, dtypes
 * that only NumPy or torch has, a file), HANDLE (damaged), NO_MEMORY, MANAGER. Ownership: *out is the caller's. */
shmtensor_status shmtensor_attach(shmtensor_service* service, const char* name, int mode, shmtensor_value** out,
                                  uint64_t* out_version);
/* The number of the newest version, without a system call. Errors: KEY, MANAGER. */
shmtensor_status shmtensor_version_of(shmtensor_service* service, const char* name, uint64_t* out);
/* Wait until the name has a version above `version`; out_version may be NULL. Errors: TIMEOUT, INTERRUPTED, MANAGER
 * (the service has ended). */
shmtensor_status shmtensor_wait_newer(shmtensor_service* service, const char* name, uint64_t version, double timeout,
                                      uint64_t* out_version);

typedef struct shmtensor_name {
  size_t size;
  char name[128];   /* zero-terminated */
  char kind[16];    /* "value", "queue", "topic", "event", "server", "unknown" */
  uint64_t version; /* of a value */
  uint64_t nbytes;
  int64_t pid;  /* of the publisher */
  uint32_t uid; /* of the publisher */
  int persists;
} shmtensor_name;

/* Read the names of the service one by one: *position is 0 at first, and moved on. out->size is set by the caller.
 * Errors: KEY (there are no more), VALUE, MANAGER. */
shmtensor_status shmtensor_next_name(shmtensor_service* service, uint32_t* position, shmtensor_name* out);

/* --- queues ---------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_queue shmtensor_queue;
typedef struct shmtensor_delivery shmtensor_delivery;

typedef struct shmtensor_queue_options {
  size_t size;
  uint32_t max_messages;   /* put waits while there are so many; 0 leaves it open: no bound until somebody says one */
  uint32_t max_deliveries; /* a message that was delivered so often in vain is dropped; 0: the same */
  int persist;             /* it stays when no process has it open */
  int mode;                /* of the tensors that are received: SHMTENSOR_READ_WRITE and so on */
} shmtensor_queue_options;

/* Open the queue of this name, or make it. options may be NULL. What is left open is settled by the first who says it;
 * another value is an error from then on. Errors: VALUE (the name stands for something else, or another number was said
 * before), HANDLE, NO_MEMORY, MANAGER.
 * Ownership: *out is the caller's; shmtensor_queue_close. */
shmtensor_status shmtensor_queue_open(shmtensor_service* service, const char* name,
                                      const shmtensor_queue_options* options, shmtensor_queue** out);
shmtensor_status shmtensor_queue_close(shmtensor_queue* queue);
/* Put a value, which stays the caller's. Errors: FULL, VALUE (nested more than 12 deep, too many tensors), NO_MEMORY,
 * INTERRUPTED, HANDLE, MANAGER. */
shmtensor_status shmtensor_queue_put(shmtensor_queue* queue, const shmtensor_value* value, double timeout);
/* Take the first message, for good. Errors: EMPTY, TYPE (it is a pickle; it is gone), VALUE (its lists are nested more
 * than 200 deep; it is gone), HANDLE (it is damaged; it is gone), NO_MEMORY, INTERRUPTED.
 * Ownership: *out is the caller's. */
shmtensor_status shmtensor_queue_get(shmtensor_queue* queue, double timeout, shmtensor_value** out);
/* Take the first message until it is acknowledged: if this process ends before, or lets go of it, the message goes back
 * to the front. out_count, which may be NULL: how often it was delivered, with this time.
 * Errors: as above, but after TYPE, VALUE and NO_MEMORY the message goes back, as Python may read it, or this process
 * later; after HANDLE it goes back only where max_deliveries bounds that. It was delivered in vain then, except after
 * NO_MEMORY. FULL: those that are not acknowledged take all room.
 * Ownership: both are the caller's; shmtensor_delivery_acknowledge or shmtensor_delivery_release. */
shmtensor_status shmtensor_queue_get_delivery(shmtensor_queue* queue, double timeout, shmtensor_value** out,
                                              shmtensor_delivery** out_delivery, uint32_t* out_count);
/* The work is done: the message is gone, and so is the handle. Errors: STATE (it went back meanwhile, as this process
 * had lost its place in the service; or it is the parent's): the handle is gone all the same; INTERRUPTED. */
shmtensor_status shmtensor_delivery_acknowledge(shmtensor_delivery* delivery);
/* The message goes back to the front of its queue, and the handle is gone. Errors: as above. */
shmtensor_status shmtensor_delivery_release(shmtensor_delivery* delivery);
/* A message that was taken by shmtensor_queue_get is finished: join() in Python counts that. Errors: STATE (more were
 * finished than put). */
shmtensor_status shmtensor_queue_task_done(shmtensor_queue* queue);
/* How many messages are in it. */
shmtensor_status shmtensor_queue_length(shmtensor_queue* queue, uint32_t* out);
/* A descriptor that is readable while there is a message. Errors: OS. Ownership: borrowed; the queue closes it. */
shmtensor_status shmtensor_queue_fileno(shmtensor_queue* queue, int* out);

/* --- topics ---------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_topic shmtensor_topic;
typedef struct shmtensor_loan shmtensor_loan;
typedef struct shmtensor_subscription shmtensor_subscription;

/* What happens when `depth` messages wait for a subscriber. */
enum {
  SHMTENSOR_OVERFLOW_ANY = 0, /* left open: the oldest one there is dropped, until somebody says otherwise */
  SHMTENSOR_DROP_OLDEST = 1,
  SHMTENSOR_BLOCK = 2, /* publish waits for the slowest */
  SHMTENSOR_DROP_NEWEST = 3,
};
#define SHMTENSOR_NO_HISTORY UINT32_MAX

typedef struct shmtensor_topic_options {
  size_t size;
  uint32_t depth;   /* so many messages wait for each subscriber, at most 65 536; 0 leaves it open: 16 until somebody
                       says it, which counts for subscriptions from then on */
  uint32_t history; /* so many of the last ones are kept for those who come late; 0 leaves it open: none until somebody
                       says it; SHMTENSOR_NO_HISTORY: none */
  int overflow;     /* SHMTENSOR_DROP_OLDEST and so on */
  int persist;      /* it stays when no process has it open */
} shmtensor_topic_options;

/* Open the topic of this name, or make it. options may be NULL. Errors and ownership: as shmtensor_queue_open. */
shmtensor_status shmtensor_topic_open(shmtensor_service* service, const char* name,
                                      const shmtensor_topic_options* options, shmtensor_topic** out);
shmtensor_status shmtensor_topic_close(shmtensor_topic* topic);
/* Publish a value, which stays the caller's, for all subscribers. Errors: FULL (SHMTENSOR_BLOCK: nobody has got it),
 * TIMEOUT (another process was publishing all the time), and those of shmtensor_queue_put. */
shmtensor_status shmtensor_topic_publish(shmtensor_topic* topic, const shmtensor_value* value, double timeout);
/* The newest value of the history. mode: SHMTENSOR_READ_ONLY and so on. Errors: EMPTY, VALUE (the topic keeps no
 * history), and those of shmtensor_queue_get. Ownership: *out is the caller's. */
shmtensor_status shmtensor_topic_latest(shmtensor_topic* topic, int mode, shmtensor_value** out);

/* Memory of the service in which a message is written, which is published without a copy. Errors: as shmtensor_empty.
 * Ownership: *out is the caller's; shmtensor_loan_close. */
shmtensor_status shmtensor_topic_loan(shmtensor_topic* topic, DLDataType dtype, int ndim, const int64_t* shape,
                                      shmtensor_loan** out);
/* The same, and wait for room where a limit of the service is reached. Errors: also NO_MEMORY (there was no room in
 * time), INTERRUPTED. Since ABI version 2. */
shmtensor_status shmtensor_topic_loan_within(shmtensor_topic* topic, DLDataType dtype, int ndim, const int64_t* shape,
                                             double timeout, shmtensor_loan** out);
/* Where to write. Ownership: borrowed, until the loan is closed. Once it is published, subscribers see what is written
 * there. out_nbytes may be NULL. */
shmtensor_status shmtensor_loan_data(shmtensor_loan* loan, void** out, size_t* out_nbytes);
/* Publish it, once. Errors: STATE (it was published before), and those of shmtensor_topic_publish. */
shmtensor_status shmtensor_loan_publish(shmtensor_loan* loan, double timeout);
/* Give it back; what was published stays with its subscribers. */
shmtensor_status shmtensor_loan_close(shmtensor_loan* loan);

typedef struct shmtensor_subscription_options {
  size_t size;
  int mode; /* of the tensors that arrive: SHMTENSOR_READ_WRITE and so on */
} shmtensor_subscription_options;

/* Subscribe from now on, after the history. options may be NULL: then tensors are read-only. Errors: OTHER (all of its
 * 1 020 subscribers are there), NO_MEMORY, INTERRUPTED, MANAGER.
 * Ownership: *out is the caller's; shmtensor_subscription_close. */
shmtensor_status shmtensor_topic_subscribe(shmtensor_topic* topic, const shmtensor_subscription_options* options,
                                           shmtensor_subscription** out);
shmtensor_status shmtensor_subscription_close(shmtensor_subscription* subscription);
/* Take the next value. Errors and ownership: as shmtensor_queue_get. */
shmtensor_status shmtensor_subscription_get(shmtensor_subscription* subscription, double timeout,
                                            shmtensor_value** out);
/* Wait for a value, and take the newest one; the older ones are skipped. */
shmtensor_status shmtensor_subscription_latest(shmtensor_subscription* subscription, double timeout,
                                               shmtensor_value** out);
/* How many messages did not reach it, because it had no room. */
shmtensor_status shmtensor_subscription_lost(shmtensor_subscription* subscription, uint64_t* out);
/* A descriptor that is readable while a value waits. Errors: OS. Ownership: borrowed. */
shmtensor_status shmtensor_subscription_fileno(shmtensor_subscription* subscription, int* out);

/* --- calls ----------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_client shmtensor_client;
typedef struct shmtensor_call shmtensor_call;
typedef struct shmtensor_server shmtensor_server;
typedef struct shmtensor_request shmtensor_request;

typedef struct shmtensor_server_options {
  size_t size;
  uint32_t max_requests; /* clients wait while so many are in the queue; 0 leaves it open, as in a queue's options */
  int persist;           /* the name stays, with its requests, when no process has it open */
  int mode;              /* of the tensors of requests: SHMTENSOR_READ_WRITE and so on */
} shmtensor_server_options;

/* Open the name for calls. Errors and ownership: as shmtensor_queue_open; shmtensor_client_close. */
shmtensor_status shmtensor_client_open(shmtensor_service* service, const char* name, shmtensor_client** out);
shmtensor_status shmtensor_client_close(shmtensor_client* client);
/* Send a request, which stays the caller's, and wait for the reply. Any number of threads may call at once.
 * Errors: TIMEOUT (the server learns of it), LOST, REMOTE (the text is the server's: of an exception of Python its type
 * and text), TYPE (the reply is a pickle), NO_MEMORY, INTERRUPTED (the request is given up).
 * Ownership: *out is the caller's. */
shmtensor_status shmtensor_client_call(shmtensor_client* client, const shmtensor_value* request, double timeout,
                                       shmtensor_value** out);

/* Send a request, which stays the caller's, and do not wait for the reply; timeout: for room in the servers' queue. Any
 * number of calls may be under way, and they go on when the client is closed. Errors: FULL (nothing was sent), and
 * those of shmtensor_queue_put. Since ABI version 3.
 * Ownership: *out is the caller's; shmtensor_call_close. */
shmtensor_status shmtensor_client_submit(shmtensor_client* client, const shmtensor_value* request, double timeout,
                                         shmtensor_call** out);
/* Wait for the reply, and take it, once. Errors: TIMEOUT, INTERRUPTED (the call goes on: wait again); STATE (the reply
 * was taken before, the call was cancelled, or it is the parent's); LOST, REMOTE, TYPE, NO_MEMORY, as above. Since ABI
 * version 3. Ownership: *out is the caller's. */
shmtensor_status shmtensor_call_wait(shmtensor_call* call, double timeout, shmtensor_value** out);
/* Would shmtensor_call_wait return at once? shmtensor_wait_any waits for that. Since ABI version 3. */
shmtensor_status shmtensor_call_is_done(shmtensor_call* call, int* out);
/* The reply is not wanted any more, and the server learns of it; waits for it end with STATE within a moment. Errors:
 * STATE (the reply was taken before, or it is the parent's). Since ABI version 3. */
shmtensor_status shmtensor_call_cancel(shmtensor_call* call);
/* Let go of a call; one that is under way is cancelled. Since ABI version 3. */
shmtensor_status shmtensor_call_close(shmtensor_call* call);

/* Serve the name. options may be NULL. Errors and ownership: as shmtensor_queue_open; shmtensor_server_close. */
shmtensor_status shmtensor_server_open(shmtensor_service* service, const char* name,
                                       const shmtensor_server_options* options, shmtensor_server** out);
shmtensor_status shmtensor_server_close(shmtensor_server* server);
/* Take the next request. One that C cannot read is answered with an error, and the wait goes on. Errors: EMPTY,
 * NO_MEMORY, INTERRUPTED. Ownership: both are the caller's; shmtensor_request_close. */
shmtensor_status shmtensor_server_take(shmtensor_server* server, double timeout, shmtensor_value** out,
                                       shmtensor_request** out_request);
/* A descriptor that is readable while a request waits. Errors: OS. Ownership: borrowed. */
shmtensor_status shmtensor_server_fileno(shmtensor_server* server, int* out);
/* Answer, once, with a value, which stays the caller's, or with an error. out_wanted, which may be NULL: whether the
 * client still waited. Errors: STATE (answered before, or the parent's), FULL (the client reads none of its replies),
 * and those of shmtensor_queue_put; then it is not answered. */
shmtensor_status shmtensor_request_reply(shmtensor_request* request, const shmtensor_value* value, int* out_wanted);
shmtensor_status shmtensor_request_fail(shmtensor_request* request, const char* text, int* out_wanted);
/* Does the client still wait? It neither gave up nor died, and has no answer yet. */
shmtensor_status shmtensor_request_is_wanted(shmtensor_request* request, int* out);
/* Let go of a request. One that was not answered is answered with an error. */
shmtensor_status shmtensor_request_close(shmtensor_request* request);

/* --- events ---------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_event shmtensor_event;

/* Open the event of this name, or make it, not set. persist: it stays when no process has it open. Errors and
 * ownership: as shmtensor_queue_open; shmtensor_event_close. */
shmtensor_status shmtensor_event_open(shmtensor_service* service, const char* name, int persist,
                                      shmtensor_event** out);
shmtensor_status shmtensor_event_close(shmtensor_event* event);
/* Set it: everybody who waits returns, and so do all later waits until it is cleared. Errors: MANAGER (a forked child
 * cannot join the service). */
shmtensor_status shmtensor_event_set(shmtensor_event* event);
shmtensor_status shmtensor_event_clear(shmtensor_event* event);
shmtensor_status shmtensor_event_is_set(shmtensor_event* event, int* out);
/* Wake everybody who waits at this moment, with a number, and set nothing. Errors: INTERRUPTED, MANAGER. */
shmtensor_status shmtensor_event_pulse(shmtensor_event* event, uint64_t id);
/* Wait until it is set or pulsed. Errors: TIMEOUT, INTERRUPTED, MANAGER. */
shmtensor_status shmtensor_event_wait(shmtensor_event* event, double timeout);
/* Wait for the next pulse, and store its id. Errors: as above. */
shmtensor_status shmtensor_event_wait_pulse(shmtensor_event* event, double timeout, uint64_t* out_id);
/* A descriptor that is readable while it is set. Errors: OS. Ownership: borrowed. */
shmtensor_status shmtensor_event_fileno(shmtensor_event* event, int* out);

/* --- locks ----------------------------------------------------------------------------------------------------- */

typedef struct shmtensor_lock shmtensor_lock;

/* Open a lock of n permits, 1 to 232, under a name of 1 to 95 bytes; one permit is a mutex, and 0 leaves the number
 * open: 1 until somebody says it. A permit is a process's: when that is killed, it is released. Errors: VALUE (the
 * name, or another number was said before), OTHER (no room for more locks), MANAGER.
 * Ownership: *out is the caller's; shmtensor_lock_close. */
shmtensor_status shmtensor_lock_open(shmtensor_service* service, const char* name, uint32_t n, shmtensor_lock** out);
/* Releases what was acquired by this handle and not released. */
shmtensor_status shmtensor_lock_close(shmtensor_lock* lock);
/* Take a permit. Errors: TIMEOUT, INTERRUPTED, NO_MEMORY, MANAGER. */
shmtensor_status shmtensor_lock_acquire(shmtensor_lock* lock, double timeout);
/* Release the permit that was taken last by this handle. Errors: STATE (none was, or it is the parent's). */
shmtensor_status shmtensor_lock_release(shmtensor_lock* lock);

/* --- barriers; since ABI version 2 ------------------------------------------------------------------------------ */

typedef struct shmtensor_barrier shmtensor_barrier;

/* Open a barrier of so many parties, 1 to 48, under a name of 1 to 95 bytes. A party that is killed while it waits
 * frees its place for another one. Errors: VALUE (the name, or it has another number of parties), OTHER (no room for
 * more locks), MANAGER. Ownership: *out is the caller's; shmtensor_barrier_close. */
shmtensor_status shmtensor_barrier_open(shmtensor_service* service, const char* name, uint32_t parties,
                                        shmtensor_barrier** out);
shmtensor_status shmtensor_barrier_close(shmtensor_barrier* barrier);
/* Arrive, and wait for the other parties. out_is_last, which may be NULL: whether this was the last one to arrive, as
 * exactly one is. Errors: TIMEOUT, INTERRUPTED, CLOSED; then this arrival is withdrawn. MANAGER. */
shmtensor_status shmtensor_barrier_wait(shmtensor_barrier* barrier, double timeout, int* out_is_last);
/* How many parties have arrived and wait at this moment. Errors: MANAGER. */
shmtensor_status shmtensor_barrier_n_waiting(shmtensor_barrier* barrier, uint32_t* out);

/* --- several at once; since ABI version 2 ----------------------------------------------------------------------- */

typedef struct shmtensor_wait_item {
  size_t size;
  const void* handle; /* a queue, a subscription, an event, a server or a call; NULL: `fd` */
  int fd;             /* a descriptor of a socket, a pipe, ... */
  int is_ready;       /* is written: 1 or 0 */
} shmtensor_wait_item;

/* Wait until one of n things is ready. Ready is a queue or subscription with a message; a server with a request; a call
 * (since ABI version 3) that has a reply, is lost or was cancelled; an event that is set, or that was set or pulsed
 * during the call; a descriptor that can be read without waiting, or that is broken. Others may take a message before
 * this program does. Of the items, all is_ready are written on success, and all are 0 after TIMEOUT. out_n, which may
 * be NULL: how many are ready.
 * Errors: TIMEOUT; VALUE (a descriptor is not open; there is nothing to wait for, and no timeout; an item's size);
 * CLOSED (a handle is closed, or was closed meanwhile); OS (no descriptor or thread is left for the wait); NO_MEMORY;
 * INTERRUPTED. */
shmtensor_status shmtensor_wait_any(shmtensor_wait_item* items, size_t n, double timeout, size_t* out_n);

#ifdef __cplusplus
}
#endif

#endif
