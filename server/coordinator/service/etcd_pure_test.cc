#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/leader_lease.h"
#include "server/coordinator/service/seen_blocks.h"
#include "server/coordinator/service/split_store.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;

TEST(EtcdKeysTest, AllKeysLieBelowTheClusters) {
  const EtcdKeys keys("a.b-c_1");
  EXPECT_EQ(keys.prefix(), "strata/a.b-c_1/");
  EXPECT_EQ(keys.Leader(), "strata/a.b-c_1/leader");
  EXPECT_EQ(keys.Job(JobId(7)), "strata/a.b-c_1/jobs/0000000007");
  EXPECT_EQ(EtcdKeys::PartIn(keys.Parts(JobId(7)), "5-1", 3),
            "strata/a.b-c_1/parts/0000000007/5-1/000003");
  EXPECT_EQ(keys.KeyBook(), "strata/a.b-c_1/key_book");
  EXPECT_EQ(keys.PartsOfKeyBook(), "strata/a.b-c_1/parts/key_book/");
  EXPECT_EQ(keys.SeenBlock(9), "strata/a.b-c_1/seen/00000000000000000009");
}

TEST(EtcdKeysTest, KeysOfJobsStandInTheOrderOfTheirIds) {
  const EtcdKeys keys("c");
  EXPECT_LT(keys.Job(JobId(9)), keys.Job(JobId(10)));
  EXPECT_LT(keys.Job(JobId(10)), keys.Job(JobId(4294967295)));
  EXPECT_EQ(keys.JobOf(keys.Job(JobId(4294967295))), JobId(4294967295));
  EXPECT_LT(keys.SeenBlock(9), keys.SeenBlock(10));
  EXPECT_EQ(keys.SeenBlockOf(keys.SeenBlock(~uint64_t{0})), ~uint64_t{0});
}

TEST(EtcdKeysTest, WhatIsNoJobsKeyIsNone) {
  const EtcdKeys keys("c");
  for (const char* key : {"strata/c/jobs/1", "strata/c/jobs/00000000x1", "strata/c/jobs/+000000001",
                          "strata/c/jobs/9999999999", "strata/d/jobs/0000000001", ""}) {
    EXPECT_EQ(keys.JobOf(key), std::nullopt) << key;
  }
}

TEST(EtcdKeysTest, ARangeEndsBeforeTheNextPrefix) {
  const EtcdKeys keys("c");
  const std::string end = EtcdKeys::EndOf(keys.prefix());
  EXPECT_GT(end, keys.Job(JobId(4294967295)));
  EXPECT_GT(end, keys.prefix() + "\xff");
  EXPECT_GT(EtcdKeys("c0").prefix(), keys.prefix());
  EXPECT_GE(EtcdKeys("c0").prefix(), end) << "another cluster whose name begins alike";
  EXPECT_LT(EtcdKeys("c-").prefix(), keys.prefix());
  EXPECT_LT(EtcdKeys("c.1").prefix(), keys.prefix());
}

TEST(EtcdKeysTest, ANameThatWouldLeaveItsPrefixIsRefused) {
  for (const std::string& bad : {std::string(), std::string("a/b"), std::string("a b"),
                                 std::string("a\0", 2), std::string(65, 'a')}) {
    EXPECT_EQ(EtcdKeys::CheckCluster(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(EtcdKeys::CheckCluster("a/b"),
            absl::InvalidArgumentError(
                "cluster name \"a/b\": write 1 to 64 letters, digits, '.', '_' and '-'"));
  EXPECT_TRUE(EtcdKeys::CheckCluster(std::string(64, 'Z')).ok());
}

TEST(EndpointsTest, OneOrSeveralAreTakenInTheirOrder) {
  EXPECT_THAT(*ParseEndpoints("a:2379"), ElementsAre("a:2379"));
  EXPECT_THAT(*ParseEndpoints("e-1.example:2379, 10.0.0.2:1,[::1]:65535"),
              ElementsAre("e-1.example:2379", "10.0.0.2:1", "[::1]:65535"));
}

TEST(EndpointsTest, WhatIsNoHostAndPortIsNamed) {
  for (const char* bad :
       {"", "a", ":2379", "a:", "a:0", "a:65536", "a:-1", "a:+1", "a b:2379", "a:2379/x"}) {
    EXPECT_EQ(ParseEndpoints(std::string("good:1,") + bad).status(),
              absl::InvalidArgumentError(std::string("etcd endpoint \"") + bad +
                                         "\": is no HOST:PORT; write HOST:PORT,HOST:PORT"))
        << bad;
  }
}

TEST(EndpointsTest, AUrlIsToldToDoWithoutItsScheme) {
  EXPECT_EQ(ParseEndpoints("https://a:2379").status(),
            absl::InvalidArgumentError("etcd endpoint \"https://a:2379\": write HOST:PORT without "
                                       "a scheme; files of keys ask for TLS"));
}

constexpr absl::Duration kTtl = absl::Seconds(3);
const absl::Time kSent = absl::FromUnixSeconds(1000);

TEST(LeaseTimingTest, TheHolderStopsBeforeTheLeaseDoes) {
  const LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(2500));
  EXPECT_FALSE(timing.IsOver(timing.end() - absl::Nanoseconds(1)));
  EXPECT_TRUE(timing.IsOver(timing.end()));
}

TEST(LeaseTimingTest, ARefreshCountsFromWhenItWasSent) {
  LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.next_refresh(), kSent + absl::Seconds(1));
  // Independent of when its answer came.
  timing.Refreshed(kTtl, kSent + absl::Seconds(1));
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(3500));
  EXPECT_EQ(timing.next_refresh(), kSent + absl::Seconds(2));
}

