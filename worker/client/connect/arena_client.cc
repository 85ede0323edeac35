#include "worker/client/connect/arena_client.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "worker/client/connect/report_values.h"

namespace strata::client {
namespace {

// Links wait in turns of up to 100 ms, or a few microseconds; the program's answer may take as
// long.
constexpr absl::Duration kBetweenQuestions = absl::Milliseconds(50);
// For states on their way to the store when the job ends, or has failed: its daemon waits for the
// processes a short time only then.
constexpr absl::Duration kLastStates = absl::Minutes(2), kLastStatesOfFailed = absl::Seconds(1);

}  // namespace

ArenaClient::ArenaClient(proto::Launch launch, std::shared_ptr<AgentChannel> agent,
                         std::unique_ptr<RankLink> link)
    : launch_(std::move(launch)),
      agent_(std::move(agent)),
      link_(std::move(link)),
      views_(launch_, link_.get()),
      clock_(launch_.record().job(), launch_.node(), launch_.rank()),
      checkpoints_(launch_, agent_.get(), link_.get()),
      trace_(TraceLog::Create(launch_.record().job())) {
  if (link_ != nullptr) link_->AskInWaits([this] { return AskProgram(); });
}

// Of a job that fails, too, the trace is worth a look.
ArenaClient::~ArenaClient() { SendTrace(); }

void ArenaClient::SendTrace() {
  if (!trace_) return;
  agent_->SendTrace(trace_.get(), /*all=*/true);
  link_->SendTrace(agent_.get(), /*all=*/true);
}

absl::Status ArenaClient::Expect(Phase phase, const char* call) const {
  if (phase_ == phase) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(call, ": out of order, see client.h"));
}

absl::Status ArenaClient::ExpectTraining(const char* call) const {
  return Expect(phase_ == Phase::kInStep ? Phase::kInStep : Phase::kBetweenSteps, call);
}

absl::Status ArenaClient::ExpectTensor(int tensor, const char* call) const {
  if (tensors_.Has(tensor)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(call, ": no tensor ", tensor));
}

absl::Status ArenaClient::AskProgram() {
  if (interrupted_ == nullptr) return absl::OkStatus();
  const absl::Time now = absl::Now();
  if (now < ask_next_) return absl::OkStatus();
  ask_next_ = now + kBetweenQuestions;
  return interrupted_() ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::Status ArenaClient::BrokenIfInterrupted(absl::Status status) {
  if (absl::IsCancelled(status)) phase_ = Phase::kBroken;
  return status;
}

absl::Status ArenaClient::CheckPlace() {
  if (launch_.record().job().device() != proto::Job::GPU || accepts_device_) {
    return absl::OkStatus();
  }
  for (int i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].copied()) continue;
    const std::string reason =
        absl::StrCat("device: GPU, but the program, which keeps \"", tensors_[i].tensor.name,
                     "\" in the arena, has not called devices().Accept()");
    Fail(reason);
    return absl::FailedPreconditionError(reason);
  }
  return absl::OkStatus();
}

absl::Status ArenaClient::Allocate() {
  if (absl::Status status = Expect(Phase::kRegistering, "Allocate"); !status.ok()) return status;
  if (tensors_.size() == 0) return absl::FailedPreconditionError("Allocate: no tensor registered");
  if (absl::Status status = CheckPlace(); !status.ok()) return status;
  absl::StatusOr<ArenaView> view = link_->Allocate(tensors_.Layout());
  if (!view.ok()) return ReportFailure(view.status());
  view_ = *view;
  phase_ = Phase::kAllocated;
  return absl::OkStatus();
}

absl::Status ArenaClient::Start(const JobFacts& facts) {
  if (phase_ == Phase::kRegistering) {
    if (absl::Status status = Allocate(); !status.ok()) return status;
  }
  if (absl::Status status = Expect(Phase::kAllocated, "Start"); !status.ok()) return status;
  for (int i = 0; i < tensors_.size(); ++i) {
    const TensorSet::Entry& entry = tensors_[i];
    if (entry.copied()) {
      std::memcpy(view_.weights.data() + entry.offset, entry.tensor.weights,
                  entry.count * sizeof(float));
    }
  }
  phase_ = Phase::kBroken;
  absl::StatusOr<RunFacts> run = link_->Start(facts);
  if (!run.ok()) return ReportFailure(run.status());
  run_ = *run;
  step_ = run_.first_step;
  says_rates_ = facts.says_rates;
  if (absl::Status status = views_.Begin(run_); !status.ok()) return ReportFailure(status);
  book_.emplace(tensors_, ChunkMap(tensors_.elements(), run_.chunk_elements));
  fetched_.assign(tensors_.size(), false);
  if (absl::Status status = MoveToDevice(); !status.ok()) return status;
  for (int i = 0; i < tensors_.size(); ++i) {
    if (absl::Status status = CopyWeightsOut(i); !status.ok()) return status;
  }
  phase_ = Phase::kBetweenSteps;
  checkpoints_.Begin(facts, run_.first_step);
  clock_.Begin(absl::Now());
  return absl::OkStatus();
}

