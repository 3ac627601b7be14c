/* storage/counters.c -- the process's counters of private memory. */
#include "storage/blocks.h"

shmt__block_counters shmt__counters;

void shmt__count_peak(atomic_int_least64_t* peak, int64_t value) {
  int64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
  while (value > seen &&
         !atomic_compare_exchange_weak_explicit(peak, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
  }
}
