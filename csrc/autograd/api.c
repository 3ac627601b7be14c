/* autograd/api.c -- the state of recording, as C programs and tests see it. */
#include "api/autograd.h"

#include "autograd/meta.h"

int shmt_grad_enabled(void) { return shmt__grad_enabled(); }
int shmt_set_grad_enabled(int on) { return shmt__grad_set_enabled(on != 0); }
int64_t shmt_live_nodes(void) { return shmt__node_count(); }