absl::Status ArenaClient::MoveToDevice() {
  if (run_.device == nullptr) return absl::OkStatus();
  const auto place = [this](const device::Memory& memory) {
    return absl::MakeSpan(reinterpret_cast<float*>(memory.get()), tensors_.elements());
  };
  view_ = {place(run_.weights), place(run_.gradients)};
  return ReportFailure(access_.MoveTo(run_.device));
}

absl::Status ArenaClient::ComputeIn(device::Stream* stream) {
  if (stream != nullptr && device() == nullptr) {
    return absl::FailedPreconditionError("ComputeIn: the rank has no device, see device()");
  }
  if (stream != nullptr && phase_ == Phase::kInStep) {
    return absl::FailedPreconditionError("ComputeIn: within a step, see client_devices.h");
  }
  access_.QueueIn(stream);
  link_->ComputeIn(stream);
  return absl::OkStatus();
}

absl::Status ArenaClient::CopyWeightsOut(int tensor) {
  const TensorSet::Entry& entry = tensors_[tensor];
  if (!entry.copied()) return absl::OkStatus();
  return ReportFailure(
      access_.Copy(entry.tensor.weights, view_.weights.data() + entry.offset, entry.count));
}

absl::StatusOr<absl::Span<const float>> ArenaClient::ReadWeights() {
  if (access_.device() == nullptr) return view_.weights;
  read_.resize(view_.weights.size());
  absl::Status status = access_.Copy(read_.data(), view_.weights.data(), read_.size());
  if (status.ok()) status = access_.Settle();
  if (!status.ok()) return ReportFailure(status);
  return absl::MakeConstSpan(read_);
}

absl::Span<float> ArenaClient::Weights(int tensor) {
  if (!tensors_.Has(tensor)) return {};
  const TensorSet::Entry& entry = tensors_[tensor];
  if (entry.copied()) return absl::MakeSpan(entry.tensor.weights, entry.count);
  if (view_.weights.empty()) return {};
  return view_.weights.subspan(entry.offset, entry.count);
}

absl::Span<float> ArenaClient::Gradients(int tensor) {
  if (!tensors_.Has(tensor)) return {};
  const TensorSet::Entry& entry = tensors_[tensor];
  if (entry.copied()) return absl::MakeSpan(entry.tensor.gradients, entry.count);
  if (view_.gradients.empty()) return {};
  return view_.gradients.subspan(entry.offset, entry.count);
}

absl::Status ArenaClient::BeginStep(uint32_t samples) {
  if (says_rates_) {
    return absl::FailedPreconditionError(
        "BeginStep: the program says the learning rate of each step (JobFacts::says_rates), which "
        "BeginStepAt takes");
  }
  return Begin("BeginStep", samples, 0);
}

absl::Status ArenaClient::BeginStepAt(uint32_t samples, double rate) {
  if (!says_rates_ && phase_ == Phase::kBetweenSteps) {
    return absl::FailedPreconditionError(
        "BeginStepAt: the program has not said when it started that its steps have learning rates "
        "(JobFacts::says_rates)");
  }
  const auto rounded = static_cast<float>(rate);
  if (!std::isfinite(rounded) || rate < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("BeginStepAt: learning rate %g is not a finite number >= 0 of fp32", rate));
  }
  return Begin("BeginStepAt", samples, std::abs(rounded));
}

