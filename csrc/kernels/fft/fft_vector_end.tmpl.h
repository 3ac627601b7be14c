/* kernels/fft/fft_vector_end.tmpl.h -- undefines what fft_vector.tmpl.h defines. Ends each template that includes
 * it. */
#pragma GCC pop_options
#undef R
#undef LANES
#undef EVENS
#undef ODDS
#undef LOW
#undef HIGH
#undef LOW_2
#undef HIGH_2
#undef RE_PARTS
#undef IM_PARTS
#undef FIRST_SIGNALS
#undef OTHER_SIGNALS
#undef RUN
#undef SIGNAL_OF
#undef JOINED
#undef FIRST
#undef SECOND
#undef EVENS_BACK
#undef ODDS_BACK
#undef LOW_BACK
#undef HIGH_BACK
#undef INLINE
