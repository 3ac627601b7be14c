/* kernels/runtime.c -- the number of threads and the CPU capability, for Python (api/runtime.h). */
#include "api/runtime.h"

#include "generated/loops.h"
#include "iter/threads.h"

#include <stddef.h>

int shmt_get_num_threads(void) { return shmt__num_threads(); }
void shmt_set_num_threads(int n) { shmt__set_num_threads(n); }
const char* shmt_cpu_capability(void) { return shmt__cpu_level_name(shmt__cpu_level); }
const char* shmt_only_cpu_capability(void) {
  return shmt__only_cpu_level < 0 ? NULL : shmt__cpu_level_name(shmt__only_cpu_level);
}
int shmt_has_kernels(void) { return shmt__cpu_level >= shmt__only_cpu_level; }
