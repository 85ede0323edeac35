// Event-driven tests of the queue, restarts and refusals.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/jobs/slot_use.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

TEST(CoreQueue, AJobWaitsForWorkersAndServersAndSaysSo) {
  CoreHarness cluster;
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(2));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for a worker node: none has registered");
  cluster.JoinWorker("w1", 2);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for a server: none is alive");
  cluster.JoinServer("s1", 1);
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
}

TEST(CoreQueue, ARequestThatIsSentAgainGetsItsJobAlsoAfterARestart) {
  CoreHarness cluster;
  proto::Job job = CoreHarness::SomeJob(2);
  job.mutable_checkpoint()->set_dir("/c");  // which another job could not have, too
  job.mutable_checkpoint()->set_every_steps(10);
  const auto submit = [&](uint64_t request, const std::string& user) {
    return cluster.core().Submit(job, {}, 77, cluster.now(),
                                 {.owner = {.user = user}, .request_id = request});
  };
  ASSERT_EQ(*submit(5, "sam"), JobId(1));
  EXPECT_EQ(*submit(5, "sam"), JobId(1));
  cluster.Restart();
  EXPECT_EQ(*submit(5, "sam"), JobId(1));
  EXPECT_EQ(submit(5, "rex").status().code(), absl::StatusCode::kInvalidArgument)
      << "another user's number is not theirs";
  job.clear_checkpoint();
  EXPECT_EQ(*submit(5, "rex"), JobId(2));
  EXPECT_EQ(*submit(0, "rex"), JobId(3));
  EXPECT_EQ(*submit(0, "rex"), JobId(4)) << "without a number each is another one";
}

TEST(CoreQueue, AJobWaitsForSlotsNamesWhoHoldsThemAndStartsWhenTheyAreFree) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 4);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(CoreHarness::SomeJob(4));
  const uint32_t third = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster.Status(second).reason(),
            "waits for 2 more free slots: needs 4 slots, 2 of 4 free; job 1 holds 2");
  EXPECT_EQ(cluster.Status(third).reason(), "waits behind job 2") << "first in, first out";
  EXPECT_EQ(cluster.core().ListNodes(cluster.now()).daemons(1).slots_used(), 2);
  cluster.Finished("w1", first);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(third).state(), proto::QUEUED);
}

TEST(CoreQueue, AJobWaitsForGpusAndOthersOnCoresHoldNoneOfThem) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.SetGpus("w1", 2);
  cluster.JoinWorker("w1", 8);
  proto::Job on_gpus = CoreHarness::SomeJob(2);
  on_gpus.set_device(proto::Job::GPU);
  const uint32_t on_cores = cluster.Train(CoreHarness::SomeJob(3), {"w1"}, {"s1"});
  const uint32_t first = cluster.Train(on_gpus, {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(on_gpus);
  EXPECT_EQ(cluster.Status(first).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(second).reason(),
            "waits for 2 more free GPU slots: needs 2 GPU slots, 0 of 2 free; job 2 holds 2");
  const proto::DaemonStatus shown = cluster.core().ListNodes(cluster.now()).daemons(1);
  EXPECT_EQ(shown.slots_used(), 5u);
  EXPECT_EQ(shown.gpus_size(), 2);
  EXPECT_EQ(shown.gpu_slots(), 2u);
  EXPECT_EQ(shown.gpu_slots_used(), 2u);
  cluster.Finished("w1", on_cores);
  EXPECT_EQ(cluster.Status(second).state(), proto::QUEUED) << "slots were not what it waited for";
  cluster.Finished("w1", first);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
}

TEST(CoreQueue, AJobForGpusFailsWhereNoWorkerHasAny) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 8);
  cluster.Advance(absl::Seconds(4));
  proto::Job on_gpus = CoreHarness::SomeJob(2);
  on_gpus.set_device(proto::Job::GPU);
  const uint32_t job = cluster.Submit(on_gpus);
  EXPECT_EQ(cluster.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(job).reason(),
            "can never fit: needs 2 GPU slots, but the one worker node has 0 GPU slots: w1 0; "
            "`strata devices` there says why, unless --gpus does");
}

