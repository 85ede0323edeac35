#include "server/coordinator/coordinator.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/coordinator_client.h"
#include "common/job/job.h"
#include "common/testing/test_keys.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/fake_daemon.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.listen = "127.0.0.1:0";
    options_.own_keys = *keys::ReadKeyFile(keys_.PathOf(keys::Role::kCoordinator, "coordinator"));
    options_.state_dir =
        absl::StrCat(::testing::TempDir(), "/state-",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                     absl::ToUnixNanos(absl::Now()));
    StartCoordinator();
  }

  void StartCoordinator() {
    coordinator_ = *Coordinator::Create(options_);
    const absl::Status started = coordinator_->Start();
    ASSERT_TRUE(started.ok()) << started;
    // A restarted coordinator listens where the daemons look for it.
    options_.listen = absl::StrCat("127.0.0.1:", coordinator_->port());
    client_ = control::CoordinatorClient::Create(
        {.coordinator = options_.listen, .credentials = User(), .deadline = absl::Seconds(20)});
  }

  control::Credentials User() {
    return control::Credentials::File(keys_.PathOf(keys::Role::kUser, "ada"));
  }

  static proto::Job SomeJob(uint32_t ranks) {
    proto::Job job;
    job.set_name("job");
    job.mutable_program()->set_path("program");
    job.set_ranks(ranks);
    return job;
  }

  // Returns the job's status once it has this state, or whatever it is after 20 s.
  proto::JobStatus WaitForState(JobId job, proto::JobState state) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    proto::JobStatus status = *client_->GetJob(job);
    while (status.state() != state && absl::Now() < deadline) {
      std::this_thread::yield();
      status = *client_->GetJob(job);
    }
    return status;
  }

  keys::KeyFolder keys_{
      absl::StrCat(::testing::TempDir(), "/keys", absl::ToUnixNanos(absl::Now()))};
  Coordinator::Options options_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<control::CoordinatorClient> client_;
};

TEST_F(CoordinatorTest, AJobRunsFromSubmissionToItsEndAndFollowersSeeItAll) {
  const JobId job = *client_->Submit(SomeJob(2));
  std::vector<proto::FollowEvent> events;
  absl::Notification following;
  std::thread follower([&] {
    const absl::StatusOr<proto::JobStatus> last =
        client_->Follow(job, [&](const proto::FollowEvent& event) {
          events.push_back(event);
          if (!following.HasBeenNotified()) following.Notify();
        });
    EXPECT_TRUE(last.ok()) << last.status();
  });
  following.WaitForNotification();
  const auto asking_client = control::CoordinatorClient::Create({.coordinator = options_.listen,
                                                                 .credentials = User(),
                                                                 .deadline = absl::Seconds(20),
                                                                 .reports = true});
  absl::Notification asking;
  std::vector<proto::FollowEvent> asked;
  std::thread asker([&] {
    const auto last = asking_client->Follow(job, [&](const proto::FollowEvent& event) {
      asked.push_back(event);
      if (!asking.HasBeenNotified()) asking.Notify();
    });
    EXPECT_TRUE(last.ok()) << last.status();
  });
  asking.WaitForNotification();
  FakeDaemon server(options_.listen, FakeDaemon::Server("s1", {5001, 5002}), &keys_);
  FakeDaemon worker(options_.listen, FakeDaemon::Worker("w1", 2), &keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kJobMetrics, job.value()));
  worker.Finish(job.value());
  follower.join();
  asker.join();

  EXPECT_EQ(events.front().status().reason(), "waits for a worker node: none has registered");
  EXPECT_EQ(events.back().status().state(), proto::FINISHED);
  EXPECT_EQ(events.back().status().chunks(), 1);
  EXPECT_EQ(events.back().status().run_dir(), "/runs/job");
  // One report of each rank for the follower that asks for them, which gets everything else, too.
  EXPECT_EQ(std::erase_if(asked, [](const auto& event) { return event.has_report(); }), 2);
  EXPECT_EQ(asked.back().status().state(), proto::FINISHED);
  const auto is_metrics = [](const proto::FollowEvent& event) { return event.has_metrics(); };
  EXPECT_EQ(std::count_if(asked.begin(), asked.end(), is_metrics), 1);
  int records = 0;
  for (const proto::FollowEvent& event : events) {
    EXPECT_FALSE(event.has_report());
    if (!event.has_metrics()) continue;
    ++records;
    EXPECT_EQ(event.metrics().samples(), 1280);
  }
  EXPECT_EQ(records, 1);
  EXPECT_TRUE(server.WaitFor(proto::CoordinatorMessage::kRemoveJob, job.value()));
}

