/* python/ipc/pipes/dumps.h -- pickles messages of plain objects and tensors for the standard library's queues
 * and pipes.
 *
 * The queues and connections of the standard library turn every message into a pickle. For a message of plain objects
 * with many tensors the pickler calls a reduction for each tensor. Here the whole message becomes the pickle of one
 * call, whose argument is these bytes:
 *
 *   0       4            8                      8 + 48 * n_storages
 *   +-------+------------+----------------------+--------------------+
 *   | check | n_storages | handles, with leases | message_format.h's |
 *   +-------+------------+----------------------+--------------------+
 *
 * `check` covers what follows it, keyed with the secret of the first handle's session.
 */
#ifndef SHMT_PYTHON_IPC_PIPES_DUMPS_H
#define SHMT_PYTHON_IPC_PIPES_DUMPS_H

#include "python/ipc/message.h"

extern PyMethodDef shmt__py_dumps_functions[];

#endif
