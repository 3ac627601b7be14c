/* api/python.h -- filling the extension module with the tensor type and the operators.
 */
#ifndef SHMT_API_PYTHON_H
#define SHMT_API_PYTHON_H

/* Add the types and the function tables to the module shmtensor._C; 0, or -1 after printing the
 * exception. May be called more than once; only the first call does something. */
int shmt_python_install(void);

#endif
