#include "cli/bench/node_bench.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/bench/gate.h"
#include "cli/bench/memory_pass.h"
#include "common/cores.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/os/framed_channel.h"
#include "common/os/process.h"
#include "worker/agent/child_launch.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/exchange/core/peerless_core.h"

namespace strata::cli {
namespace {

// Chunks shown together: often enough that ranks continue, seldom enough to be worth a wake-up.
constexpr size_t kChunksAtOnce = 16;

// An exchange without peers: ranks are shown the sum over their node as the next weights. All time
// that it takes is the node level's.
//
// Threads: one.
class SumExchange final : public worker::PeerlessCore {
 public:
  // `arenas` outlives this.
  explicit SumExchange(worker::NodeArenas* arenas) : arenas_(arenas) {}

  absl::Status OnLinkEvent(const worker::LinkEvent& event, absl::Time now,
                           worker::CoreActions* actions) override;
  absl::Time deadline() const override {
    const bool has_work = !submitted_.empty() || phase_ == Phase::kFinishing;
    return has_work ? absl::InfinitePast() : PeerlessCore::deadline();
  }
  absl::Status Submit(ChunkId chunk, absl::Time, worker::CoreActions*) override {
    submitted_.push_back(chunk);
    return absl::OkStatus();
  }
  absl::Status Finish(uint64_t, absl::Time, worker::CoreActions*) override {
    phase_ = Phase::kFinishing;
    return absl::OkStatus();
  }

 private:
  uint64_t& ClockOf(ChunkId chunk);  // the next

  worker::NodeArenas* const arenas_;
  std::vector<ChunkId> submitted_;  // and not summed
  std::vector<uint64_t> clocks_;    // by chunk
};

uint64_t& SumExchange::ClockOf(ChunkId chunk) {
  if (chunk.value() >= clocks_.size()) clocks_.resize(chunk.value() + 1, 0);
  return clocks_[chunk.value()];
}

absl::Status SumExchange::OnLinkEvent(const worker::LinkEvent& event, absl::Time now,
                                      worker::CoreActions* actions) {
  if (event.kind != worker::LinkEvent::Kind::kTime) {
    return PeerlessCore::OnLinkEvent(event, now, actions);
  }
  for (size_t i = 0; i < submitted_.size();) {
    const uint64_t clock = ClockOf(submitted_[i]);
    size_t end = i + 1;
    while (end < submitted_.size() && end - i < kChunksAtOnce &&
           submitted_[end].value() == submitted_[end - 1].value() + 1 &&
           ClockOf(submitted_[end]) == clock) {
      ++end;
    }
    arenas_->SumIntoWeights(submitted_[i], static_cast<uint32_t>(end - i), clock);
    for (; i < end; ++i, ++counters_.pushes) ++ClockOf(submitted_[i]);
  }
  submitted_.clear();
  if (phase_ == Phase::kFinishing) phase_ = Phase::kFinished;
  return PeerlessCore::OnLinkEvent(event, now, actions);
}

proto::Launch MakeLaunch(const NodeBenchOptions& options) {
  proto::Launch launch;
  proto::JobRecord* record = launch.mutable_record();
  record->set_job_id(1);
  record->set_token(std::random_device()());
  proto::Job* job = record->mutable_job();
  job->set_name("bench");
  job->mutable_optimizer()->mutable_sgd();
  job->set_ranks(options.ranks);
  job->set_ranks_per_node(options.ranks);
  FillDefaults(job);
  launch.set_node_name("this host");
  launch.set_local_ranks(options.ranks);
  launch.set_aggregator_socket(absl::StrCat("strata-bench-", getpid()));
  return launch;
}

// The worker daemon's part: starts the aggregator and the ranks, and lets them begin.
class Node {
 public:
  Node(const NodeBenchOptions& options, int gate_port)
      : options_(options), gate_port_(gate_port), launch_(MakeLaunch(options)) {}

