/* api/autograd.h -- the state of recording, as C programs and tests see it. */
#ifndef SHMT_API_AUTOGRAD_H
#define SHMT_API_AUTOGRAD_H

#include <stdint.h>

/* Are operations of this thread recorded? */
int shmt_grad_enabled(void);
/* Nodes of all graphs of this process that are alive now, without those of leaves. Exact when no other thread
 * records. */
int64_t shmt_live_nodes(void);

#endif
