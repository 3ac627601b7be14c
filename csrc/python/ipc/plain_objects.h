/* python/ipc/plain_objects.h -- writes and reads messages of plain objects, without the pickler.
 *
 * Plain objects are None, booleans, integers of 64 bits, floats, text, bytes, tuples, lists, dicts and plain tensors,
 * of exactly these types, nested a few levels. If a message has anything else, all of it goes through the pickler. The
 * results are equal to the pickler's: order is kept, and a list, dict or tensor that occurs twice is one object again.
 *
 * ipc/message/message_format.h has the bytes.
 */
#ifndef SHMT_PYTHON_IPC_PLAIN_OBJECTS_H
#define SHMT_PYTHON_IPC_PLAIN_OBJECTS_H

#include "python/ipc/message_records.h"

typedef enum shmt__py_quick {
  SHMT_PY_QUICK_DONE,
  SHMT_PY_QUICK_NOT_PLAIN, /* the pickler must do it; no exception is set */
  SHMT_PY_QUICK_FAILED,    /* an exception is set */
} shmt__py_quick;

/* Append o to the message. After NOT_PLAIN and FAILED the message is as it was. */
shmt__py_quick shmt__py_quick_write(shmt__py_message_writer* message, PyObject* o);
/* The object of those bytes, or NULL with an exception: HandleError when they make no sense. */
PyObject* shmt__py_quick_read(const char* data, size_t nbytes);

#endif