TEST(CoreQueue, TwoJobsThatFitRunSideBySide) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 4);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  const uint32_t second = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  EXPECT_EQ(cluster.Status(first).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
  EXPECT_THAT(cluster.core().ListNodes(cluster.now()).daemons(1).jobs(), ElementsAre(1, 2));
}

TEST(CoreQueue, AJobThatWaitsForLostNodesLetsOthersPass) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  cluster.JoinWorker("w2", 2);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  const uint32_t big = cluster.Submit(CoreHarness::SomeJob(4));
  const uint32_t small = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_THAT(cluster.Status(big).reason(), HasSubstr("waits for lost worker nodes"));
  EXPECT_EQ(cluster.Status(small).state(), proto::RUNNING);
  EXPECT_THAT(cluster.Sent("w2"), ElementsAre("Registered"));
}

TEST(CoreQueue, AJobThatCanNeverFitFailsOnceTheClusterHasSettled) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t early = cluster.Submit(CoreHarness::SomeJob(4));
  EXPECT_EQ(
      cluster.Status(early).reason(),
      "needs 4 slots, but the one worker node has 2 slots: w1 2; fails unless more join soon");
  cluster.JoinWorker("w2", 2);
  EXPECT_EQ(cluster.Status(early).state(), proto::RUNNING);
  cluster.Advance(absl::Seconds(4));
  const uint32_t late = cluster.Submit(CoreHarness::SomeJob(5));
  EXPECT_EQ(cluster.Status(late).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(late).reason(),
            "can never fit: needs 5 slots, but all 2 worker nodes together have 4 slots: w1 2, "
            "w2 2");
}

TEST(CoreQueue, AFailedJobFreesItsSlots) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(1), {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.Failed("w1", first, "boom");
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
}

TEST(CoreQueue, ABadJobIsRefusedAndTakesNoId) {
  CoreHarness cluster;
  proto::Job bad = CoreHarness::SomeJob(1);
  bad.set_window(1);
  EXPECT_EQ(cluster.core().Submit(bad, {}, 1, cluster.now()).status(),
            absl::InvalidArgumentError("window: 1 is not in 2 to 64"));
  EXPECT_EQ(cluster.Submit(CoreHarness::SomeJob(1)), 1);
}

TEST(CoreQueue, AJobThatCannotBeSavedIsRefused) {
  CoreHarness cluster;
  cluster.FailNextPersist();
  EXPECT_EQ(cluster.core().Submit(CoreHarness::SomeJob(1), {}, 1, cluster.now()).status(),
            absl::InternalError("disk full"));
  EXPECT_EQ(cluster.core().ListJobs().jobs_size(), 0);
}

TEST(CoreQueue, OnlySoManyEndedJobsAreKept) {
  CoordinatorCore::Options options;
  options.jobs.ended_max = 2;
  CoreHarness cluster(options);
  for (int i = 0; i < 4; ++i) {
    const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
    ASSERT_TRUE(cluster.core().Cancel(JobId(job), cluster.now()).ok());
  }
  cluster.Advance(absl::Milliseconds(100));
  const proto::ListJobsReply jobs = cluster.core().ListJobs();
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).job_id(), 3);
  EXPECT_EQ(cluster.stored().size(), 2);
}

// Returns the ids on each page, with "more" after every page but the last.
std::vector<std::string> Pages(CoreHarness& h, size_t bytes_max) {
  std::vector<std::string> pages;
  JobId after(0);
  while (pages.size() < 10) {
    const proto::ListJobsReply reply = h.core().ListJobs(after, {}, bytes_max);
    std::string page;
    for (const proto::JobStatus& job : reply.jobs()) {
      absl::StrAppend(&page, job.job_id(), " ");
      after = JobId(job.job_id());
    }
    pages.push_back(page + (reply.more() ? "more" : ""));
    if (!reply.more()) break;
  }
  return pages;
}

