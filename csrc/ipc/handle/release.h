/* ipc/handle/release.h -- gives up blocks that this process no longer uses, and the files behind them. */
#ifndef SHMT_IPC_HANDLE_RELEASE_H
#define SHMT_IPC_HANDLE_RELEASE_H

#include "ipc/session/session.h"

/* All under the sessions' lock. */

/* Free the record of a held block. Unless another record superseded it, also give the block up. */
void shmt__session_drop_held_block(shmt__held_block* h);
/* Close the saved descriptors and unmap the cached files that nobody needs. When some will become unneeded later, a
 * thread closes them then. */
void shmt__unused_files_close(shmt__session* s);

#endif