absl::Status ArenaClient::Begin(const char* call, uint32_t samples, float rate) {
  if (absl::Status status = Expect(Phase::kBetweenSteps, call); !status.ok()) return status;
  if (samples == 0) return absl::InvalidArgumentError(absl::StrCat(call, ": no samples"));
  const uint32_t due = launch_.record().job().program().samples_per_rank();
  if (due != 0 && samples != due) {
    return ReportFailure(absl::InvalidArgumentError(absl::StrFormat(
        "%s: %d samples, but the job's program.samples_per_rank is %d", call, samples, due)));
  }
  checkpoints_.PassOn();
  BeginForward();
  Stopwatch watch(&waited_, &clock_);
  const absl::StatusOr<StepRanks> made_by = views_.Expect(step_);
  if (!made_by.ok()) return made_by.status();
  absl::Status begun = ReportFailure(link_->BeginStep(step_, samples, rate));
  if (!begun.ok()) return BrokenIfInterrupted(std::move(begun));
  if (step_ == run_.first_step) samples_ = made_by->rank_steps_before * samples;
  samples_ += uint64_t{samples} * made_by->ranks;
  rate_ = rate;
  book_->Begin();
  phase_ = Phase::kInStep;
  return absl::OkStatus();
}

absl::Status ArenaClient::Await(ChunkId chunk) {
  if (!trace_ || !trace_->Wants(step_)) return ReportFailure(link_->AwaitWeights(chunk, step_));
  const absl::Time begin = trace_->Now();
  absl::Status status = ReportFailure(link_->AwaitWeights(chunk, step_));
  const absl::Time end = trace_->Now();
  // Most chunks are there.
  if (end - begin >= absl::Microseconds(1)) {
    trace_->Note(proto::TraceEvent::WAIT, chunk, step_, begin, end);
  }
  return status;
}

absl::Status ArenaClient::Fetch(int tensor) {
  if (fetched_[tensor]) return absl::OkStatus();
  BeginForward();
  {
    Stopwatch watch(&waited_, &clock_);
    const uint32_t last = book_->LastChunk(tensor).value();
    // Downwards: the chunks of the first layers, which lie last, are answered first.
    for (uint32_t c = last + 1; c-- > book_->FirstChunk(tensor).value();) {
      if (absl::Status status = Await(ChunkId(c)); !status.ok()) return status;
    }
  }
  fetched_[tensor] = true;
  return CopyWeightsOut(tensor);
}

absl::Status ArenaClient::Wait(int tensor) {
  if (absl::Status status = ExpectTraining("Wait"); !status.ok()) return status;
  if (absl::Status status = ExpectTensor(tensor, "Wait"); !status.ok()) return status;
  return Fetch(tensor);
}