TEST(CoreQueue, JobsAreListedInPagesOfSoManyBytesAndEachHasOneAtLeast) {
  CoreHarness h;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(h.Submit(CoreHarness::SomeJob(1)), i + 1u);
  const size_t each = h.core().ListJobs().jobs(0).ByteSizeLong();
  EXPECT_THAT(Pages(h, 5 * each + 100), ElementsAre("1 2 3 4 5 "));
  EXPECT_THAT(Pages(h, 2 * each + each / 2), ElementsAre("1 2 more", "3 4 more", "5 "));
  EXPECT_THAT(Pages(h, 1), ElementsAre("1 more", "2 more", "3 more", "4 more", "5 "));
  const auto is_odd = [&](const JobOwner& owner) { return owner.user == "nobody"; };
  EXPECT_TRUE(h.core().ListJobs(JobId(0), is_odd, 1).jobs().empty());
  EXPECT_FALSE(h.core().ListJobs(JobId(0), is_odd, 1).more());
  EXPECT_TRUE(h.core().ListJobs(JobId(5)).jobs().empty());
}

TEST(CoreQueue, DaemonsAreListedInPagesByName) {
  CoreHarness h;
  for (const char* name : {"w2", "w0", "w1"}) h.JoinWorker(name, 1);
  const absl::Time now = absl::UnixEpoch();
  const auto names = [&](const std::string& after, size_t bytes_max) {
    const proto::ListNodesReply reply = h.core().ListNodes(now, after, bytes_max);
    std::string text;
    for (const proto::DaemonStatus& daemon : reply.daemons()) text += daemon.name() + " ";
    return text + (reply.more() ? "more" : "");
  };
  EXPECT_EQ(names("", 1 << 20), "w0 w1 w2 ");
  EXPECT_EQ(names("", 1), "w0 more");
  EXPECT_EQ(names("w0", 1), "w1 more");
  EXPECT_EQ(names("w1", 1), "w2 ");
  EXPECT_EQ(names("w2", 1), "");
  EXPECT_EQ(h.core().ListNodes(now).daemons(0).name(), "w2") << "all, as they joined";
}

TEST(CoreRefusals, ADaemonThatIsRefusedHearsWhyAndIsClosed) {
  CoreHarness cluster;
  cluster.JoinWorker("w1", 1);
  const SessionId second = cluster.JoinWorker("w1", 1, {}, /*daemon_id=*/9);
  EXPECT_THAT(
      cluster.Sent("w1"),
      ElementsAre("Registered", "Rejected: the name \"w1\" is in use by a live daemon at host"));
  EXPECT_TRUE(cluster.IsClosed(second));
}

TEST(CoreRefusals, AConnectionThatHasNotRegisteredIsClosed) {
  CoreHarness cluster;
  proto::DaemonMessage message;
  message.mutable_heartbeat();
  cluster.core().OnMessage(SessionId(500), message, cluster.now());
  EXPECT_TRUE(cluster.IsClosed(SessionId(500)));
}

TEST(CoreRefusals, MessagesAboutJobsOfOthersAreIgnored) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.JoinWorker("w2", 1);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(1), {"w1"}, {"s1"});
  cluster.Failed("w2", job, "not mine");
  cluster.Finished("w2", job);
  cluster.Report("w2", job, 0, 10);
  cluster.Report("w1", job, 5, 10);
  cluster.Failed("w1", 77, "unknown");
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(job).progress().samples(), 0);
}

class CoreQueueRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.JoinServer("s1", 2);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    job_ = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
    ASSERT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreQueueRestartTest, ARunningJobGoesOnWhenAllItsDaemonsComeBack) {
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(29));
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  cluster_.Report("w1", job_, 0, 20);
  EXPECT_EQ(cluster_.Status(job_).progress().samples(), 200);
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreQueueRestartTest, ADaemonThatStaysAwayFailsTheJobByName) {
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(30));
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "worker w2 (node 1, ranks 2 to 3) did not come back within 30s of the coordinator's "
            "restart");
}

TEST_F(CoreQueueRestartTest, AServerThatStaysAwayFailsTheJobByName) {
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Advance(absl::Seconds(30));
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "server s1 did not come back within 30s of the coordinator's restart");
}

