#include "server/coordinator/service/etcd/job_value.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

proto::StoredJob JobOf(size_t bytes) {
  proto::StoredJob job;
  job.mutable_record()->set_job_id(7);
  job.mutable_status()->set_reason(std::string(bytes, 'x'));
  return job;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

absl::StatusOr<proto::StoredJob> Read(const JobValue& value) {
  const auto head = ParseJobHead(value.head);
  if (!head.ok()) return head.status();
  return JoinJob(*head, Joined(value.parts));
}

TEST(JobValueTest, ASmallJobIsOneValue) {
  const JobValue value = SplitJob(JobOf(1000), "set");
  EXPECT_TRUE(value.parts.empty());
  EXPECT_EQ(Read(value)->SerializeAsString(), JobOf(1000).SerializeAsString());
}

TEST(JobValueTest, AJobWithoutAnythingIsOne) {
  const JobValue value = SplitJob(proto::StoredJob(), "set");
  EXPECT_TRUE(Read(value).ok()) << Read(value).status();
  EXPECT_EQ(Read(value)->ByteSizeLong(), 0);
}

TEST(JobValueTest, ALargeJobIsInPartsThatNoRequestIsTooSmallFor) {
  const JobValue value = SplitJob(JobOf(5 << 20), "set");
  ASSERT_EQ(value.parts.size(), 6);
  for (const std::string& part : value.parts) EXPECT_LE(part.size(), 1 << 20);
  EXPECT_LT(value.head.size(), 100);
  EXPECT_EQ(ParseJobHead(value.head)->part_set(), "set");
  EXPECT_EQ(Read(value)->SerializeAsString(), JobOf(5 << 20).SerializeAsString());
}

TEST(JobValueTest, TheLargestWholeJobIsOneValueAndAByteMoreTwoParts) {
  size_t bytes = JobValue::kPartBytes;
  while (JobOf(bytes).ByteSizeLong() > JobValue::kPartBytes) --bytes;
  EXPECT_EQ(SplitJob(JobOf(bytes), "set").parts.size(), 0);
  EXPECT_EQ(SplitJob(JobOf(bytes + 1), "set").parts.size(), 2);
}

TEST(JobValueTest, AnyChangedBitOfAHeadIsNoticedOrChangesNothing) {
  const JobValue value = SplitJob(JobOf(20), "set");
  int noticed = 0;
  for (size_t bit = 0; bit < value.head.size() * 8; ++bit) {
    JobValue damaged = value;
    damaged.head[bit / 8] ^= 1 << bit % 8;
    const auto job = Read(damaged);
    if (job.ok()) {
      EXPECT_EQ(job->SerializeAsString(), JobOf(20).SerializeAsString()) << bit;
    } else {
      EXPECT_EQ(job.status().code(), absl::StatusCode::kDataLoss) << bit;
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 0);
}

TEST(JobValueTest, AMissingAndAChangedPartAreNoticed) {
  JobValue value = SplitJob(JobOf(3 << 20), "set");
  value.parts[1][5] ^= 1;
  EXPECT_EQ(Read(value).status(), absl::DataLossError("is damaged: its hash is another one"));
  value.parts.pop_back();
  EXPECT_EQ(Read(value).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace strata::server
