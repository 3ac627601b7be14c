/* autograd/api.c -- the state of recording, as C programs and tests see it. */
#include "api/autograd.h"

#include "autograd/meta.h"

int shmt_grad_enabled(void) { return shmt__grad_enabled(); }
int64_t shmt_live_nodes(void) { return shmt__node_count(); }