TEST_F(CoreQueueRestartTest, ANodeThatHadFinishedNeedNotComeBack) {
  cluster_.Finished("w2", job_);
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(40));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  cluster_.Finished("w1", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreQueueRestartTest, AJobThatWasStartingFailsAndItsDaemonsAreToldToStop) {
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  const uint32_t starting = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Restart();
  EXPECT_EQ(cluster_.Status(starting).reason(),
            "the coordinator was restarted while the job was starting");
  cluster_.Sent("w1");
  cluster_.JoinWorker("w1", 2, {starting});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "StopNode 2"));
}

TEST_F(CoreQueueRestartTest, JobsThatComeAfterItWaitForWorkersToComeBackToo) {
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << cluster_.Status(job).reason();
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST(CoreQueue, TheFirstJobAfterARestartWaitsForWorkersThatWereThereBefore) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  cluster.JoinWorker("w2", 2);
  cluster.Advance(absl::Seconds(10));
  cluster.Restart();
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(4));
  cluster.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED) << cluster.Status(job).reason();
}

TEST_F(CoreQueueRestartTest, QueuedJobsStayQueuedAndIdsGoOn) {
  const uint32_t queued = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Restart();
  EXPECT_EQ(cluster_.Status(queued).state(), proto::QUEUED);
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster_.Status(queued).state(), proto::QUEUED)
      << "it fits once w2 is back: " << cluster_.Status(queued).reason();
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(queued).state(), proto::RUNNING);
  EXPECT_EQ(cluster_.Submit(CoreHarness::SomeJob(1)), queued + 1);
}

// ---- servers that hold a job's chunks ----

// Workers w1 and w2, w3 with servers s1, s2, s3 beside them, and d on a host of its own.
class CorePlace : public testing::Test {
 protected:
  void JoinAll() {
    for (const std::string i : {"1", "2", "3"}) {
      cluster_.SetHost("w" + i, "host" + i);
      cluster_.SetHost("s" + i, "host" + i);
      cluster_.JoinWorker("w" + i, 1);
      cluster_.JoinServer("s" + i, 1);
    }
    JoinDedicated();
  }
  void JoinDedicated() {
    cluster_.SetHost("d", "host4");
    cluster_.JoinServer("d", 1);
  }

  // All nodes are ready, so the servers are told to install the job.
  uint32_t Install(proto::Job::Placement placement) {
    proto::Job job = CoreHarness::SomeJob(3);
    job.set_placement(placement);
    job.set_chunk_elements(256);
    return InstallJob(job);
  }
  uint32_t InstallJob(const proto::Job& job) {
    const uint32_t id = cluster_.Submit(job);
    for (const char* worker : {"w1", "w2", "w3"}) {
      proto::NodeReady ready = CoreHarness::SomeLayout(id);
      ready.mutable_layout()->set_elements(12 * 256);
      ready.mutable_layout()->mutable_segments(0)->set_shape(0, 12 * 256);
      cluster_.Ready(worker, ready);
    }
    return id;
  }

  // "s1:5 d:7"
  std::string ChunksOf(uint32_t job) {
    std::string text;
    const proto::JobStatus status = cluster_.Status(job);
    for (const auto& shard : status.shards()) {
      text += (text.empty() ? "" : " ") + shard.daemon() + ":" + std::to_string(shard.chunks());
    }
    return text;
  }

  CoreHarness cluster_;
};

TEST_F(CorePlace, AutoSpreadsTheLoadOverAllLinksAndSaysSoInStatusAndRecord) {
  JoinAll();
  const uint32_t job = Install(proto::Job::AUTO);
  // D = 9 + 3 - 2 = 10: 2 / 10 on each node's host, 4 / 10 on the other.
  EXPECT_EQ(ChunksOf(job), "s1:3 s2:2 s3:2 d:5");
  EXPECT_THAT(cluster_.Status(job).placement(),
              StartsWith("MIXED (AUTO): 1 host without nodes holds 40.0 %, 3 hosts with nodes hold "
                         "20.0 % each: at most 1.20 x the model crosses a link"));
  const proto::JobRecord record = cluster_.Newest("d", Message::kInstallJob).install_job().record();
  EXPECT_EQ(record.placement().reason(), cluster_.Status(job).placement());
  EXPECT_EQ(record.job().placement(), proto::Job::AUTO);
}