absl::Status ArenaClient::WaitAll() {
  if (absl::Status status = ExpectTraining("WaitAll"); !status.ok()) return status;
  for (int i = tensors_.size(); i-- > 0;) {
    if (absl::Status status = Fetch(i); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ArenaClient::PublishFetched(int tensor) {
  complete_.clear();
  book_->Publish(tensor, &complete_);
  if (complete_.empty()) return absl::OkStatus();
  return BrokenIfInterrupted(ReportFailure(link_->Publish(complete_, step_)));
}

absl::Status ArenaClient::ExpectUnpublished(int tensor) const {
  if (absl::Status status = Expect(Phase::kInStep, "Publish"); !status.ok()) return status;
  if (absl::Status status = ExpectTensor(tensor, "Publish"); !status.ok()) return status;
  if (!book_->published(tensor)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("Publish: \"", tensors_[tensor].tensor.name,
                                                    "\" was published in this step already"));
}

absl::Status ArenaClient::Publish(int tensor) {
  if (absl::Status status = ExpectUnpublished(tensor); !status.ok()) return status;
  const TensorSet::Entry& entry = tensors_[tensor];
  BeginBackward();
  if (absl::Status status = Fetch(tensor); !status.ok()) return status;
  if (entry.copied()) {
    absl::Status status = ReportFailure(
        access_.Copy(view_.gradients.data() + entry.offset, entry.tensor.gradients, entry.count));
    if (!status.ok()) return status;
  }
  return PublishFetched(tensor);
}

absl::Status ArenaClient::FinishStep() {
  if (absl::Status status = Expect(Phase::kInStep, "FinishStep"); !status.ok()) return status;
  if (absl::Status status = Straggle(); !status.ok()) return status;
  for (int i = 0; i < tensors_.size(); ++i) {
    if (book_->published(i)) continue;
    if (absl::Status status = Fetch(i); !status.ok()) return status;
    const TensorSet::Entry& entry = tensors_[i];
    absl::Status status =
        ReportFailure(access_.Clear(view_.gradients.subspan(entry.offset, entry.count)));
    if (!status.ok()) return status;
    if (status = PublishFetched(i); !status.ok()) return status;
  }
  if (trace_ && trace_->Wants(step_)) NoteStep();
  if (trace_) link_->SendTrace(agent_.get(), /*all=*/false);
  ++step_;
  fetched_.assign(fetched_.size(), false);
  forward_at_ = backward_at_ = absl::InfinitePast();
  phase_ = Phase::kBetweenSteps;
  straggled_ = false;
  if (absl::Status cut = checkpoints_.AtStep(step_); !cut.ok()) return ReportFailure(cut);
  clock_.EndStep(absl::Now());
  return absl::OkStatus();
}

// In turns, so that the program can end it; once a step, also where it did.
absl::Status ArenaClient::Straggle() {
  if (std::exchange(straggled_, true)) return absl::OkStatus();
  const absl::Time now = absl::Now();
  const absl::Time until = now + clock_.EndComputation(step_, now);
  for (absl::Duration left = until - now; left > absl::ZeroDuration(); left = until - absl::Now()) {
    if (absl::Status status = AskProgram(); !status.ok()) return status;
    absl::SleepFor(std::min(left, absl::Milliseconds(100)));
  }
  return absl::OkStatus();
}

void ArenaClient::NoteStep() {
  BeginBackward();
  trace_->Note(proto::TraceEvent::FORWARD, ChunkId(), step_, forward_at_, backward_at_);
  trace_->Note(proto::TraceEvent::BACKWARD, ChunkId(), step_, backward_at_, trace_->Now());
  if (trace_->waiting() >= kTraceEventsPerBatchMax / 2 || trace_->IsPast(step_ + 1)) {
    agent_->SendTrace(trace_.get());
  }
}

absl::Status ArenaClient::Finish() {
  if (absl::Status status = Expect(Phase::kBetweenSteps, "Finish"); !status.ok()) return status;
  phase_ = Phase::kBroken;
  checkpoints_.PassOn();
  SendTrace();
  {
    Stopwatch watch(&waited_, &clock_);
    if (absl::Status status = ReportFailure(link_->Finish(step_)); !status.ok()) return status;
    if (absl::Status status = ReportFailure(views_.End(step_)); !status.ok()) return status;
  }
  for (int i = 0; i < tensors_.size(); ++i) {
    if (absl::Status status = CopyWeightsOut(i); !status.ok()) return status;
  }
  absl::Status wanted = checkpoints_.Finish(kLastStates, [this] { return AskProgram(); });
  if (!wanted.ok()) return wanted;
  SendTrace();  // what was under way meanwhile
  phase_ = Phase::kFinished;
  return ReportFailure(access_.Settle());
}

absl::Status ArenaClient::Send(const Report& report) {
  if (absl::Status status = CheckValues(report.values); !status.ok()) return status;
  const proto::Job& job = launch_.record().job();
  proto::ChildMessage message;
  proto::RankReport* out = message.mutable_report();
  CopyReport(report, out);
  out->set_job_id(launch_.record().job_id());
  out->set_rank(launch_.rank());
  const bool measured = report.has_test || !report.values.empty();
  if (measured && phase_ == Phase::kBetweenSteps) clock_.EndMeasurement(absl::Now());
  const bool says_when = report.trained_s > 0 || !job.has_program();
  out->set_trained_s(says_when ? report.trained_s : clock_.TrainedSeconds(absl::Now()));
  out->set_wait_s(absl::ToDoubleSeconds(waited_));
  waited_before_ += std::exchange(waited_, absl::ZeroDuration());
  out->set_lr(says_rates_ ? rate_
                          : LearningRateAt(JobSchedule(job), samples_, run_.samples_per_epoch,
                                           job.epochs()));
  if (launch_.local_rank() == 0) {
    *out->mutable_node() = link_->Counters();
    out->mutable_node()->set_exposed_s(absl::ToDoubleSeconds(waited_before_));
  }
  return agent_->Send(message);
}

absl::Status ArenaClient::ReportFailure(absl::Status status) {
  if (absl::IsUnavailable(status)) {
    checkpoints_.Finish(kLastStatesOfFailed, [] { return absl::OkStatus(); }).IgnoreError();
  }
  if (!status.ok() && !absl::IsUnavailable(status) && !absl::IsCancelled(status)) {
    Fail(std::string(status.message()));
  }
  return status;
}

}  // namespace strata::client
