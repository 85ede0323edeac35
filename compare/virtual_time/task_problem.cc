#include "compare/virtual_time/task_problem.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/diverged.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"

namespace strata::compare {

namespace {

class TaskRank final : public RankCompute {
 public:
  TaskRank(TaskProcess* process, uint32_t rank, absl::Span<const float> weights,
           uint32_t samples_per_rank)
      : process_(process),
        rank_(rank),
        weights_(weights),
        samples_per_rank_(samples_per_rank),
        gradients_(weights.size()) {}

  void Begin(uint64_t step, ComputePool* /*pool*/) override {
    step_ = step;
    begun_ = true;
  }

  // Computes here, and not on the pool, whose threads would ask in an order of their own.
  absl::StatusOr<StepResult> Finish(ComputePool* /*pool*/) override {
    STRATA_REQUIRE(std::exchange(begun_, false));
    auto result = process_->Compute(rank_, step_, weights_, absl::MakeSpan(gradients_));
    if (!result.ok() || samples_per_rank_ == 0 || result->samples == samples_per_rank_) {
      return result;
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("rank %d: %d samples at step %d, but program.samples_per_rank is %d", rank_,
                        result->samples, step_, samples_per_rank_));
  }

  const float* gradients() const override { return gradients_.data(); }

 private:
  TaskProcess* const process_;
  const uint32_t rank_;
  const absl::Span<const float> weights_;
  const uint32_t samples_per_rank_;  // 0: any number
  std::vector<float> gradients_;
  uint64_t step_ = 0;
  bool begun_ = false;
};

// Values that are there already.
class TaskValues final : public Measuring {
 public:
  explicit TaskValues(std::map<std::string, double> values) : values_(std::move(values)) {}