TEST_F(CorePlace, OnlyTheServersThatAJobsPlacementNamesHearOfIt) {
  JoinAll();
  const uint32_t job = Install(proto::Job::DEDICATED);
  EXPECT_EQ(ChunksOf(job), "d:12");
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("Registered"));
  EXPECT_THAT(cluster_.Sent("d"), ElementsAre("Registered", "InstallJob 1"));
  cluster_.Installed("d", job);
  cluster_.Disconnect("s1");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);  // none of its servers is lost
}

TEST_F(CorePlace, OnWorkersLeavesOutTheOtherHosts) {
  JoinAll();
  EXPECT_EQ(ChunksOf(Install(proto::Job::ON_WORKERS)), "s1:4 s2:4 s3:4");
}

TEST_F(CorePlace, LinkRatesWeighTheShares) {
  for (const char* name : {"w1", "w2", "w3"}) cluster_.SetHost(name, name, 100e9);
  for (const char* name : {"w1", "w2", "w3"}) cluster_.JoinWorker(name, 1);
  cluster_.SetHost("slow", "a", 1e9);
  cluster_.SetHost("fast", "b", 3e9);
  for (const char* name : {"slow", "fast"}) cluster_.JoinServer(name, 1);
  EXPECT_EQ(ChunksOf(Install(proto::Job::AUTO)), "slow:3 fast:9");
}

TEST_F(CorePlace, AServerThatFitsIsWaitedForAndThenTheJobFailsInOneLine) {
  for (const char* i : {"1", "2", "3"}) {
    cluster_.SetHost(std::string("w") + i, std::string("host") + i);
    cluster_.JoinWorker(std::string("w") + i, 1);
  }
  cluster_.SetHost("s1", "host1");
  cluster_.JoinServer("s1", 1);
  const uint32_t waits = Install(proto::Job::DEDICATED);
  const std::string reason =
      "placement: DEDICATED needs a server on a host without a node of the job; those that all "
      "nodes reach (s1) run one";
  EXPECT_EQ(cluster_.Status(waits).state(), proto::RUNNING);
  EXPECT_EQ(cluster_.Status(waits).reason(), reason);
  cluster_.Advance(absl::Seconds(9));
  JoinDedicated();
  EXPECT_EQ(ChunksOf(waits), "d:12");
  ASSERT_TRUE(cluster_.core().Cancel(JobId(waits), cluster_.now()).ok());

  // One worker does not reach the server that would fit.
  cluster_.SetReach("w2", "tcp://host:5000", "no route");
  cluster_.Disconnect("d");
  cluster_.Advance(absl::Seconds(3));
  cluster_.SetReach("w2", "tcp://elsewhere:5000", "no route");
  cluster_.SetReach("w2", "tcp://host:5000", "");
  cluster_.SetHost("e", "host5");
  cluster_.JoinServer("e", 1, {}, 0, "elsewhere");
  const uint32_t fails = Install(proto::Job::DEDICATED);
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster_.Status(fails).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(fails).reason(),
              StartsWith(reason + "; worker w2 (host) cannot reach server e at "
                                  "tcp://elsewhere:5000: no route"));
}

