#include "common/limits/process_use.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(ProcessUse, CountsOpenDescriptors) {
  const uint64_t before = MeasureUse().descriptors;
  const UniqueFd one(open("/dev/null", O_RDONLY));
  const UniqueFd two(open("/dev/null", O_RDONLY));
  EXPECT_EQ(MeasureUse().descriptors, before + 2);
  EXPECT_EQ(MeasureUse(getpid()).descriptors, before + 3);  // with the one that reads the folder
}

TEST(ProcessUse, ShowsTheLimitOfDescriptors) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(MeasureUse().descriptors_max, limit.rlim_cur);
}

TEST(ProcessUse, ResidentMemoryGrowsWithWhatIsTouched) {
  const uint64_t before = MeasureUse().resident_bytes;
  std::vector<char> touched(64 << 20);
  std::memset(touched.data(), 1, touched.size());
  EXPECT_GE(MeasureUse().resident_bytes, before + (60 << 20));
  EXPECT_GE(MeasureUse().threads, 1u);
}

TEST(ProcessUse, OfAProcessThatIsNotThereIsNothing) {
  EXPECT_EQ(MeasureUse(0x7ffffffe).descriptors, 0u);
  EXPECT_EQ(MeasureUse(0x7ffffffe).resident_bytes, 0u);
}

TEST(MachineMemory, TheDefaultLimitIsHalfOfIt) {
  EXPECT_GT(MachineMemoryBytes(), uint64_t{64} << 20);
  EXPECT_EQ(DefaultMemoryLimitBytes(), MachineMemoryBytes() / 2);
}

}  // namespace
}  // namespace strata