TEST_F(CoordinatorTest, FollowingAnEndedJobGivesItsStateAndEnds) {
  const JobId job = *client_->Submit(SomeJob(1));
  ASSERT_TRUE(client_->Cancel(job).ok());
  const absl::StatusOr<proto::JobStatus> last = client_->Follow(job, [](const auto&) {});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->state(), proto::CANCELLED);
}

TEST_F(CoordinatorTest, UnknownJobsAndBadJobsAreRefusedInWords) {
  EXPECT_EQ(client_->GetJob(JobId(7)).status(), absl::NotFoundError("no job 7"));
  EXPECT_EQ(client_->Cancel(JobId(7)), absl::NotFoundError("no job 7"));
  EXPECT_EQ(client_->Follow(JobId(7), [](const auto&) {}).status(),
            absl::NotFoundError("no job 7"));
  EXPECT_EQ(client_->Submit(proto::Job()).status(),
            absl::InvalidArgumentError("name: is required"));
}

TEST_F(CoordinatorTest, ListsDaemons) {
  FakeDaemon worker(options_.listen, FakeDaemon::Worker("w1", 3), &keys_);
  ASSERT_TRUE(worker.Start().ok());
  const proto::ListNodesReply nodes = *client_->ListNodes();
  ASSERT_EQ(nodes.daemons_size(), 1);
  EXPECT_EQ(nodes.daemons(0).name(), "w1");
  EXPECT_EQ(nodes.daemons(0).slots(), 3);
  EXPECT_TRUE(nodes.daemons(0).alive());
  EXPECT_FALSE(nodes.cluster_id().empty());
}

TEST_F(CoordinatorTest, ALostWorkerFailsItsJobByNameAndTheNextJobRuns) {
  FakeDaemon server(options_.listen, FakeDaemon::Server("s1", {5001}), &keys_);
  ASSERT_TRUE(server.Start().ok());
  std::optional<FakeDaemon> worker(std::in_place, options_.listen, FakeDaemon::Worker("w1", 1),
                                   &keys_);
  ASSERT_TRUE(worker->Start().ok());
  const JobId job = *client_->Submit(SomeJob(1));
  ASSERT_TRUE(worker->WaitFor(proto::CoordinatorMessage::kRunNode, job.value()));
  worker.reset();
  const proto::JobStatus status = WaitForState(job, proto::FAILED);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_EQ(status.reason(),
            "worker w1 (node 0, rank 0) is lost: its connection ended and it did not come back");

  FakeDaemon next(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(next.Start().ok());
  const JobId next_job = *client_->Submit(SomeJob(1));
  ASSERT_TRUE(next.WaitFor(proto::CoordinatorMessage::kRunNode, next_job.value()));
  next.Finish(next_job.value());
  EXPECT_EQ(WaitForState(next_job, proto::FINISHED).state(), proto::FINISHED);
}

TEST_F(CoordinatorTest, ARunningJobAndTheQueueOutliveARestart) {
  FakeDaemon server(options_.listen, FakeDaemon::Server("s1", {5001}), &keys_);
  FakeDaemon worker(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  const JobId running = *client_->Submit(SomeJob(1));
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, running.value()));
  const JobId waiting = *client_->Submit(SomeJob(1));
  coordinator_->Stop();
  worker.Finish(running.value());  // sent when the line is back
  StartCoordinator();
  EXPECT_EQ(WaitForState(running, proto::FINISHED).state(), proto::FINISHED);
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kRunNode, waiting.value()));
  worker.Finish(waiting.value());
  EXPECT_EQ(WaitForState(waiting, proto::FINISHED).state(), proto::FINISHED);
  EXPECT_EQ(client_->Submit(SomeJob(1))->value(), waiting.value() + 1);
}

