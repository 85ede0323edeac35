#include "server/coordinator/jobs/slot_use.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class SlotUseTest : public ::testing::Test {
 protected:
  // One more job of the user in the queue.
  const JobEntry& Queued(const std::string& user, bool is_program = false) {
    proto::Job job;
    job.set_ranks(2);
    if (is_program) job.mutable_program()->set_path("/program");
    const JobId id(static_cast<uint32_t>(jobs_.size()) + 1);
    JobEntry entry = JobEntry::Submitted(id, 1, 1, job, "", kNow);
    entry.status().set_owner(user);
    return jobs_.emplace(id, std::move(entry)).first->second;
  }
  std::string WhyWaits(const QueueRights& rights, const JobEntry& entry) const {
    const SlotsOfUser rights_of = [&](const std::string&) { return rights; };
    return UserSlots(rights_of, jobs_).WhyWaits(entry);
  }

  std::map<JobId, JobEntry> jobs_;
};

TEST_F(SlotUseTest, AJobWaitsWhileItsOwnerMayNotSubmitIt) {
  const JobEntry& model = Queued("alice");
  const JobEntry& program = Queued("alice", /*is_program=*/true);
  EXPECT_EQ(WhyWaits({}, program), "");
  const QueueRights none{.may_submit = false, .may_run_programs = false};
  const std::string nothing = "waits: its owner alice may run nothing here any more";
  EXPECT_EQ(WhyWaits(none, model), nothing);
  EXPECT_EQ(WhyWaits(none, program), nothing);
  const QueueRights no_programs{.may_run_programs = false};
  EXPECT_EQ(WhyWaits(no_programs, model), "");
  EXPECT_EQ(WhyWaits(no_programs, program),
            "waits: its owner alice may run no programs here any more");
  EXPECT_EQ(WhyWaits(none, Queued("")), "") << "the coordinator's user";
}

TEST_F(SlotUseTest, AJobFromBeforeItsOwnersKeysWereRevokedWaits) {
  const JobEntry& entry = Queued("alice");
  EXPECT_EQ(WhyWaits({.revoked_until = kNow}, entry),
            "waits: the keys of its owner alice were revoked");
  EXPECT_EQ(WhyWaits({.revoked_until = kNow - absl::Seconds(1)}, entry), "");
}

TEST_F(SlotUseTest, AUsersLimitOfRanksHolds) {
  const JobEntry& entry = Queued("alice");
  EXPECT_EQ(WhyWaits({.slots = 2}, entry), "");
  EXPECT_THAT(WhyWaits({.slots = 1}, entry), HasSubstr("may have 1 rank at once"));
}

TEST_F(SlotUseTest, AUserFillsTheQueueForNobodyElse) {
  for (int i = 0; i < 3; ++i) Queued("alice");
  const auto room = [&](const std::string& user, size_t queued_max) {
    return CheckQueueHasRoom(user, queued_max, jobs_, /*per_user_max=*/3);
  };
  const absl::Status full = room("alice", 10);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(full.message(), "user alice has 3 jobs in the queue, and may have no more");
  EXPECT_EQ(room("bob", 10), absl::OkStatus());
  EXPECT_EQ(room("bob", 3), absl::ResourceExhaustedError("the queue is full: 3 jobs wait"));
  for (int i = 0; i < 3; ++i) Queued("");
  EXPECT_EQ(room("", 10), absl::OkStatus()) << "the coordinator's user";
}

}  // namespace
}  // namespace strata::server
