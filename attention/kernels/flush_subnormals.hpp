// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace ringspan::attention::cpu {

/// While it lives, this thread takes numbers below the smallest normal one, 2^-126, for zero. On
/// x86 an instruction that meets one takes a hundred times as long, and small weights times small
/// gradients make many. Elsewhere they cost little and are left alone.
class FlushSubnormals {
 public:
#if defined(__SSE__)
  FlushSubnormals() { _mm_setcsr(before_ | kFlushResults | kFlushOperands); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
#else
  FlushSubnormals() {}  // not defaulted, or the variable would be unused
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

#if defined(__SSE__)
 private:
  static constexpr unsigned kFlushResults = 0x8000, kFlushOperands = 0x0040;
  const unsigned before_ = _mm_getcsr();
#endif
};

}  // namespace ringspan::attention::cpu
