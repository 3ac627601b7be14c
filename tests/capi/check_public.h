/* tests/capi/check_public.h -- what the tests of the C interface are made of; it knows nothing but shmtensor.h. */
#ifndef SHMT_TESTS_CHECK_PUBLIC_H
#define SHMT_TESTS_CHECK_PUBLIC_H

#include "shmtensor.h"

#define CHECK_MESSAGE() shmtensor_message()
#include "../c/check.h"

/* A service of this program's own, which ends with it. */
static inline shmtensor_service* own_service(void) {
  const shmtensor_service_options options = {
      .size = sizeof options, .name = getenv("TEST_SERVICE"), .start = 1};
  shmtensor_service* service = NULL;
  CHECK_OK(shmtensor_service_open(&options, &service));
  return service;
}

static inline shmtensor_value* integer(int64_t number) {
  shmtensor_value* value = NULL;
  CHECK_OK(shmtensor_int(number, &value));
  return value;
}

static inline int64_t integer_of(const shmtensor_value* value) {
  int64_t number = 0;
  CHECK_OK(shmtensor_value_get_int(value, &number));
  return number;
}

/* The number of a value that is freed. */
static inline int64_t taken_integer(shmtensor_value* value) {
  const int64_t number = integer_of(value);
  shmtensor_value_free(value);
  return number;
}

#endif
