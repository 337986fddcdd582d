"""C text of 16-bit floats: stored as their bits, computed in float.

Written without branches, so that compilers vectorise the loops they stand in.  Compared
with numpy on all 65 536 values, and from float on every 257th of all bit patterns:
tests/backends/test_c_halves.py.
"""

from __future__ import annotations

__all__ = ["HALVES"]

HALVES = """\
#define CC_INLINE static inline __attribute__((unused, always_inline))
CC_INLINE uint32_t cc_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
CC_INLINE float cc_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

CC_INLINE float cc_from_bf16(uint16_t h) { return cc_float((uint32_t)h << 16); }
CC_INLINE uint16_t cc_to_bf16(float x) {
  const uint32_t u = cc_bits(x);
  /* to nearest even: the carry may well run into the exponent */
  const uint32_t even = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(x != x ? (u >> 16) | 0x40u : even);
}

CC_INLINE float cc_from_f16(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  const uint32_t rest = (uint32_t)(h & 0x7fffu) << 13;
  /* the exponent is off by 112; a product of floats mends subnormals too */
  const uint32_t finite = cc_bits(cc_float(rest) * 0x1p112f);
  return cc_float(sign | ((h & 0x7c00u) == 0x7c00u ? rest | 0x7f800000u : finite));
}
CC_INLINE uint16_t cc_to_f16(float x) {
  const uint32_t u = cc_bits(x), sign = u & 0x80000000u, a = u ^ sign;
  const uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  /* adding 1/2 leaves a subnormal result in the last bits, rounded by the adder */
  const uint32_t tiny = cc_bits(cc_float(a) + 0.5f) - cc_bits(0.5f);
  uint32_t h = a < (113u << 23) ? tiny : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h; /* 65520 and more round to infinity */
  h = a > 0x7f800000u ? 0x7e00u : h;
  return (uint16_t)(h | sign >> 16);
}
"""
