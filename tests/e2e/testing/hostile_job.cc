#include "tests/e2e/testing/hostile_job.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/job/job.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/e2e/testing/raw_peer.h"

namespace strata::tests {

namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr int kFewSteps = 10;

}  // namespace

void HostileJob::Eavesdrop(const RecordingRelay::Options& options) {
  ASSERT_EQ(cluster_.StartCoordinator(), absl::OkStatus());
  relay_ = std::make_unique<RecordingRelay>(CoordinatorPort(), options);
  cluster_.LeadDaemonsBy(relay_->address());
}

void HostileJob::Begin(int steps, int step_ms) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  // All cases of a program need the same weights: once they are known, the first job only has to
  // have ended.
  static std::map<std::pair<int, int>, std::vector<std::string>> known;
  std::vector<std::string>& expected = known[{exchange_, steps}];
  proto::Job first = LenetJob("alone", 4, 2, expected.empty() ? steps : kFewSteps);
  first.set_exchange(exchange_);
  const proto::JobStatus alone = cluster_.RunToEnd(first);
  if (expected.empty()) expected = Hashes(alone.run_dir(), 0);
  expected_ = expected;
  finished_job_ = alone.job_id();
  proto::Job job = LenetJob("victim", 4, 2, steps);
  if (traced_steps_ > 0) job.mutable_trace()->set_steps(traced_steps_);
  job.set_exchange(exchange_);
  const auto id = cluster_.Submit(job);
  ASSERT_TRUE(id.ok()) << id.status();
  job_ = *id;
  ASSERT_EQ(cluster_.WaitForStep(job_, 5).state(), proto::RUNNING);
  const std::vector<int> ranks = ListProcesses("rank");
  ASSERT_EQ(ranks.size(), 4u);
  brake_.emplace(ranks.back(), absl::Milliseconds(step_ms));
  for (int pid : ListProcesses("aggregator")) launches_.push_back(LaunchOf(pid));
  ASSERT_EQ(launches_.size(), 2u);
  if (launches_[0].node() != 0) std::swap(launches_[0], launches_[1]);
}

void HostileJob::ExpectUndisturbed() {
  ExpectTheSameWeights();
  cluster_.StopAll();
}

void HostileJob::ExpectTheSameWeights() {
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << "over before the attack was";
  brake_.reset();
  const proto::JobStatus status = cluster_.WaitForEnd(job_, absl::Minutes(5));
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  ASSERT_GT(expected_.size(), 10u);
  for (int node : {0, 1}) EXPECT_EQ(Hashes(status.run_dir(), node), expected_) << "node " << node;
}

std::vector<int> HostileJob::ShardPorts() {
  std::vector<int> ports;
  const std::string text = ValueIn(cluster_.server(0).ready_line, "ports");
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    ports.push_back(0);
    EXPECT_TRUE(absl::SimpleAtoi(word, &ports.back())) << text;
  }
  EXPECT_EQ(ports.size(), 2u) << text;
  return ports;
}

int HostileJob::CoordinatorPort() {
  int port = 0;
  const std::string& address = cluster_.address();
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  return port;
}

wire::Header HostileJob::MakeHeader(wire::Op op) const {
  wire::Header header;
  header.op = op;
  header.job = job_.value();
  header.view = launches_[0].record().view().number();
  header.generation = 1;  // of a job's first placement
  header.node = launches_[0].node();
  header.incarnation = launches_[0].incarnation();
  return header;
}

std::string HostileJob::Hello(const wire::Header& header, uint64_t token, uint32_t shard) const {
  wire::Hello hello;
  hello.protocol = kProtocolVersion;
  hello.cluster = launches_[0].record().cluster();
  hello.token = token;
  hello.shard = shard;
  const auto bytes = wire::EncodeHello(hello);
  return ZmtpFrame(header, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

uint64_t HostileJob::Refused(const std::string& daemon, const std::string& cause) {
  const auto nodes = cluster_.client().ListNodes();
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  if (!nodes.ok()) return 0;
  uint64_t count = 0;
  const auto add = [&](const proto::DaemonStatus& status) {
    if (status.name() != daemon) return;
    for (const proto::Refusal& refusal : status.refusals()) {
      if (cause.empty() || refusal.cause() == cause) count += refusal.count();
    }
  };
  add(nodes->coordinator());
  for (const proto::DaemonStatus& status : nodes->daemons()) add(status);
  return count;
}

void HostileJob::ExpectRefused(const std::string& daemon, const std::string& cause, uint64_t count,
                               const std::string& said_as) {
  EXPECT_TRUE(WaitUntil([&] { return Refused(daemon, cause) >= count; }, absl::Minutes(1)))
      << Refused(daemon, cause) << " of " << count << " " << cause;
  const CommandResult nodes = RunStrata(cluster_.Asking({"nodes", "--json"}));
  EXPECT_TRUE(absl::StrContains(nodes.out, absl::StrCat("\"", cause, "\": "))) << nodes.out;
  const CommandResult status = RunStrata(cluster_.Asking({"status"}));
  // With a count above 1 the text is plural: "frames without a seal".
  const std::string said = absl::StrReplaceAll(cause, {{" ", "s? "}});
  EXPECT_THAT(status.out, testing::ContainsRegex(
                              absl::StrCat(said_as, " ", daemon, ": ([^\n]*, )?[0-9]+ ", said)));
}

uint64_t HostileJob::ResidentBytes() {
  const std::string path = absl::StrCat("/proc/", cluster_.server(0).process->pid(), "/statm");
  const std::vector<std::string> pages = absl::StrSplit(ReadAll(path), ' ');
  uint64_t resident = 0;
  EXPECT_TRUE(pages.size() > 1 && absl::SimpleAtoi(pages[1], &resident));
  return resident * 4096;
}

namespace {

// Time for about one step of a small job.
constexpr absl::Duration kMoment = absl::Milliseconds(5);

}  // namespace

// Uses a descriptor, because the number may be another process's later.
Brake::Brake(int pid, absl::Duration still)
    : process_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      thread_([this, still] { Run(still); }) {}

Brake::~Brake() {
  released_.Notify();
  thread_.join();
}

void Brake::Send(int signal) { syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0); }

void Brake::Run(absl::Duration still) {
  do {
    // A process may have ended meanwhile: the job's end shows it.
    Send(SIGSTOP);
    released_.WaitForNotificationWithTimeout(still);
    Send(SIGCONT);
  } while (!released_.WaitForNotificationWithTimeout(kMoment));
}

}  // namespace strata::tests