TEST(LeaseTimingTest, WhatEtcdGrantsCounts) {
  LeaseTiming timing(kTtl, kSent);
  timing.Refreshed(absl::Seconds(1), kSent + absl::Seconds(1));
  EXPECT_EQ(timing.end(),
            kSent + absl::Milliseconds(1000) + absl::Seconds(1) - absl::Seconds(1) / 6);
}

TEST(LeaseTimingTest, AFailedRefreshIsRepeatedSoonAndProlongsNothing) {
  LeaseTiming timing(kTtl, kSent);
  const absl::Time now = kSent + absl::Milliseconds(1700);
  timing.Failed(now);
  EXPECT_EQ(timing.next_refresh(), now + absl::Milliseconds(100));
  EXPECT_EQ(timing.end(), kSent + absl::Milliseconds(2500));
}

TEST(LeaseTimingTest, ARefreshIsAwaitedNoLongerThanTheLeaseIsBelievedIn) {
  const LeaseTiming timing(kTtl, kSent);
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(2)), absl::Milliseconds(500));
  EXPECT_EQ(timing.PatienceAt(kSent + absl::Seconds(3)), absl::ZeroDuration());
}

std::string Bytes(size_t bytes) { return std::string(bytes, 'x'); }

std::string Joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

absl::StatusOr<std::string> Read(const SplitValue& value) {
  const auto head = ParseHead(value.head);
  if (!head.ok()) return head.status();
  return Join(*head, Joined(value.parts));
}

TEST(SplitValueTest, WhatIsSmallIsOneValue) {
  const SplitValue value = Split(Bytes(1000), "set");
  EXPECT_TRUE(value.parts.empty());
  EXPECT_EQ(*Read(value), Bytes(1000));
}

TEST(SplitValueTest, NothingIsAValueToo) {
  const SplitValue value = Split("", "set");
  ASSERT_TRUE(Read(value).ok()) << Read(value).status();
  EXPECT_EQ(*Read(value), "");
}

TEST(SplitValueTest, WhatIsLargeIsInPartsThatNoRequestIsTooSmallFor) {
  const SplitValue value = Split(Bytes((5 << 20) + 1), "set");
  ASSERT_EQ(value.parts.size(), 6);
  for (const std::string& part : value.parts) EXPECT_LE(part.size(), 1 << 20);
  EXPECT_LT(value.head.size(), 100);
  EXPECT_EQ(ParseHead(value.head)->part_set(), "set");
  EXPECT_EQ(*Read(value), Bytes((5 << 20) + 1));
}

TEST(SplitValueTest, TheLargestWholeIsOneValueAndAByteMoreTwoParts) {
  EXPECT_EQ(Split(Bytes(SplitValue::kPartBytes), "set").parts.size(), 0);
  EXPECT_EQ(Split(Bytes(SplitValue::kPartBytes + 1), "set").parts.size(), 2);
}

TEST(SplitValueTest, AnyChangedBitOfAHeadIsNoticedOrChangesNothing) {
  const SplitValue value = Split(Bytes(20), "set");
  int noticed = 0;
  for (size_t bit = 0; bit < value.head.size() * 8; ++bit) {
    SplitValue damaged = value;
    damaged.head[bit / 8] ^= 1 << bit % 8;
    const auto read = Read(damaged);
    if (read.ok()) {
      EXPECT_EQ(*read, Bytes(20)) << bit;
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << bit;
      ++noticed;
    }
  }
  EXPECT_GT(noticed, 0);
}

