#include "server/coordinator/diagnosis/stall_log.h"

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StallLogTest : public ::testing::Test {
 protected:
  StallLogTest() {
    job_.set_job_id(3);
    job_.set_name("lenet");
  }
  static proto::Wait WaitOf(uint32_t rank, double seconds) {
    proto::Wait wait;
    wait.set_rank(rank);
    wait.set_seconds(seconds);
    wait.set_text(absl::StrFormat("node 0 (w1) rank %d at step 57 for %d s: computing", rank,
                                  static_cast<int>(seconds)));
    return wait;
  }
  std::vector<std::string> At(int second, const std::vector<proto::Wait>& waits) {
    return log_.OnWaits(job_, waits, absl::FromUnixSeconds(1000 + second));
  }

  proto::JobStatus job_;
  StallLog log_;
};

TEST_F(StallLogTest, AStallIsLoggedOnceAgainEveryMinuteAndWhenTheJobGoesOn) {
  std::vector<std::string> lines;
  for (int s = 1; s <= 75; ++s) {
    for (std::string& line : At(s, {WaitOf(3, s)})) lines.push_back(std::move(line));
  }
  EXPECT_THAT(
      lines, ElementsAre("job 3 (lenet) waits: node 0 (w1) rank 3 at step 57 for 10 s: computing",
                         "job 3 (lenet) waits: node 0 (w1) rank 3 at step 57 for 70 s: computing"));
  EXPECT_THAT(At(76, {}), ElementsAre("job 3 (lenet) goes on, after it had waited for 75 s"));
  EXPECT_THAT(At(77, {}), IsEmpty());
}

TEST_F(StallLogTest, ShortWaitsAreNotLogged) {
  for (int s = 0; s < 30; ++s) EXPECT_THAT(At(s, {WaitOf(3, 9.9)}), IsEmpty());
  EXPECT_THAT(At(30, {}), IsEmpty());
}

TEST_F(StallLogTest, EachCulpritIsNamedOnceAndTheEndIsToldWhenAllGoOn) {
  EXPECT_THAT(At(0, {WaitOf(3, 12), WaitOf(2, 11)}), SizeIs(2));
  EXPECT_THAT(At(1, {WaitOf(3, 13), WaitOf(2, 12)}), IsEmpty());
  EXPECT_THAT(At(2, {WaitOf(2, 13)}), IsEmpty());
  EXPECT_THAT(At(3, {}), ElementsAre("job 3 (lenet) goes on, after it had waited for 13 s"));
}

TEST_F(StallLogTest, AJobOfLongStepsDoesNotFillTheLog) {
  size_t lines = 0;
  for (int s = 0; s < 300; ++s) {
    std::vector<proto::Wait> waits;
    for (uint32_t r = 0; r < 16; ++r) waits.push_back(WaitOf(r, s % 15));
    lines += At(s, waits).size();
  }
  EXPECT_LE(lines, 5u * (4 + 1));
  EXPECT_GE(lines, 4u * (4 + 1));
}

}  // namespace
}  // namespace strata::server
