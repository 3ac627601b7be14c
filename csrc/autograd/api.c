/* autograd/api.c -- the functions of api/autograd.h. */
#include "api/autograd.h"

#include "autograd/meta.h"

int shmt_grad_enabled(void) { return shmt__grad_enabled(); }
int64_t shmt_live_nodes(void) { return shmt__node_count(); }
