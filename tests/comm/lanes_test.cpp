// SPDX-License-Identifier: Apache-2.0
// What ranks of one machine tell each other in memory that they share.
#include "comm/transports/streams/lanes.hpp"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "comm/error.hpp"

namespace ringspan::comm::streams {
namespace {

TEST(SharedMemoryTest, SaysThatThereIsNoRoom) {
  const std::string name = concat("/ringspan-test-", getpid());
  EXPECT_THROW(SharedMemory(name, true, std::size_t{1} << 50), Error);
  EXPECT_THROW(SharedMemory(name, false, 4096), Error);  // nothing is left of it
}

TEST(LanesTest, LetsTheSecondSideKnowAndTheFirstOneGoOn) {
  Lanes lanes(std::make_unique<SharedMemory>(Lanes::bytes(2)), 2);
  lanes.start();
  const Lanes::Side sender{0, 1, true}, receiver{0, 1, false};
  for (std::int64_t number = 0; number < Lanes::kSlots; ++number) {
    Offer offer;
    offer.bytes = number;
    ASSERT_TRUE(lanes.room(sender, number));
    EXPECT_FALSE(lanes.announce(sender, number, offer));
    EXPECT_FALSE(lanes.has_met(sender, number));
  }
  EXPECT_FALSE(lanes.room(sender, Lanes::kSlots));
  for (std::int64_t number = 0; number < Lanes::kSlots; ++number) {
    const auto other = lanes.announce(receiver, number, {});
    ASSERT_TRUE(other);
    EXPECT_EQ(other->bytes, number);
    EXPECT_TRUE(lanes.has_met(sender, number));
  }
  EXPECT_TRUE(lanes.room(sender, Lanes::kSlots));
  EXPECT_FALSE(lanes.announce(receiver, Lanes::kSlots, {}));  // either may be first
}

TEST(LanesTest, PoisonIsAfterAllValuesThatMayBeAwaited) {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{1} << 32, std::int64_t{1} << 40}) {
    Lanes lanes(std::make_unique<SharedMemory>(Lanes::bytes(1)), 1);
    const Lanes::Side side{0, 0, true};
    lanes.poison(side, number);
    std::uint32_t poison = 0;
    std::memcpy(&poison, lanes.flags() + lanes.offset(side.other(), Lanes::Flag::ready),
                sizeof(poison));
    for (const std::int64_t before : {0, 1, 255}) {
      if (before > number) continue;
      EXPECT_GE(static_cast<std::int32_t>(poison - Lanes::value(number - before)), 0);
    }
  }
}

}  // namespace
}  // namespace ringspan::comm::streams
