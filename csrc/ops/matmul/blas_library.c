/* ops/matmul/blas_library.c -- finding a BLAS and binding its functions.
 *
 * Search order: SHMTENSOR_BLAS, the package's own library, libopenblas.so.0, libblas.so.3. The bundled
 * library names everything with a prefix; a system one does not. A library that lacks one of the
 * functions is left aside as a whole.
 */
#include "ops/matmul/blas_library.h"

#include "api/blas.h"
#include "base/error.h"
#include "generated/options.h"
#include "os/mutex.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static shmt__blas_table the_table;
static atomic_bool is_ready;
SHMT_STATIC_MUTEX(load_lock, SHMT_MUTEX_BLAS)
static char library_dir[4096];
static char library_path[4400] = "none";
static void* library_handle;
static const char* library_prefix = "";

void shmt_set_library_dir(const char* path) {
  if (path) (void)snprintf(library_dir, sizeof library_dir, "%s", path);
}

static void* find_symbol(void* handle, const char* prefix, const char* name) {
  char symbol[128];

  (void)snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
  return dlsym(handle, symbol);
}

static bool bind_table(void* handle, const char* prefix, shmt__blas_table* t) {
  const struct {
    const char* name;
    void* slot;
  } wanted[] = {
      {"cblas_sgemm", &t->sgemm},     {"cblas_dgemm", &t->dgemm},     {"cblas_cgemm", &t->cgemm},
      {"cblas_zgemm", &t->zgemm},     {"cblas_sgemv", &t->sgemv},     {"cblas_dgemv", &t->dgemv},
      {"cblas_sdot", &t->sdot},       {"cblas_ddot", &t->ddot},       {"cblas_cdotu_sub", &t->cdotu},
      {"cblas_cdotc_sub", &t->cdotc}, {"cblas_zdotu_sub", &t->zdotu}, {"cblas_zdotc_sub", &t->zdotc},
  };

  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
    void* symbol = find_symbol(handle, prefix, wanted[i].name);
    if (!symbol) return false;
    memcpy(wanted[i].slot, &symbol, sizeof symbol);
  }
  return true;
}

static bool try_library(const char* path) {
  static const char* const prefixes[] = {"scipy_", ""};
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

  if (!handle) return false;
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    shmt__blas_table t = {0};
    void (*set_num_threads)(int);
    void* symbol;

    if (!bind_table(handle, prefixes[i], &t)) continue;
    symbol = find_symbol(handle, prefixes[i], "openblas_set_num_threads");
    if (symbol) {
      memcpy(&set_num_threads, &symbol, sizeof symbol);
      set_num_threads(1);
    }
    t.loaded = true;
    the_table = t;
    library_handle = handle;
    library_prefix = prefixes[i];
    (void)snprintf(library_path, sizeof library_path, "%s", path);
    return true;
  }
  (void)dlclose(handle);
  return false;
}

static void load_library(void) {
  static const char* const system_names[] = {"libopenblas.so.0", "libblas.so.3"};
  const char* chosen = shmt__options_get()->blas;
  const char* old_threads = getenv("OPENBLAS_NUM_THREADS");
  char* saved = old_threads ? strdup(old_threads) : NULL;
  bool found = false;

  /* Without this the library's constructor starts a thread per core, before it can be told not to. */
  (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (chosen && *chosen) found = try_library(chosen);
  if (!found && library_dir[0]) {
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/libshmt_openblas.so", library_dir);
    found = try_library(path);
  }
  for (size_t i = 0; !found && i < sizeof system_names / sizeof system_names[0]; i++)
    found = try_library(system_names[i]);
  if (saved)
    (void)setenv("OPENBLAS_NUM_THREADS", saved, 1);
  else
    (void)unsetenv("OPENBLAS_NUM_THREADS");
  free(saved);
}

const shmt__blas_table* shmt__blas(void) {
  /* acquire: the table was filled before the flag was set. */
  if (SHMT_UNLIKELY(!atomic_load_explicit(&is_ready, memory_order_acquire))) {
    shmt__mutex_lock(&load_lock);
    if (!atomic_load_explicit(&is_ready, memory_order_relaxed)) {
      load_library();
      atomic_store_explicit(&is_ready, true, memory_order_release);
    }
    shmt__mutex_unlock(&load_lock);
  }
  return &the_table;
}

void* shmt__blas_symbol(const char* name) {
  return shmt__blas()->loaded ? find_symbol(library_handle, library_prefix, name) : NULL;
}

const char* shmt_blas_library(void) {
  (void)shmt__blas();
  return library_path;
}

int shmt_blas_load(void) { return shmt__blas()->loaded; }