  absl::Status Run() {
    if (absl::Status status = Start(); !status.ok()) return status;
    while (running_ > 0) {
      if (absl::Status status = Turn(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  struct Child {
    std::string name;
    std::unique_ptr<Process> process;  // null: has ended well
  };

  absl::Status Start();
  absl::Status StartChild(std::string name, std::vector<std::string> args, proto::Launch launch,
                          int channel_fd);
  // Waits for word from the aggregator or for an end, and deals with it.
  absl::Status Turn();
  absl::Status HearAggregator();

  const NodeBenchOptions& options_;
  const int gate_port_;
  const proto::Launch launch_;
  std::unique_ptr<FramedChannel> aggregator_;  // null: it has closed its end
  std::vector<Child> children_;
  size_t running_ = 0;
};

absl::Status Node::StartChild(std::string name, std::vector<std::string> args, proto::Launch launch,
                              int channel_fd) {
  Process::Spec spec;
  spec.executable = options_.binary;
  spec.args = {"strata", "bench"};
  spec.args.insert(spec.args.end(), args.begin(), args.end());
  spec.args.insert(spec.args.end(),
                   {"--launch", absl::StrCat("/proc/self/fd/", worker::kLaunchFd)});
  if (channel_fd >= 0) {
    launch.set_channel_fd(worker::kChannelFd);
    spec.descriptors.emplace_back(channel_fd, worker::kChannelFd);
  }
  absl::StatusOr<UniqueFd> file = worker::LaunchFile(launch);
  if (!file.ok()) return file.status();
  spec.descriptors.emplace_back(file->get(), worker::kLaunchFd);
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  children_.push_back({std::move(name), *std::move(process)});
  ++running_;
  return absl::OkStatus();
}

absl::Status Node::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  aggregator_ = std::make_unique<FramedChannel>(UniqueFd(ends[0]));
  const UniqueFd theirs(ends[1]);
  std::vector<std::string> args = {"node"};
  if (options_.helpers) {
    args.insert(args.end(), {"--helpers", absl::StrCat(*options_.helpers)});
  }
  absl::Status status = StartChild("the aggregator", args, launch_, theirs.get());
  for (uint32_t r = 0; r < options_.ranks && status.ok(); ++r) {
    proto::Launch launch = launch_;
    launch.set_rank(r);
    launch.set_local_rank(r);
    status =
        StartChild(absl::StrCat("rank ", r),
                   {"rank", "--sums", "--elements", absl::StrCat(options_.bytes / sizeof(float)),
                    "--steps", absl::StrCat(options_.warmup + options_.steps), "--gate",
                    absl::StrCat("127.0.0.1:", gate_port_)},
                   std::move(launch), -1);
  }
  return status;
}

absl::Status Node::HearAggregator() {
  proto::ChildMessage message;
  absl::StatusOr<bool> whole = aggregator_->TryReceive(&message);
  for (; whole.ok() && *whole; whole = aggregator_->TryReceive(&message)) {
    if (message.has_failed()) return absl::UnavailableError(message.failed());
    if (!message.has_ready()) continue;
    proto::AgentMessage answer;
    proto::JobRecord* record = answer.mutable_run()->mutable_record();
    *record = launch_.record();
    *record->mutable_layout() = message.ready().layout();
    record->mutable_placement()->set_chunk_elements(options_.chunk_elements);
    if (absl::Status status = aggregator_->Send(answer); !status.ok()) return status;
  }
  if (!whole.ok()) aggregator_ = nullptr;  // its end follows
  return absl::OkStatus();
}

absl::Status Node::Turn() {
  std::vector<pollfd> fds;
  for (const Child& child : children_) {
    fds.push_back({child.process ? child.process->pid_fd() : -1, POLLIN, 0});
  }
  fds.push_back({aggregator_ ? aggregator_->fd() : -1, POLLIN, 0});
  if (poll(fds.data(), fds.size(), -1) < 0) return absl::OkStatus();
  if (fds.back().revents != 0) {
    if (absl::Status status = HearAggregator(); !status.ok()) return status;
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    if (fds[i].revents == 0) continue;
    Child& child = children_[i];
    const std::optional<ExitStatus> end = child.process->TryReap();
    if (!end) continue;
    if (!end->ok()) return absl::UnavailableError(absl::StrCat(child.name, " ", end->ToString()));
    child.process = nullptr;
    --running_;
  }
  return absl::OkStatus();
}

std::vector<double> Measured(std::vector<double> all, uint64_t warmup) {
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(std::min(warmup, all.size())));
  return all;
}

}  // namespace

absl::StatusOr<NodeBenchResult> RunNodeBench(const NodeBenchOptions& asked) {
  NodeBenchOptions options = asked;
  const uint64_t elements = options.bytes / sizeof(float);
  if (options.chunk_elements == 0) options.chunk_elements = DefaultChunkElements(elements, 1);
  if (options.chunk_elements < worker::kChunkElementsMin) {
    return absl::InvalidArgumentError(absl::StrCat("--chunk-elements ", options.chunk_elements,
                                                   ": at least ", worker::kChunkElementsMin));
  }
  NodeBenchResult result;
  const uint32_t threads = 1 + worker::HelpersFor(options.ranks, UsableCores());
  result.threads = 1 + options.helpers.value_or(threads - 1);
  result.bound_threads = threads;
  result.chunk_elements = options.chunk_elements;
  result.chunks = ChunkMap(elements, options.chunk_elements).chunks();
  auto pass = MemoryPass::Create(elements, options.ranks, threads);
  if (!pass.ok()) return pass.status();
  auto gate = Gate::Open(options.ranks, [&] { result.bound_ms.push_back((*pass)->Ms()); });
  if (!gate.ok()) return gate.status();
  if (absl::Status status = Node(options, (*gate)->port()).Run(); !status.ok()) return status;
  result.steps_ms = Measured((*gate)->steps_ms(), options.warmup);
  result.verified = (*gate)->all_right() && result.steps_ms.size() == options.steps;
  *gate = nullptr;  // its thread has written the bounds
  result.bound_ms = Measured(std::move(result.bound_ms), options.warmup);
  return result;
}

worker::AggregatorOptions SumsOnly(std::optional<uint32_t> helpers) {
  worker::AggregatorOptions options;
  options.helpers = helpers;
  options.exchange = [](worker::NodeArenas* arenas) {
    return std::make_unique<SumExchange>(arenas);
  };
  return options;
}

}  // namespace strata::cli
