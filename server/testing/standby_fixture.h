#ifndef STRATA_SERVER_TESTING_STANDBY_FIXTURE_H_
#define STRATA_SERVER_TESTING_STANDBY_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/coordinator_client.h"
#include "common/testing/test_keys.h"
#include "gtest/gtest.h"
#include "server/coordinator/coordinator.h"
#include "server/testing/etcd_process.h"

namespace strata::server {

// One of several coordinators, in this process.
class StandingCoordinator {
 public:
  explicit StandingCoordinator(Coordinator::Options options) {
    options.on_lost = [this](const absl::Status& why) {
      absl::MutexLock lock(&mutex_);
      lost_ = why;
    };
    coordinator_ = *Coordinator::Create(std::move(options));
  }

  absl::Status Start() { return coordinator_->Start(); }
  void Stop() { coordinator_->Stop(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", coordinator_->port()); }
  // Waits up to a minute for its status when it loses the lead; nullopt: none came.
  std::optional<absl::Status> WaitLost() {
    absl::MutexLock lock(&mutex_);
    const auto is_lost = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return lost_.has_value(); };
    mutex_.AwaitWithTimeout(absl::Condition(&is_lost), absl::Minutes(1));
    return lost_;
  }
  bool is_lost() {
    absl::MutexLock lock(&mutex_);
    return lost_.has_value();
  }

 private:
  absl::Mutex mutex_;
  std::optional<absl::Status> lost_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Coordinator> coordinator_;
};

// An etcd, and keys for the coordinators of one cluster, its daemons and a user.
class StandbyFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                           absl::ToUnixNanos(absl::Now()));
    keys_.emplace(folder_ + "-keys");
    auto etcd = EtcdProcess::Start(folder_ + "-etcd");
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
  }

  // Each coordinator has a folder of its own.
  Coordinator::Options OptionsOf(const std::string& name) {
    Coordinator::Options options;
    options.listen = "127.0.0.1:0";
    options.own_keys = *keys::ReadKeyFile(keys_->PathOf(keys::Role::kCoordinator, "coordinator"));
    options.state_dir = absl::StrCat(folder_, "-", name);
    options.etcd = {.endpoints = etcd_->endpoint()};
    options.on_lost = [](const absl::Status&) {};
    return options;
  }

  std::unique_ptr<control::CoordinatorClient> ClientOf(
      const std::string& coordinator, absl::Duration deadline = absl::Seconds(60)) {
    return control::CoordinatorClient::Create(
        {.coordinator = coordinator,
         .credentials = control::Credentials::File(keys_->PathOf(keys::Role::kUser, "ada")),
         .deadline = deadline});
  }

  static proto::Job SomeJob(uint32_t ranks) {
    proto::Job job;
    job.set_name("job");
    job.mutable_program()->set_path("program");
    job.set_ranks(ranks);
    return job;
  }

  // Returns the job's status once it has this state, or whatever it is after a minute.
  static proto::JobStatus WaitForState(control::CoordinatorClient& client, JobId job,
                                       proto::JobState state) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    absl::StatusOr<proto::JobStatus> status = client.GetJob(job);
    while (status.ok() && status->state() != state && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      status = client.GetJob(job);
    }
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : proto::JobStatus();
  }

  std::string folder_;
  std::optional<keys::KeyFolder> keys_;
  std::unique_ptr<EtcdProcess> etcd_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_STANDBY_FIXTURE_H_
