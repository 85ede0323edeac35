#include "worker/client/straggler.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

constexpr absl::Duration kComputed = absl::Milliseconds(8);

proto::Job JobWith(const std::string& delays) {
  proto::Job job;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("seed: 3 debug { " + delays + " }", &job));
  return job;
}

TEST(Straggler, DelaysOnlyItsNode) {
  const proto::Job job = JobWith("delays { node: 1 delay_ms: 30 }");
  EXPECT_EQ(Straggler(job, 1, 2).Delay(0, kComputed), absl::Milliseconds(30));
  EXPECT_EQ(Straggler(job, 0, 0).Delay(0, kComputed), absl::ZeroDuration());
}

TEST(Straggler, SlowMakesAStepTakeSoManyTimesItsComputation) {
  const proto::Job job = JobWith("delays { slow: 4 } delays { slow: 1 } delays { slow: 0.5 }");
  EXPECT_EQ(Straggler(job, 0, 0).Delay(7, kComputed), 3 * kComputed);
}

TEST(Straggler, DelaysOfANodeAddUp) {
  const proto::Job job = JobWith("delays { delay_ms: 5 } delays { delay_ms: 1 slow: 2 }");
  EXPECT_EQ(Straggler(job, 0, 0).Delay(7, kComputed), absl::Milliseconds(6) + kComputed);
}

TEST(Straggler, JitterFillsItsRangeAndIsTheSameInEveryRun) {
  const proto::Job job = JobWith("delays { delay_ms: 30 jitter_ms: 10 }");
  const Straggler first(job, 0, 0), again(job, 0, 0), other(job, 0, 1);
  absl::Duration least = absl::InfiniteDuration(), most, sum;
  int equal = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    const absl::Duration delay = first.Delay(step, kComputed);
    EXPECT_EQ(again.Delay(step, kComputed), delay);
    equal += other.Delay(step, kComputed) == delay ? 1 : 0;
    least = std::min(least, delay);
    most = std::max(most, delay);
    sum += delay;
  }
  EXPECT_GE(least, absl::Milliseconds(20));
  EXPECT_LT(least, absl::Milliseconds(21));
  EXPECT_LE(most, absl::Milliseconds(40));
  EXPECT_GT(most, absl::Milliseconds(39));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(sum) / 1000, 30, 1);
  EXPECT_LT(equal, 5) << "ranks jitter on their own";
}

}  // namespace
}  // namespace strata
