// Several coordinators with one etcd. The leader, a process of its own, dies or is paused.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/strings/numbers.h"
#include "common/os/interfaces.h"
#include "common/os/process.h"
#include "gmock/gmock.h"
#include "server/testing/fake_daemon.h"
#include "server/testing/standby_fixture.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

constexpr char kLeads[] = "--coordinator";
constexpr int kLost = 7;  // the exit status of a process that lost its lead

class FailoverTest : public StandbyFixture {
 protected:
  // Starts a coordinator as a process and waits until it listens.
  void StartProcess() {
    const std::optional<uint16_t> port = FreePort();
    ASSERT_TRUE(port.has_value());
    address_ = absl::StrCat("127.0.0.1:", *port);
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    Process::Spec spec;
    spec.args = {"/proc/self/exe",
                 kLeads,
                 address_,
                 absl::StrCat(folder_, "-process"),
                 keys_->PathOf(keys::Role::kCoordinator, "coordinator"),
                 etcd_->endpoint()};
    spec.stdout_fd = fds[1];
    auto process = Process::Start(spec);
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
    close(fds[1]);
    char ready = 0;
    ASSERT_EQ(read(fds[0], &ready, 1), 1) << "it has ended";
    close(fds[0]);
  }

  // Waits until a coordinator leads.
  void AwaitLead(const std::string& address) {
    const auto jobs = ClientOf(address)->ListJobs();
    ASSERT_TRUE(jobs.ok()) << jobs.status();
  }

  std::string address_;
  std::unique_ptr<Process> process_;
};

TEST_F(FailoverTest, AfterTheLeadersDeathTheOtherOneLeadsAndJobsAndDaemonsGoOn) {
  ASSERT_NO_FATAL_FAILURE(StartProcess());
  ASSERT_NO_FATAL_FAILURE(AwaitLead(address_));
  StandingCoordinator standby(OptionsOf("b"));
  ASSERT_TRUE(standby.Start().ok());
  const std::string both = absl::StrCat(address_, ",", standby.address());
  FakeDaemon server(both, FakeDaemon::Server("s1", {5001}), &*keys_);
  FakeDaemon worker(both, FakeDaemon::Worker("w1", 1), &*keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  const auto client = ClientOf(both);
  const JobId running = *client->Submit(SomeJob(1));
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, running.value()));
  const JobId waiting = *client->Submit(SomeJob(1));

  process_->Signal(SIGKILL);
  const absl::Time killed = absl::Now();
  const auto status = client->GetJob(running);
  const auto took_ms = absl::ToInt64Milliseconds(absl::Now() - killed);
  ASSERT_TRUE(status.ok()) << status.status();
  RecordProperty("took_over_ms", took_ms);
  std::printf("the other coordinator has answered %d ms after the leader's death\n",
              static_cast<int>(took_ms));
  EXPECT_EQ(status->state(), proto::RUNNING);
  EXPECT_FALSE(standby.is_lost());
  worker.Finish(running.value());
  EXPECT_EQ(WaitForState(*client, running, proto::FINISHED).state(), proto::FINISHED);
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, waiting.value()));
  EXPECT_EQ(worker.Count(proto::CoordinatorMessage::kStopNode), 0);
}

TEST_F(FailoverTest, ALeaderThatStoodStillTooLongChangesNothingMoreAndEnds) {
  ASSERT_NO_FATAL_FAILURE(StartProcess());
  ASSERT_NO_FATAL_FAILURE(AwaitLead(address_));
  StandingCoordinator standby(OptionsOf("b"));
  ASSERT_TRUE(standby.Start().ok());
  const auto at_first = ClientOf(address_, absl::Seconds(20));
  const JobId job = *at_first->Submit(SomeJob(1));
  FakeDaemon worker(absl::StrCat(address_, ",", standby.address()), FakeDaemon::Worker("w1", 1),
                    &*keys_);
  ASSERT_TRUE(worker.Start().ok());

  process_->Signal(SIGSTOP);
  siginfo_t stopped;
  ASSERT_EQ(waitid(P_PID, process_->pid(), &stopped, WSTOPPED), 0);
  // It finds this in its socket when it is resumed.
  absl::Status cancelled;
  std::thread cancels([&] { cancelled = at_first->Cancel(job); });
  ASSERT_NO_FATAL_FAILURE(AwaitLead(standby.address()));
  const auto at_second = ClientOf(standby.address());
  EXPECT_EQ(at_second->GetJob(job)->state(), proto::QUEUED);
  const JobId next = *at_second->Submit(SomeJob(2));
  EXPECT_EQ(next.value(), job.value() + 1);
  process_->Signal(SIGCONT);
  EXPECT_EQ(process_->Reap().code, kLost);
  cancels.join();
  EXPECT_EQ(cancelled.code(), absl::StatusCode::kUnavailable) << cancelled;
  EXPECT_EQ(at_second->GetJob(job)->state(), proto::QUEUED);
  EXPECT_EQ(at_second->GetJob(next)->state(), proto::QUEUED);
  EXPECT_FALSE(standby.is_lost());
  // The daemon has found the leader.
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  auto nodes = at_second->ListNodes();
  while (nodes.ok() && nodes->daemons_size() == 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
    nodes = at_second->ListNodes();
  }
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_EQ(nodes->daemons_size(), 1);
  EXPECT_TRUE(nodes->daemons(0).alive());
}

// The child process: leads until it is killed or loses the lead.
int RunCoordinator(char** args) {
  Coordinator::Options options;
  options.listen = args[0];
  options.state_dir = args[1];
  const auto keys = keys::ReadKeyFile(args[2]);
  if (!keys.ok()) return 1;
  options.own_keys = *keys;
  options.etcd = {.endpoints = args[3]};
  absl::Mutex mutex;
  bool is_lost = false;
  options.on_lost = [&](const absl::Status&) {
    absl::MutexLock lock(&mutex);
    is_lost = true;
  };
  const auto coordinator = Coordinator::Create(options);
  if (!coordinator.ok() || !(*coordinator)->Start().ok()) return 1;
  if (write(STDOUT_FILENO, "!", 1) != 1) return 1;
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&is_lost));
  }
  (*coordinator)->Stop();
  return kLost;
}

}  // namespace
}  // namespace strata::server

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == strata::server::kLeads) {
    return strata::server::RunCoordinator(argv + 2);
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
