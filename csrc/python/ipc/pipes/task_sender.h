/* python/ipc/pipes/task_sender.h -- _TaskSender, which gives tasks to one worker of a pool.
 *
 * Note [A task is given in one call]
 * A program's thread gives tasks to idle workers, and a signal's handler may raise between any two steps of it. A
 * message that was written and not noted would be written again, and then the result of one task would be taken for
 * that of another. So that a worker has a task, which one, and the writing of its message are one call, in which no
 * handler runs. A handler that gives tasks itself finds the worker busy.
 */
#ifndef SHMT_PYTHON_IPC_PIPES_TASK_SENDER_H
#define SHMT_PYTHON_IPC_PIPES_TASK_SENDER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SHMT_PY_MESSAGE_HEAD = 12 };

/* Write the length that the standard library's connections put before a message of n bytes. Returns its size: 4, or
 * SHMT_PY_MESSAGE_HEAD. */
static inline size_t shmt__py_message_head(uint64_t n, unsigned char head[SHMT_PY_MESSAGE_HEAD]) {
  enum { SHORT_HEAD = 4 };
  const bool is_long = n > INT32_MAX;
  const size_t n_head = is_long ? SHMT_PY_MESSAGE_HEAD : SHORT_HEAD;
  if (is_long) memset(head, 0xff, SHORT_HEAD);
  for (size_t i = is_long ? SHORT_HEAD : 0, shift = 8 * (n_head - i); i < n_head; i++)
    head[i] = (unsigned char)(n >> (shift -= 8));
  return n_head;
}

/* Add the type to the module: 0, or -1 with an exception. */
int shmt__py_task_sender_init(PyObject* module);

#endif
