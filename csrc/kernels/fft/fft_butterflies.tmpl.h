/* kernels/fft/fft_butterflies.tmpl.h -- transforms of a few numbers, unrolled. Included once for each form of NUMBER, a
 * vector of complex numbers. OF(name) are the functions of that form: add, sub, scaled, add_scaled (a + c b), sub_i and
 * add_i (a -+ i b), times_minus_i (-i a), times (a number). */
INLINE void OF(dft_2)(NUMBER* v) {
  const NUMBER a = v[0], b = v[1];
  v[0] = OF(add)(a, b);
  v[1] = OF(sub)(a, b);
}

INLINE void OF(dft_3)(NUMBER* v) {
  const R sine = (R)0.86602540378443864676;
  const NUMBER a = v[0], sum = OF(add)(v[1], v[2]), difference = OF(scaled)(OF(sub)(v[1], v[2]), sine);
  const NUMBER middle = OF(add_scaled)(a, sum, (R)-0.5);
  v[0] = OF(add)(a, sum);
  v[1] = OF(sub_i)(middle, difference);
  v[2] = OF(add_i)(middle, difference);
}

INLINE void OF(dft_4)(NUMBER* v) {
  const NUMBER a = OF(add)(v[0], v[2]), b = OF(sub)(v[0], v[2]), c = OF(add)(v[1], v[3]), d = OF(sub)(v[1], v[3]);
  v[0] = OF(add)(a, c);
  v[1] = OF(sub_i)(b, d);
  v[2] = OF(sub)(a, c);
  v[3] = OF(add_i)(b, d);
}

INLINE void OF(dft_5)(NUMBER* v) {
  const R c1 = (R)0.30901699437494742410, c2 = (R)-0.80901699437494742410;
  const R s1 = (R)0.95105651629515357212, s2 = (R)0.58778525229247312917;
  const NUMBER x = v[0], a1 = OF(add)(v[1], v[4]), a2 = OF(add)(v[2], v[3]);
  const NUMBER b1 = OF(sub)(v[1], v[4]), b2 = OF(sub)(v[2], v[3]);
  const NUMBER m1 = OF(add_scaled)(OF(add_scaled)(x, a1, c1), a2, c2);
  const NUMBER m2 = OF(add_scaled)(OF(add_scaled)(x, a1, c2), a2, c1);
  const NUMBER n1 = OF(add_scaled)(OF(scaled)(b1, s1), b2, s2), n2 = OF(add_scaled)(OF(scaled)(b1, s2), b2, -s1);
  v[0] = OF(add)(x, OF(add)(a1, a2));
  v[1] = OF(sub_i)(m1, n1);
  v[2] = OF(sub_i)(m2, n2);
  v[3] = OF(add_i)(m2, n2);
  v[4] = OF(add_i)(m1, n1);
}

INLINE NUMBER OF(sum_of_3)(NUMBER a, NUMBER b, NUMBER c, R x, R y, R z) {
  return OF(add_scaled)(OF(add_scaled)(OF(scaled)(a, x), b, y), c, z);
}

INLINE void OF(dft_7)(NUMBER* v) {
  const R c1 = (R)0.62348980185873353053, c2 = (R)-0.22252093395631440429, c3 = (R)-0.90096886790241912624;
  const R s1 = (R)0.78183148246802980871, s2 = (R)0.97492791218182360702, s3 = (R)0.43388373911755812048;
  const NUMBER x = v[0], a1 = OF(add)(v[1], v[6]), a2 = OF(add)(v[2], v[5]), a3 = OF(add)(v[3], v[4]);
  const NUMBER b1 = OF(sub)(v[1], v[6]), b2 = OF(sub)(v[2], v[5]), b3 = OF(sub)(v[3], v[4]);
  const NUMBER m1 = OF(add)(x, OF(sum_of_3)(a1, a2, a3, c1, c2, c3)), n1 = OF(sum_of_3)(b1, b2, b3, s1, s2, s3);
  const NUMBER m2 = OF(add)(x, OF(sum_of_3)(a1, a2, a3, c2, c3, c1)), n2 = OF(sum_of_3)(b1, b2, b3, s2, -s3, -s1);
  const NUMBER m3 = OF(add)(x, OF(sum_of_3)(a1, a2, a3, c3, c1, c2)), n3 = OF(sum_of_3)(b1, b2, b3, s3, -s1, s2);
  v[0] = OF(add)(x, OF(add)(a1, OF(add)(a2, a3)));
  v[1] = OF(sub_i)(m1, n1);
  v[2] = OF(sub_i)(m2, n2);
  v[3] = OF(sub_i)(m3, n3);
  v[4] = OF(add_i)(m3, n3);
  v[5] = OF(add_i)(m2, n2);
  v[6] = OF(add_i)(m1, n1);
}