  absl::Status Finish(ComputePool* /*pool*/, proto::Measurement* measurement) override {
    for (const auto& [name, value] : values_) {
      if (name == "test_accuracy") {
        measurement->set_accuracy(value);
      } else if (name == "test_loss") {
        measurement->set_loss(value);
      } else {
        (*measurement->mutable_values())[name] = value;
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::map<std::string, double> values_;
};

}  // namespace

absl::Status CompleteJob(const proto::TaskDescription& task, proto::Job* job) {
  if (task.optimizer().empty()) return TakeProgramOptimizer(nullptr, false, job);
  const absl::StatusOr<proto::Optimizer> named = ParseOptimizer(task.optimizer());
  if (!named.ok()) return named.status();
  if (named->has_mean()) {
    return absl::InvalidArgumentError("optimizer: mean: a task has no optimizer of its own");
  }
  return TakeProgramOptimizer(&*named, true, job);
}

absl::StatusOr<client::TensorSet> TensorsOf(const proto::TaskDescription& task) {
  client::TensorSet tensors;
  for (int i = task.tensors_size(); i-- > 0;) {
    client::Tensor tensor;
    tensor.name = task.tensors(i).name();
    tensor.shape = {task.tensors(i).shape().begin(), task.tensors(i).shape().end()};
    if (auto added = tensors.Add(std::move(tensor)); !added.ok()) return added.status();
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<TaskProblem>> TaskProblem::Create(
    const TaskProcess::Options& options) {
  auto process = TaskProcess::Start(options);
  if (!process.ok()) return process.status();
  std::unique_ptr<TaskProblem> problem(new TaskProblem(options.job, *std::move(process)));
  if (absl::Status status = problem->Build(); !status.ok()) return status;
  return problem;
}

absl::Status TaskProblem::Build() {
  if (absl::Status complete = CompleteJob(task(), &job_); !complete.ok()) return complete;
  absl::StatusOr<client::TensorSet> tensors = TensorsOf(task());
  if (!tensors.ok()) return tensors.status();
  tensors_ = *std::move(tensors);
  weights_ = tensors_.size();
  stages_ = {{.first_weight = 0, .weights = weights_, .forward = 1, .backward = 1}};
  const proto::TaskDescription& task = this->task();
  plan_.batch = static_cast<uint32_t>(task.batch());
  plan_.steps_per_epoch = task.steps_per_epoch();
  plan_.total_steps = task.total_steps();
  plan_.evaluate_every = task.evaluate_every() == 0 ? task.total_steps() : task.evaluate_every();
  plan_.report_every = std::max(1U, job_.metrics().every_steps());
  // As live, where a report of what was measured ends the window.
  if (task.evaluate_every() > 0) {
    plan_.report_every = std::min(plan_.report_every, task.evaluate_every());
  }
  return absl::OkStatus();
}

void TaskProblem::FirstWeights(float* arena) const {
  const std::vector<float>& first = process_->first_weights();
  std::copy(first.begin(), first.end(), arena);
}

std::unique_ptr<RankCompute> TaskProblem::MakeRank(uint32_t rank, float* arena) {
  return std::make_unique<TaskRank>(process_.get(), rank,
                                    absl::MakeConstSpan(arena, tensors_.elements()),
                                    job_.program().samples_per_rank());
}

absl::StatusOr<std::unique_ptr<Measuring>> TaskProblem::Measure(float* arena, uint64_t step,
                                                                const RankCompute& /*rank_0*/,
                                                                ComputePool* /*pool*/) {
  std::unique_ptr<Measuring> measuring;
  if (task().evaluate_every() == 0) return measuring;
  auto values = process_->Evaluate(step, absl::MakeConstSpan(arena, tensors_.elements()));
  if (!values.ok()) return values.status();
  measuring = std::make_unique<TaskValues>(*std::move(values));
  return measuring;
}

absl::Status TaskProblem::Try() {
  std::vector<float> weights = process_->first_weights(), gradients(weights.size());
  process_->Compute(0, 0, weights, absl::MakeSpan(gradients)).IgnoreError();
  if (!process_->health().ok()) return process_->health();
  if (task().evaluate_every() == 0) return absl::OkStatus();
  process_->Evaluate(0, weights).IgnoreError();
  return process_->health();
}

namespace {

constexpr int kSocketInTask = 3, kMemoryInTask = 4;       // as of python/strata/_serve.py
constexpr absl::Duration kLook = absl::Milliseconds(50);  // for `stop`
constexpr absl::Duration kToDie = absl::Seconds(5);

// Returns true if the text needs a rank with its own process.
bool IsOfOneRank(const std::string& text) {
  for (const char* name : {"{launch}", "{rank}", "{local_rank}", "{local_ranks}", "{node}"}) {
    if (absl::StrContains(text, name)) return true;
  }
  return false;
}

std::string Filled(const std::string& text, const proto::Job& job) {
  return absl::StrReplaceAll(
      text, {{"{seed}", absl::StrCat(job.seed())}, {"{ranks}", absl::StrCat(job.ranks())}});
}

// Returns the index of the script among the program's arguments; -1: none.
int ScriptOf(const proto::Program& program) {
  return program.args_size() > 0 && absl::EndsWith(program.args(0), ".py") ? 0 : -1;
}

std::string NameOf(const proto::Program& program) {
  const int script = ScriptOf(program);
  const std::filesystem::path path = script < 0 ? program.path() : program.args(script);
  return path.filename().string();
}

absl::StatusOr<Process::Spec> SpecOf(const proto::Job& job) {
  const proto::Program& program = job.program();
  if (ScriptOf(program) < 0) {
    return absl::InvalidArgumentError(
        "program: in virtual time a program is a script *.py that defines a strata.Task; this one "
        "owns its loop, and runs live only");
  }
  Process::Spec spec;
  spec.args = {program.path(), "-m", "strata._serve"};
  for (const std::string& arg : program.args()) {
    if (IsOfOneRank(arg)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "program.args: \"%s\": in virtual time one process computes for all ranks", arg));
    }
    spec.args.push_back(Filled(arg, job));
  }
  // A set of strings has the same order each time.
  spec.environment = {"PYTHONHASHSEED=0"};
  for (const std::string& variable : program.env()) {
    if (!IsOfOneRank(variable)) spec.environment.push_back(Filled(variable, job));
  }
  return spec;
}

// The last line that says something.
std::string LastLine(int fd) {
  char end[4096];
  const off_t size = lseek(fd, 0, SEEK_END);
  const ssize_t got =
      pread(fd, end, sizeof(end), std::max<off_t>(0, size - static_cast<off_t>(sizeof(end))));
  if (got <= 0) return "";
  const std::string text(end, got);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (size_t i = lines.size(); i-- > 0;) {
    const absl::string_view line = absl::StripAsciiWhitespace(lines[i]);
    if (!line.empty()) return std::string(line);
  }
  return "";
}

}  // namespace

TaskProcess::TaskProcess(const Options& options)
    : options_(options), name_(NameOf(options.job.program())) {}

TaskProcess::~TaskProcess() {
  process_ = nullptr;  // kills and reaps
  if (memory_ != nullptr) munmap(memory_, 2 * elements_ * sizeof(float));
}

absl::StatusOr<std::unique_ptr<TaskProcess>> TaskProcess::Start(const Options& options) {
  std::unique_ptr<TaskProcess> task(new TaskProcess(options));
  absl::Status status = task->Begin();
  if (status.ok()) status = task->Attach();
  if (!status.ok()) return status;
  return task;
}

absl::Status TaskProcess::Begin() {
  absl::StatusOr<Process::Spec> spec = SpecOf(options_.job);
  if (!spec.ok()) return spec.status();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket for a task");
  }
  socket_.Reset(pair[0]);
  const UniqueFd theirs(pair[1]);
  memory_fd_.Reset(memfd_create("strata-task", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  printed_.Reset(memfd_create("strata-task-printed", MFD_CLOEXEC));
  if (!memory_fd_.valid() || !printed_.valid()) {
    return absl::ErrnoToStatus(errno, "cannot make memory for a task");
  }
  spec->log_path = absl::StrFormat("/proc/%d/fd/%d", getpid(), printed_.get());
  spec->descriptors = {{theirs.get(), kSocketInTask}, {memory_fd_.get(), kMemoryInTask}};
  auto process = Process::Start(*spec);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  return absl::OkStatus();
}

absl::Status TaskProcess::Attach() {
  const absl::Time deadline = absl::Now() + options_.describe_within;
  const auto described =
      Ask(absl::StrFormat(R"({"do":"describe","version":%d,"seed":%d,"ranks":%d})", kTaskVersion,
                          options_.job.seed(), options_.job.ranks()),
          proto::TaskReply::kDescribed, "", deadline);
  if (!described.ok()) return described.status();
  task_ = described->described();
  for (const proto::TaskTensor& tensor : task_.tensors()) {
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape()) count *= extent;
    elements_ += count;
  }
  const size_t bytes = 2 * elements_ * sizeof(float);
  if (ftruncate(memory_fd_.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(memory_fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, "cannot size a task's memory");
  }
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_.get(), 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map a task's memory");
  memory_ = static_cast<float*>(mapped);
  const auto attached = Ask(absl::StrFormat(R"({"do":"attach","elements":%d})", elements_),
                            proto::TaskReply::kAttached, "", absl::InfiniteFuture());
  if (!attached.ok()) return attached.status();
  first_weights_.assign(memory_, memory_ + elements_);
  for (const float weight : first_weights_) {
    if (!std::isfinite(weight)) {
      return health_ = absl::InvalidArgumentError(
                 absl::StrCat(name_, ": params: a first weight is NaN or infinite"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> TaskProcess::Compute(uint32_t rank, uint64_t step,
                                                absl::Span<const float> weights,
                                                absl::Span<float> gradients) {
  std::copy(weights.begin(), weights.end(), memory_);
  const auto reply =
      Ask(absl::StrFormat(R"({"do":"compute","rank":%d,"step":%d})", rank, step),
          proto::TaskReply::kComputed, absl::StrFormat("rank %d at step %d: ", rank, step),
          absl::InfiniteFuture());
  if (!reply.ok()) return reply.status();
  const proto::TaskComputed& computed = reply->computed();
  if (!std::isfinite(computed.loss())) {
    return DivergedError(absl::StrFormat("rank %d: loss is %s at step %d", rank,
                                         std::isnan(computed.loss()) ? "NaN" : "infinite", step));
  }
  if (absl::Status finite = CheckGradients(rank, step); !finite.ok()) return finite;
  std::copy(memory_ + elements_, memory_ + 2 * elements_, gradients.begin());
  const auto samples = static_cast<uint32_t>(computed.samples());
  return StepResult{.loss = computed.loss() * samples, .samples = samples};
}

absl::Status TaskProcess::CheckGradients(uint32_t rank, uint64_t step) const {
  const float* at = memory_ + elements_;
  for (int i = task_.tensors_size(); i-- > 0;) {
    const proto::TaskTensor& tensor = task_.tensors(i);
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape()) count *= extent;
    if (!std::all_of(at, at + count, [](float value) { return std::isfinite(value); })) {
      return DivergedError(absl::StrFormat(
          "rank %d: the gradient of \"%s\" is not finite at step %d", rank, tensor.name(), step));
    }
    at += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, double>> TaskProcess::Evaluate(
    uint64_t step, absl::Span<const float> weights) {
  std::copy(weights.begin(), weights.end(), memory_);
  const auto reply =
      Ask(absl::StrFormat(R"({"do":"evaluate","step":%d})", step), proto::TaskReply::kMeasured,
          absl::StrFormat("after step %d: ", step), absl::InfiniteFuture());
  if (!reply.ok()) return reply.status();
  std::map<std::string, double> values;
  for (const auto& [name, value] : reply->measured().values()) {
    if (!std::isfinite(value)) {
      return DivergedError(absl::StrFormat("evaluate: %s is not finite at step %d", name, step));
    }
    values[name] = value;
  }
  return values;
}

absl::StatusOr<proto::TaskReply> TaskProcess::Ask(const std::string& line,
                                                  proto::TaskReply::WhatCase what,
                                                  const std::string& where, absl::Time deadline) {
  if (!health_.ok()) return health_;
  absl::Status status = Send(absl::StrCat(line, "\n"));
  if (status.ok()) {
    absl::StatusOr<std::string> answer = Receive(deadline);
    if (answer.ok()) {
      absl::StatusOr<proto::TaskReply> reply = ParseTaskReply(*answer, what);
      if (reply.ok()) return reply;
      status = reply.status();
    } else {
      status = answer.status();
    }
  }
  health_ = absl::Status(status.code(), absl::StrCat(name_, ": ", where, status.message()));
  return health_;
}

absl::Status TaskProcess::Send(std::string line) {
  // A line is far smaller than what a socket holds, and the task has read the one before.
  const ssize_t sent = send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(line.size()) ? absl::OkStatus() : Death();
}

absl::StatusOr<std::string> TaskProcess::Receive(absl::Time deadline) {
  while (true) {
    const size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kTaskLineBytesMax) {
      return absl::InvalidArgumentError("the task's answer is longer than 1 MiB");
    }
    if (options_.stop != nullptr && *options_.stop) return absl::CancelledError("stopped");
    if (absl::Now() > deadline) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "it has not come to its end in %s, so it defined no strata.Task (keep what trains under: "
          "if __name__ == \"__main__\")",
          absl::FormatDuration(options_.describe_within)));
    }
    pollfd poll_fd = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(kLook))) <= 0) continue;
    char part[16384];
    const ssize_t got = recv(socket_.get(), part, sizeof(part), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Death();
    received_.append(part, got);
  }
}

absl::Status TaskProcess::Death() {
  const absl::Time deadline = absl::Now() + kToDie;
  pollfd poll_fd = {.fd = process_->pid_fd(), .events = POLLIN, .revents = 0};
  poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now())));
  const std::optional<ExitStatus> ended = process_->TryReap();
  const std::string last = LastLine(printed_.get());
  return absl::AbortedError(absl::StrCat("the process that serves the task ",
                                         ended ? ended->ToString() : "has closed its line",
                                         last.empty() ? "" : ": ", last));
}

}  // namespace strata::compare