TEST(SplitValueTest, AMissingAndAChangedPartAreNoticed) {
  SplitValue value = Split(Bytes(3 << 20), "set");
  value.parts[1][5] ^= 1;
  EXPECT_EQ(Read(value).status(), absl::DataLossError("is damaged: its hash is another one"));
  value.parts.pop_back();
  EXPECT_EQ(Read(value).status().code(), absl::StatusCode::kDataLoss);
}

using Entry = SeenBlocks::Entry;
constexpr size_t kMax = SeenRegistrations::kMax;

// The blocks that etcd would hold.
class Stored {
 public:
  void Take(const SeenBlocks::Change& change) {
    values_.erase(values_.begin(), values_.lower_bound(change.first));
    for (const auto& [number, value] : change.blocks) values_[number] = value;
  }
  SeenBlocks Read() const {
    SeenBlocks blocks;
    for (const auto& [number, value] : values_) {
      EXPECT_TRUE(blocks.Restore(number, value).ok()) << number;
    }
    return blocks;
  }
  const std::map<uint64_t, std::string>& values() const { return values_; }

 private:
  std::map<uint64_t, std::string> values_;
};

std::vector<Entry> Range(uint64_t first, size_t count, uint32_t attempt) {
  std::vector<Entry> entries;
  for (uint64_t id = first; id < first + count; ++id) entries.push_back({id, attempt});
  return entries;
}

void ExpectEqual(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].daemon_id, b[i].daemon_id) << i;
    ASSERT_EQ(a[i].attempt, b[i].attempt) << i;
  }
}

TEST(SeenBlocksTest, OneMoreRegistrationWritesOneBlock) {
  SeenBlocks blocks;
  Stored stored;
  stored.Take(blocks.Append(Range(1, 1000, 1)));
  EXPECT_EQ(stored.values().size(), 4);
  const SeenBlocks::Change change = blocks.Append({{7, 2}});
  EXPECT_EQ(change.blocks.size(), 1);
  EXPECT_LT(change.blocks.begin()->second.size(), 4096);
  stored.Take(change);
  const std::vector<Entry> newest = stored.Read().Newest();
  ASSERT_EQ(newest.size(), 1000);
  EXPECT_EQ(newest.back().daemon_id, 7);
  EXPECT_EQ(newest.back().attempt, 2);
}

TEST(SeenBlocksTest, WhatWasReadGoesOnWhereItStopped) {
  SeenBlocks blocks;
  Stored stored;
  for (uint64_t id = 1; id <= 600; ++id) {
    stored.Take(blocks.Append({{id, 1}}));
    blocks = stored.Read();
  }
  EXPECT_EQ(stored.values().size(), 3) << "blocks are filled";
  ExpectEqual(blocks.Newest(), Range(1, 600, 1));
}

TEST(SeenBlocksTest, TheOldestAreForgottenAndTheLogStaysShort) {
  SeenBlocks blocks;
  Stored stored;
  stored.Take(blocks.Append(Range(1, kMax, 1)));
  // The same hundred over and over, which evict nobody.
  for (uint32_t attempt = 2; attempt < 600; ++attempt) {
    stored.Take(blocks.Append(Range(1, 100, attempt)));
    EXPECT_LE(stored.values().size(), SeenBlocks::kLogMax / SeenBlocks::kBlockEntries + 1);
  }
  std::vector<Entry> expected = Range(101, kMax - 100, 1);
  for (const Entry& entry : Range(1, 100, 599)) expected.push_back(entry);
  ExpectEqual(stored.Read().Newest(), expected);
  stored.Take(blocks.Append({{1'000'000, 1}}));
  const std::vector<Entry> newest = stored.Read().Newest();
  ASSERT_EQ(newest.size(), kMax);
  EXPECT_EQ(newest.front().daemon_id, 102);
}

TEST(SeenBlocksTest, AChangeNeverHasMoreBlocksThanATransactionTakes) {
  SeenBlocks blocks;
  Stored stored;
  for (int times = 0; times < 5; ++times) {
    const SeenBlocks::Change change = blocks.Append(Range(1 + 7 * times, 3 * kMax, times));
    EXPECT_LE(change.blocks.size(), 65);
    stored.Take(change);
  }
  ExpectEqual(stored.Read().Newest(), Range(29 + 2 * kMax, kMax, 4));
}

TEST(SeenBlocksTest, ADamagedBlockIsNoticed) {
  SeenBlocks blocks;
  const std::string value = blocks.Append(Range(1, 3, 1)).blocks.begin()->second;
  EXPECT_EQ(SeenBlocks().Restore(1, value.substr(0, value.size() - 1)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(SeenBlocks().Restore(1, "x").code(), absl::StatusCode::kDataLoss);
}

}  // namespace

}  // namespace strata::server
