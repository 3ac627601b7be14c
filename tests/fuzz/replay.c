/* tests/fuzz/replay.c -- runs a fuzz target without libFuzzer: `replay N` gives it N random inputs.
 *
 * For valgrind, which does not go together with the sanitizers.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 600 };

int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  long n = argc > 1 ? atol(argv[1]) : 100;
  uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
  (void)LLVMFuzzerInitialize(&argc, &argv);
  for (long i = 0; i < n; i++) {
    uint8_t data[MOST];
    for (size_t j = 0; j < MOST; j++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      /* Many zeros: fields as they were told, so that requests get somewhere. */
      data[j] = state >> 60 < 6 ? 0 : (uint8_t)(state >> 32);
    }
    (void)LLVMFuzzerTestOneInput(data, 1 + (size_t)(state >> 40) % MOST);
  }
  (void)printf("%ld inputs\n", n);
  return 0;
}
