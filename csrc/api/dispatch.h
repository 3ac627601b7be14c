/* api/dispatch.h -- looking at the dispatcher from Python. */
#ifndef SHMT_API_DISPATCH_H
#define SHMT_API_DISPATCH_H

#include <stdint.h>

/* The schema of operator i, in order of definition; NULL after the last. Borrowed. */
const char* shmt_operator_schema(int64_t i);
/* The schema of "name.overload"; NULL when there is no such operator. Borrowed. */
const char* shmt_find_operator_schema(const char* name);
/* The name of a dispatch key; "Undefined" for a number that is none. Alias keys start at 64. */
const char* shmt_dispatch_key_name(int key);
/* The keys that have a kernel or fallback for "name.overload", as bits; 0 when there is no such operator. */
uint64_t shmt_operator_keys(const char* name);
/* The keys that every call of the thread includes, as bits. */
uint64_t shmt_included_keys(void);
/* Print every call and redispatch to stderr, on all threads; returns what it was. */
int shmt_set_dispatch_trace(int on);

#endif