TEST_F(CoordinatorTest, ADaemonOfAnotherProtocolVersionIsRefusedWithBothVersions) {
  proto::Register registration = FakeDaemon::Worker("w1", 1);
  registration.set_protocol_version(99);
  FakeDaemon worker(options_.listen, registration, &keys_);
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("it speaks protocol version 99, the coordinator speaks ",
                                     kProtocolVersionOldest, " and ", kProtocolVersion)));
  EXPECT_THAT(std::string(status.message()), HasSubstr(options_.listen));
}

TEST_F(CoordinatorTest, ANameInUseIsRefused) {
  FakeDaemon first(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  FakeDaemon second(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(first.Start().ok());
  const absl::Status status = second.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the name \"w1\" is in use by a live daemon at 127.0.0.1"));
}

TEST_F(CoordinatorTest, APortInUseIsNamed) {
  Coordinator::Options options = options_;
  options.state_dir += "-other";
  const std::unique_ptr<Coordinator> other = *Coordinator::Create(options);
  const absl::Status status = other->Start();
  EXPECT_EQ(status, absl::AlreadyExistsError(absl::StrCat("cannot listen on ", options_.listen,
                                                          ": Address already in use")));
}

TEST_F(CoordinatorTest, AStateDirectoryInUseIsNamed) {
  Coordinator::Options options = options_;
  options.listen = "127.0.0.1:0";
  const std::unique_ptr<Coordinator> other = *Coordinator::Create(options);
  EXPECT_EQ(other->Start(),
            absl::UnavailableError(absl::StrCat(
                options_.state_dir, ": another coordinator uses this state directory")));
}

TEST_F(CoordinatorTest, StopEndsFollowersAndSessions) {
  FakeDaemon worker(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(worker.Start().ok());
  const JobId job = *client_->Submit(SomeJob(1));  // waits for a server
  const auto follower_client = control::CoordinatorClient::Create(
      {.coordinator = options_.listen, .credentials = User(), .deadline = absl::ZeroDuration()});
  absl::Status status;
  std::thread follower(
      [&] { status = follower_client->Follow(job, [](const proto::FollowEvent&) {}).status(); });
  coordinator_->Stop();
  follower.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorTest, ATraceComesOnceTheJobHasEndedAndItsDaemonsHaveSaidAll) {
  FakeDaemon server(options_.listen, FakeDaemon::Server("s1", {5001}), &keys_);
  FakeDaemon worker(options_.listen, FakeDaemon::Worker("w1", 2), &keys_);
  ASSERT_TRUE(server.Start().ok());
  ASSERT_TRUE(worker.Start().ok());
  proto::Job traced = SomeJob(2);
  traced.mutable_trace()->set_steps(3);
  const JobId job = *client_->Submit(traced);
  std::vector<proto::TraceBatch> batches;
  absl::Status status;
  std::thread reader([&] {
    status = client_->GetTrace(job, [&](const auto& batch) { batches.push_back(batch); });
  });
  ASSERT_TRUE(worker.WaitFor(proto::CoordinatorMessage::kJobMetrics, job.value()));
  const auto say = [&](FakeDaemon* daemon, const std::string& process) {
    proto::DaemonMessage message;
    message.mutable_trace()->set_job_id(job.value());
    message.mutable_trace()->set_process(process);
    if (!process.empty()) message.mutable_trace()->add_events()->set_clock(2);
    daemon->Send(message);
  };
  say(&worker, "node 0 aggregator");
  worker.Finish(job.value());
  say(&worker, "");
  ASSERT_TRUE(server.WaitFor(proto::CoordinatorMessage::kRemoveJob, job.value()));
  say(&server, "server s1 shard 0");
  say(&server, "");
  reader.join();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].host(), "w1");
  EXPECT_EQ(batches[1].process(), "server s1 shard 0");
  EXPECT_EQ(batches[1].events(0).clock(), 2u);
  EXPECT_EQ(client_->GetTrace(JobId(7), [](const auto&) {}), absl::NotFoundError("no job 7"));
}

