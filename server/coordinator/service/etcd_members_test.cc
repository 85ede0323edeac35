// An etcd of three members, some of which are lost.
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/os/interfaces.h"
#include "common/os/process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_state.h"
#include "server/testing/etcd_process.h"

namespace strata::server {
namespace {

// A real etcd of three members for tests, on free ports of loopback. It ends with this object.
class EtcdCluster {
 public:
  static constexpr int kMembers = 3;

  // Waits until it answers. Errors name the cause.
  static absl::StatusOr<std::unique_ptr<EtcdCluster>> Start(const std::string& folder);

  std::string endpoints() const;  // of all
  // After SIGSTOP all of its threads are paused.
  void Signal(int member, int signal);
  // Kills the member; Restart starts it again with its data.
  void Kill(int member) { processes_[member].reset(); }
  absl::Status Restart(int member);

 private:
  explicit EtcdCluster(std::string folder) : folder_(std::move(folder)) {}
  absl::Status Begin();
  // Waits up to a minute until a change goes through.
  absl::Status AwaitAnswer();

  const std::string folder_;
  std::array<int, kMembers> ports_ = {};
  std::array<int, kMembers> peer_ports_ = {};
  std::array<std::unique_ptr<Process>, kMembers> processes_;
};

std::string Url(int port) { return absl::StrCat("http://127.0.0.1:", port); }

absl::StatusOr<std::unique_ptr<EtcdCluster>> EtcdCluster::Start(const std::string& folder) {
  if (absl::Status there = CheckEtcdIsThere(); !there.ok()) return there;
  absl::Status started;
  for (int tries = 0; tries < kEtcdStartsMax; ++tries) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    std::unique_ptr<EtcdCluster> cluster(new EtcdCluster(folder));
    started = cluster->Begin();
    if (started.ok()) return cluster;
  }
  return started;
}

absl::Status EtcdCluster::Begin() {
  for (int member = 0; member < kMembers; ++member) {
    const std::optional<uint16_t> port = FreePort();
    const std::optional<uint16_t> peer_port = FreePort();
    if (!port.has_value() || !peer_port.has_value()) {
      return absl::ResourceExhaustedError("no port is free");
    }
    ports_[member] = *port;
    peer_ports_[member] = *peer_port;
  }
  for (int member = 0; member < kMembers; ++member) {
    const absl::Status begun = Restart(member);
    if (!begun.ok()) return begun;
  }
  return AwaitAnswer();
}

std::string EtcdCluster::endpoints() const {
  return absl::StrCat("127.0.0.1:", ports_[0], ",127.0.0.1:", ports_[1], ",127.0.0.1:", ports_[2]);
}

void EtcdCluster::Signal(int member, int signal) {
  processes_[member]->Signal(signal);
  siginfo_t stopped;
  if (signal == SIGSTOP) waitid(P_PID, processes_[member]->pid(), &stopped, WSTOPPED);
}

absl::Status EtcdCluster::Restart(int member) {
  std::string all;
  for (int other = 0; other < kMembers; ++other) {
    absl::StrAppend(&all, other == 0 ? "" : ",", "m", other, "=", Url(peer_ports_[other]));
  }
  Process::Spec spec;
  spec.args = {kEtcd,
               absl::StrCat("--name=m", member),
               "--logger=zap",
               "--log-level=warn",
               absl::StrCat("--data-dir=", folder_, "/m", member),
               absl::StrCat("--listen-client-urls=", Url(ports_[member])),
               absl::StrCat("--advertise-client-urls=", Url(ports_[member])),
               absl::StrCat("--listen-peer-urls=", Url(peer_ports_[member])),
               absl::StrCat("--initial-advertise-peer-urls=", Url(peer_ports_[member])),
               absl::StrCat("--initial-cluster=", all)};
  spec.log_path = absl::StrCat(folder_, "/m", member, ".log");
  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(spec);
  if (!process.ok()) return process.status();
  processes_[member] = *std::move(process);
  return absl::OkStatus();
}

absl::Status EtcdCluster::AwaitAnswer() {
  const auto client =
      EtcdClient::Open({.endpoints = endpoints(), .tls = {}, .deadline = kEtcdLook});
  if (!client.ok()) return client.status();
  const RealClock clock;
  const absl::Time until = clock.Now() + kEtcdStartMax;
  while (true) {
    const absl::Status answers = (*client)->Range(RangeOf("ready")).status();
    if (answers.ok() || clock.Now() > until) return answers;
    for (const std::unique_ptr<Process>& process : processes_) {
      if (process->TryReap().has_value()) {
        return absl::AbortedError(absl::StrCat(kEtcd, ": has ended: see ", folder_));
      }
    }
  }
}

constexpr absl::Duration kMembersLong = absl::Seconds(60);

proto::StoredJob Job(uint32_t id) {
  proto::StoredJob job;
  job.mutable_record()->set_job_id(id);
  job.mutable_status()->set_job_id(id);
  return job;
}

class EtcdMembersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto etcd = EtcdCluster::Start(absl::StrCat(::testing::TempDir(), "/etcd-members"));
    ASSERT_TRUE(etcd.ok()) << etcd.status();
    etcd_ = *std::move(etcd);
    // Members elect within a second or two, and a first try may go to the lost one.
    auto state = EtcdState::Open(
        {.endpoints = etcd_->endpoints(), .cluster = "c", .failover = absl::Seconds(20)});
    ASSERT_TRUE(state.ok()) << state.status();
    state_ = *std::move(state);
    ASSERT_TRUE(state_->Campaign("a:1", [this](const absl::Status&) { deposed_.Notify(); }).ok());
    const auto leadership = state_->AwaitElection(kMembersLong);
    ASSERT_TRUE(leadership.ok()) << leadership.status();
    auto store = state_->OpenStore(*leadership);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<EtcdCluster> etcd_;
  absl::Notification deposed_;
  std::unique_ptr<EtcdState> state_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(EtcdMembersTest, WritesGoOnWithoutAnyOneMemberWhetherItIsDeadOrStandsStill) {
  uint32_t id = 0;
  for (int member = 0; member < EtcdCluster::kMembers; ++member) {
    etcd_->Kill(member);
    const absl::Status saved = store_->Save(Job(++id));
    EXPECT_TRUE(saved.ok()) << member << " dead: " << saved;
    ASSERT_TRUE(etcd_->Restart(member).ok());
    // It is back before the next one goes away.
    ASSERT_TRUE(store_->Save(Job(++id)).ok());
    etcd_->Signal(member, SIGSTOP);
    const absl::Status stopped = store_->Save(Job(++id));
    EXPECT_TRUE(stopped.ok()) << member << " stands still: " << stopped;
    etcd_->Signal(member, SIGCONT);
    ASSERT_TRUE(store_->Save(Job(++id)).ok());
  }
  EXPECT_EQ(store_->Load()->size(), id);
  EXPECT_TRUE(state_->leads());
  EXPECT_FALSE(deposed_.HasBeenNotified());
}

TEST_F(EtcdMembersTest, OneOfThreeAloneSavesNothingAndItsLeaderIsDeposed) {
  etcd_->Kill(0);
  etcd_->Kill(1);
  EXPECT_FALSE(store_->Save(Job(1)).ok());
  ASSERT_TRUE(deposed_.WaitForNotificationWithTimeout(kMembersLong));
  EXPECT_FALSE(state_->leads());
}

}  // namespace
}  // namespace strata::server