INLINE void OF(dft_8)(NUMBER* v) {
  const R half = (R)0.70710678118654752440;
  NUMBER a[4] = {v[0], v[2], v[4], v[6]}, b[4] = {v[1], v[3], v[5], v[7]};
  OF(dft_4)(a);
  OF(dft_4)(b);
  /* Rotated by an eighth and by three eighths of a turn, times the root of two. */
  const NUMBER p = OF(sub_i)(b[1], b[1]), q = OF(sub)(OF(times_minus_i)(b[3]), b[3]);
  v[0] = OF(add)(a[0], b[0]);
  v[4] = OF(sub)(a[0], b[0]);
  v[1] = OF(add_scaled)(a[1], p, half);
  v[5] = OF(add_scaled)(a[1], p, -half);
  v[2] = OF(sub_i)(a[2], b[2]);
  v[6] = OF(add_i)(a[2], b[2]);
  v[3] = OF(add_scaled)(a[3], q, half);
  v[7] = OF(add_scaled)(a[3], q, -half);
}

INLINE void OF(dft_9)(NUMBER* v) {
  const R c1 = (R)0.76604444311897803520, s1 = (R)-0.64278760968653932632; /* rotations by one, two and four ninths */
  const R c2 = (R)0.17364817766693034885, s2 = (R)-0.98480775301220805937;
  const R c4 = (R)-0.93969262078590838405, s4 = (R)-0.34202014332566873304;
  NUMBER a[3] = {v[0], v[3], v[6]}, b[3] = {v[1], v[4], v[7]}, c[3] = {v[2], v[5], v[8]};
  OF(dft_3)(a);
  OF(dft_3)(b);
  OF(dft_3)(c);
  NUMBER x[3] = {a[0], b[0], c[0]};
  NUMBER y[3] = {a[1], OF(times)(b[1], c1, s1), OF(times)(c[1], c2, s2)};
  NUMBER z[3] = {a[2], OF(times)(b[2], c2, s2), OF(times)(c[2], c4, s4)};
  OF(dft_3)(x);
  OF(dft_3)(y);
  OF(dft_3)(z);
  v[0] = x[0], v[3] = x[1], v[6] = x[2];
  v[1] = y[0], v[4] = y[1], v[7] = y[2];
  v[2] = z[0], v[5] = z[1], v[8] = z[2];
}

INLINE void OF(dft_16)(NUMBER* v) {
  const R c = (R)0.92387953251128675613, s = (R)0.38268343236508977173, half = (R)0.70710678118654752440;
  NUMBER a[4] = {v[0], v[4], v[8], v[12]}, b[4] = {v[1], v[5], v[9], v[13]};
  NUMBER d[4] = {v[2], v[6], v[10], v[14]}, e[4] = {v[3], v[7], v[11], v[15]};
  OF(dft_4)(a);
  OF(dft_4)(b);
  OF(dft_4)(d);
  OF(dft_4)(e);
  /* Rotated by r t sixteenths of a turn. */
  NUMBER p[4] = {a[0], b[0], d[0], e[0]};
  NUMBER q[4] = {a[1], OF(times)(b[1], c, -s), OF(times)(d[1], half, -half), OF(times)(e[1], s, -c)};
  NUMBER r[4] = {a[2], OF(times)(b[2], half, -half), OF(times_minus_i)(d[2]), OF(times)(e[2], -half, -half)};
  NUMBER t[4] = {a[3], OF(times)(b[3], s, -c), OF(times)(d[3], -half, -half), OF(times)(e[3], -c, s)};
  OF(dft_4)(p);
  OF(dft_4)(q);
  OF(dft_4)(r);
  OF(dft_4)(t);
  v[0] = p[0], v[4] = p[1], v[8] = p[2], v[12] = p[3];
  v[1] = q[0], v[5] = q[1], v[9] = q[2], v[13] = q[3];
  v[2] = r[0], v[6] = r[1], v[10] = r[2], v[14] = r[3];
  v[3] = t[0], v[7] = t[1], v[11] = t[2], v[15] = t[3];
}

INLINE void OF(dft_32)(NUMBER* v) {
  const R cosines[9] = {(R)1,
                        (R)0.98078528040323044913,
                        (R)0.92387953251128675613,
                        (R)0.83146961230254523708,
                        (R)0.70710678118654752440,
                        (R)0.55557023301960222474,
                        (R)0.38268343236508977173,
                        (R)0.19509032201612826785,
                        (R)0};
  NUMBER a[16], b[16];

#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) a[k] = v[2 * k];
  OF(dft_16)(a);
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++) b[k] = v[2 * k + 1];
  OF(dft_16)(b);
  v[0] = OF(add)(a[0], b[0]);
  v[16] = OF(sub)(a[0], b[0]);
  v[8] = OF(sub_i)(a[8], b[8]);
  v[24] = OF(add_i)(a[8], b[8]);
#pragma GCC unroll 16
  for (int k = 1; k < 16; k += k == 7 ? 2 : 1) {
    const NUMBER twiddled =
        OF(times)(b[k], k < 8 ? cosines[k] : -cosines[16 - k], k < 8 ? -cosines[8 - k] : -cosines[k - 8]);
    v[k] = OF(add)(a[k], twiddled);
    v[k + 16] = OF(sub)(a[k], twiddled);
  }
}
