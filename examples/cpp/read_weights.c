/* read_weights.c -- prints the shapes and sums of weights that a program in Python has published.
 *
 *     gcc -O2 read_weights.c $(shmtensor config --cflags --libs) -o read_weights
 *     python -c 'import shmtensor as st; from shmtensor import service; \
 *                service.publish("weights", st.nn.Linear(3, 2)); input()' &
 *     ./read_weights weights          of the default service; a second argument names another one
 *
 * The weights stay where the publisher put them: this program maps them read-only. */
#include <inttypes.h>
#include <stdio.h>

#include "shmtensor.h"

static int failed(const char* what) {
  fprintf(stderr, "read_weights: %s: %s\n", what, shmtensor_message());
  return 1;
}

/* The sum of the elements of a float32 tensor, whatever its strides. */
static double sum_of(const DLTensor* t, int dim, const float* at) {
  double sum = 0;
  if (dim == t->ndim) return *at;
  for (int64_t i = 0; i < t->shape[dim]; i++) sum += sum_of(t, dim + 1, at + i * t->strides[dim]);
  return sum;
}

static int print_tensor(const char* name, const shmtensor_value* value) {
  DLManagedTensorVersioned* tensor = NULL;
  if (shmtensor_value_get_tensor(value, &tensor) != SHMTENSOR_OK) return failed(name);
  const DLTensor* t = &tensor->dl_tensor;
  printf("%s (", name);
  for (int i = 0; i < t->ndim; i++) printf("%s%" PRId64, i > 0 ? ", " : "", t->shape[i]);
  if (t->dtype.code == kDLFloat && t->dtype.bits == 32)
    printf(") sum %.4f\n", sum_of(t, 0, (const float*)((const char*)t->data + t->byte_offset)));
  else
    printf(") of %d bits\n", t->dtype.bits);
  tensor->deleter(tensor);
  return 0;
}

int main(int argc, char** argv) {
  const shmtensor_service_options options = {.size = sizeof options, .name = argc > 2 ? argv[2] : NULL};
  shmtensor_service* service = NULL;
  shmtensor_value* weights = NULL;
  uint64_t version = 0;
  size_t n = 0;
  if (argc < 2) return fprintf(stderr, "usage: read_weights NAME [SERVICE]\n"), 2;
  if (shmtensor_service_open(&options, &service) != SHMTENSOR_OK) return failed("service");
  if (shmtensor_attach(service, argv[1], SHMTENSOR_READ_ONLY, &weights, &version) != SHMTENSOR_OK)
    return failed(argv[1]);
  if (shmtensor_value_length(weights, &n) != SHMTENSOR_OK) return failed(argv[1]);
  printf("version %" PRIu64 ", %zu tensors\n", version, n);
  for (size_t i = 0; i < n; i++) {
    const shmtensor_value *key = NULL, *item = NULL;
    const char* name = NULL;
    if (shmtensor_value_entry(weights, i, &key, &item) != SHMTENSOR_OK ||
        shmtensor_value_get_text(key, &name, NULL) != SHMTENSOR_OK)
      return failed(argv[1]);
    if (print_tensor(name, item) != 0) return 1;
  }
  shmtensor_value_free(weights);
  return shmtensor_service_close(service);
}
