#include "worker/aggregator/device/copy_in_parts.h"

#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(CopyInParts, CopiesAllAndNothingElseWhateverTheSize) {
  ForkJoin helpers(3);
  for (ForkJoin* const by : {static_cast<ForkJoin*>(nullptr), &helpers}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, kCopiedPartBytes - 1, kCopiedPartBytes,
                               kCopiedPartBytes + 1, 7 * kCopiedPartBytes + 13}) {
      std::vector<std::byte> from(bytes), to(bytes + 64, std::byte{0xa5});
      for (size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 31 + i / 4096);
      const uint64_t before = CopiedBytes(CopyReason::kIntoArena);
      CopyInParts(CopyReason::kIntoArena, to.data(), from.data(), bytes, by);
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin())) << bytes;
      for (size_t i = bytes; i < to.size(); ++i) ASSERT_EQ(to[i], std::byte{0xa5}) << bytes;
      EXPECT_EQ(CopiedBytes(CopyReason::kIntoArena) - before, bytes);
    }
  }
}

TEST(CopyHelpers, AreAsManyAsHaveCores) {
  EXPECT_EQ(CopyHelpersFor(1, 16), 3u);
  EXPECT_EQ(CopyHelpersFor(2, 4), 1u);
  EXPECT_EQ(CopyHelpersFor(4, 4), 0u);
  EXPECT_EQ(CopyHelpersFor(1, 1), 0u);
}

}  // namespace
}  // namespace strata::worker