TEST_F(CorePlace, WhereAllShareAHostAndItsMemoryOneConnectionDoes) {
  for (const char* name : {"w1", "w2", "w3", "d"}) cluster_.SetHost(name, "host");
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 5);
  cluster_.JoinServer("d", 1);
  proto::Job job = CoreHarness::SomeJob(3);
  job.set_ranks_per_node(1);
  job.set_connections(4);
  const auto connections = [&](uint32_t id) {
    EXPECT_EQ(cluster_.Newest("d", Message::kInstallJob).install_job().record().job_id(), id);
    return cluster_.Newest("d", Message::kInstallJob).install_job().record().job().connections();
  };
  const uint32_t shares = InstallJob(job);
  EXPECT_EQ(connections(shares), 1u);
  EXPECT_EQ(cluster_.Status(shares).job().connections(), 1u);
  job.set_same_host(proto::Job::TCP);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
  // Pushes go by value although all is on one host.
  job.set_same_host(proto::Job::REGIONS);
  job.mutable_consistency()->mutable_lazy()->set_staleness(2);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
  job.mutable_consistency()->mutable_lazy()->set_staleness(0);
  EXPECT_EQ(connections(InstallJob(job)), 1u);
  job.mutable_push()->set_codec(proto::Encoding::FP16);
  EXPECT_EQ(connections(InstallJob(job)), 4u);
}

TEST_F(CorePlace, MoreConnectionsThanANodeMayHaveEndTheJobInOneLine) {
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 1);
  cluster_.JoinServer("s", 20);
  proto::Job job = CoreHarness::SomeJob(3);
  job.set_connections(13);
  const uint32_t id = InstallJob(job);
  EXPECT_EQ(cluster_.Status(id).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(id).reason(),
            "connections: 13 to each of 20 shards are 260 of a node; at most 256 are possible");
}

TEST_F(CorePlace, WithoutServersThereIsNothingToSay) {
  JoinAll();
  proto::Job job = CoreHarness::SomeJob(1);
  job.set_exchange(proto::Job::NONE);
  const uint32_t id = cluster_.Submit(job);
  cluster_.Ready("w1", id);
  EXPECT_EQ(cluster_.Status(id).state(), proto::RUNNING);
  EXPECT_THAT(cluster_.Status(id).placement(), IsEmpty());
}

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class SlotUseTest : public ::testing::Test {
 protected:
  // Queues one more job of the user.
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

TEST_F(SlotUseTest, AUsersJobsInTheQueueTakeOnlySoMuchOfTheStore) {
  for (int i = 0; i < 3; ++i) Queued("alice");
  const size_t each = jobs_.begin()->second.stored().ByteSizeLong();
  const auto room = [&](const std::string& user, size_t bytes_max) {
    return CheckQueueHasRoom(user, 100, jobs_, /*per_user_max=*/10, bytes_max);
  };
  EXPECT_EQ(room("alice", 3 * each + 1), absl::OkStatus());
  const absl::Status full = room("alice", 3 * each);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(
      full.message(),
      absl::StrCat("user alice's 3 jobs in the queue take ", 3 * each,
                   " bytes of the coordinator's store, and may take no more than ", 3 * each));
  EXPECT_EQ(room("bob", each), absl::OkStatus());
  EXPECT_EQ(room("", 1), absl::OkStatus()) << "the coordinator's user";
}

TEST_F(SlotUseTest, OfJobsThatHaveEndedTheOldestAreTooMany) {
  const auto end = [&](const std::string& user) {
    const JobId id = Queued(user).id();
    jobs_.at(id).End(proto::FAILED, "", kNow);
    return id;
  };
  const JobId a1 = end("alice"), b1 = end("bob"), a2 = end("alice"), a3 = end("alice");
  Queued("alice");  // it has not ended
  EXPECT_THAT(EndedTooMany(jobs_, 10, 3), IsEmpty());
  EXPECT_THAT(EndedTooMany(jobs_, 10, 2), ElementsAre(a1)) << "bob's stays";
  EXPECT_THAT(EndedTooMany(jobs_, 2, 10), ElementsAre(a1, b1)) << "the oldest of all";
  const size_t each = jobs_.at(a3).stored().ByteSizeLong();
  EXPECT_THAT(EndedTooMany(jobs_, 10, 10, 2 * each), ElementsAre(a1));
  EXPECT_THAT(EndedTooMany(jobs_, 10, 10, 1), ElementsAre(a1, a2)) << "the newest stays";
  for (auto& [id, entry] : jobs_) entry.status().set_owner("");
  EXPECT_THAT(EndedTooMany(jobs_, 10, 1, 1), IsEmpty()) << "the coordinator's user";
}

}  // namespace

}  // namespace strata::server
