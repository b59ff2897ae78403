// A number for the bytes of a tensor: equal bytes, equal numbers, at the speed of memory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace squall {

// Each step is one-to-one in what it takes in, so that a change of one word always changes the number; the
// rotation brings the upper bits down, where a product alone would leave two changed signs to cancel out.
inline uint64_t mix(uint64_t sum, uint64_t word) {
  return std::rotl((sum ^ word) * 0x9e3779b97f4a7c15U, 29);
}

inline uint64_t digest(const char* at, size_t size) {
  uint64_t lanes[4] = {1, 2, 3, 4};  // none waits for another one's product
  uint64_t sum = size;
  for (; size >= sizeof lanes; at += sizeof lanes, size -= sizeof lanes) {
    uint64_t words[4];
    std::memcpy(words, at, sizeof words);
    lanes[0] = mix(lanes[0], words[0]);
    lanes[1] = mix(lanes[1], words[1]);
    lanes[2] = mix(lanes[2], words[2]);
    lanes[3] = mix(lanes[3], words[3]);
  }
  for (const uint64_t lane : lanes) {
    sum = mix(sum, lane);
  }
  for (; size > 0; ++at, --size) {
    sum = mix(sum, static_cast<unsigned char>(*at));
  }
  return sum;
}

} // namespace squall
