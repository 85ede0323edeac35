#include "worker/aggregator/device/pinned_blocks.h"

#include <cstdlib>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"
#include "worker/aggregator/device/copy_in_parts.h"

namespace strata::worker {
namespace {

// A source with a limited number of blocks.
class FewBlocks final : public BlockSource {
 public:
  explicit FewBlocks(int left) : left_(left) {}
  ~FewBlocks() override {
    for (const auto& [block, bytes] : out_) std::free(block);
  }

  std::byte* Take(size_t bytes) override {
    if (left_ == 0) return nullptr;
    --left_;
    auto* const block = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
    out_.emplace(block, bytes);
    return block;
  }
  bool GiveBack(std::byte* block, size_t bytes) override {
    const auto found = out_.find(block);
    if (found == out_.end() || found->second != bytes) return false;
    out_.erase(found);
    std::free(block);
    return true;
  }
  bool Has(std::byte* block) const { return out_.contains(block); }

 private:
  int left_;
  std::map<std::byte*, size_t> out_;
};

class PinnedBlocksTest : public testing::Test {
 protected:
  PinnedBlocksTest() { device::ConfigureTestDevices("devices=1,memory_mb=16"); }

  const std::shared_ptr<device::Devices> found_ = device::FindTestDevices();
  const std::shared_ptr<device::Device> device_ = *found_->Use(0);
};

TEST_F(PinnedBlocksTest, AreTheSourcesWhileItHasSomeAndThenTheDevices) {
  auto source = std::make_shared<FewBlocks>(1);
  PinnedBlocks blocks(device_, source);
  std::byte* const first = blocks.Take(8192);
  std::byte* const second = blocks.Take(8192);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(source->Has(first));
  EXPECT_FALSE(source->Has(second));
  EXPECT_TRUE(blocks.GiveBack(first, 8192));
  EXPECT_FALSE(source->Has(first));
  EXPECT_TRUE(blocks.GiveBack(second, 8192));
  EXPECT_FALSE(blocks.GiveBack(second, 8192));
}

TEST_F(PinnedBlocksTest, GoBackToTheSourceThatTheyOutlive) {
  auto source = std::make_shared<FewBlocks>(2);
  std::byte* kept = nullptr;
  {
    PinnedBlocks blocks(device_, source);
    kept = blocks.Take(4096);
    ASSERT_TRUE(source->Has(kept));
  }
  EXPECT_FALSE(source->Has(kept));
}

TEST_F(PinnedBlocksTest, AreTheDevicesWithoutASource) {
  PinnedBlocks blocks(device_);
  std::byte* const block = blocks.Take(4096);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(blocks.GiveBack(block, 4096));
}

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