TEST_F(CoordinatorTest, StopEndsWhoWaitsForATrace) {
  proto::Job traced = SomeJob(2);
  traced.mutable_trace()->set_steps(3);
  const JobId job = *client_->Submit(traced);
  absl::Status status;
  std::thread reader([&] { status = client_->GetTrace(job, [](const auto&) {}); });
  coordinator_->Stop();
  reader.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(CoordinatorTest, OneSessionTooManyIsRefusedAtOnceAndCounted) {
  coordinator_.reset();
  options_.limits.sessions_max = 1;
  StartCoordinator();
  FakeDaemon first(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(first.Start().ok());
  FakeDaemon second(options_.listen, FakeDaemon::Worker("w2", 1), &keys_);
  const absl::Status refused = second.Start();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the coordinator has 1 sessions of daemons open"));
  const absl::StatusOr<proto::ListNodesReply> nodes = client_->ListNodes();
  ASSERT_TRUE(nodes.ok());
  ASSERT_EQ(nodes->coordinator().refusals_size(), 1);
  EXPECT_EQ(nodes->coordinator().refusals(0).count(), 1u);
  EXPECT_TRUE(nodes->daemons(0).alive());
}

TEST_F(CoordinatorTest, ConnectionsOverWhichNobodyAsksForAnythingAreEnded) {
  coordinator_.reset();
  options_.idle_after = absl::Seconds(1);
  StartCoordinator();
  // One peer says nothing, one starts HTTP/2 and sends no more.
  const std::string openings[] = {
      "", absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", std::string("\0\0\0\4\0\0\0\0\0", 9))};
  for (const std::string& opening : openings) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    address.sin_port = htons(static_cast<uint16_t>(coordinator_->port()));
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(fd.get(), opening.data(), opening.size(), 0), std::ssize(opening));
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    char bytes[256];
    ssize_t got = 1;
    while (got > 0) got = recv(fd.get(), bytes, sizeof(bytes), 0);
    EXPECT_EQ(got, 0) << "still open, after " << opening.size() << " bytes";
  }
  // A client whose connection was closed opens another.
  EXPECT_TRUE(client_->ListJobs().ok());
}

// The message may have been in flight.
TEST_F(CoordinatorTest, WhatADaemonSaidJustBeforeABreakIsSaidAgainAfterIt) {
  FakeDaemon daemon(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(daemon.Start().ok());
  proto::DaemonMessage about_nobodys_job;
  about_nobodys_job.mutable_node_finished()->set_job_id(77);
  daemon.Send(about_nobodys_job);
  const auto is_heard = [this] {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (absl::Now() < deadline) {
      const absl::StatusOr<proto::ListNodesReply> nodes = client_->ListNodes();
      if (nodes.ok() && nodes->coordinator().refusals_size() > 0) {
        return nodes->coordinator().refusals(0).cause() == "about a job of other daemons";
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  };
  ASSERT_TRUE(is_heard());
  coordinator_.reset();
  StartCoordinator();
  EXPECT_TRUE(is_heard());
}

TEST_F(CoordinatorTest, ADaemonThatHasMoreToSayThanFitsEndsItsSession) {
  FakeDaemon daemon(options_.listen, FakeDaemon::Worker("w1", 1), &keys_);
  ASSERT_TRUE(daemon.Start().ok());
  coordinator_.reset();
  for (size_t i = 0; i <= kQueuedMessagesMax; ++i) daemon.Send(proto::DaemonMessage());
  const std::optional<absl::Status> lost = daemon.WaitLost();
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->code(), absl::StatusCode::kResourceExhausted) << *lost;
}

}  // namespace
}  // namespace strata::server
