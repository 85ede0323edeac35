#include "worker/client/connect/arena_client.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "common/diverged.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "kernels/kernels.h"
#include "rows/row_key.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/client.h"
#include "worker/client/local_link.h"
#include "worker/client/nccl/device_links.h"
#include "worker/client/nccl/node_reducer.h"
#include "worker/contract/agent_channel.h"
#include "worker/contract/launch.h"

namespace strata::client {

namespace {

// Links wait in turns of up to 100 ms, or a few microseconds; the program's answer may take as
// long.
constexpr absl::Duration kBetweenQuestions = absl::Milliseconds(50);
// For states that are still being written when the job ends, or has failed: after a failure its
// daemon waits for the processes only briefly.
constexpr absl::Duration kLastStates = absl::Minutes(2), kLastStatesOfFailed = absl::Seconds(1);
// A process makes fewer reports than 2 to this power.
constexpr int kReportsBits = 40;

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

// The trace of a failed job is useful, too.
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
    return ReportFailure(absl::FailedPreconditionError(
        absl::StrCat("device: GPU, but the program, which keeps \"", tensors_[i].tensor.name,
                     "\" in the arena, has not called devices().Accept()")));
  }
  return absl::OkStatus();
}

absl::Status ArenaClient::Allocate() {
  if (absl::Status status = Expect(Phase::kRegistering, "Allocate"); !status.ok()) return status;
  if (tensors_.size() == 0) return absl::FailedPreconditionError("Allocate: no tensor registered");
  if (absl::Status status = CheckPlace(); !status.ok()) return status;
  proto::Layout layout = tensors_.Layout();
  for (const rows::TableSpec& table : tables_) *layout.add_tables() = rows::ToProto(table);
  absl::StatusOr<ArenaView> view = link_->Allocate(layout);
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
  marks_absent_ = facts.marks_absent && MayMarkAbsent(launch_.record().job());
  samples_due_ = Completed(launch_.record().job(), facts).program().samples_per_rank();
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
    return absl::FailedPreconditionError("ComputeIn: within a step, see client_parts.h");
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
  if (samples_due_ != 0 && samples != samples_due_) {
    return ReportFailure(absl::InvalidArgumentError(
        absl::StrFormat("%s: %d samples, but the job's program.samples_per_rank is %d", call,
                        samples, samples_due_)));
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
  step_samples_ = samples;
  book_->Begin();
  phase_ = Phase::kInStep;
  return absl::OkStatus();
}

absl::Status ArenaClient::Await(ChunkId chunk) {
  if (!trace_ || !trace_->Wants(step_)) return ReportFailure(link_->AwaitWeights(chunk, step_));
  const absl::Time begin = trace_->Now();
  absl::Status status = ReportFailure(link_->AwaitWeights(chunk, step_));
  const absl::Time end = trace_->Now();
  // Most chunks have landed already.
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
    // Downwards: the chunks of the first layers, which are last, are answered first.
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
  if (marks_absent_ && access_.device() == nullptr) {
    // A published gradient has no -0.0.
    for (float& x : view_.gradients.subspan(entry.offset, entry.count)) x += 0.0f;
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
    const absl::Span<float> gradients = view_.gradients.subspan(entry.offset, entry.count);
    absl::Status status =
        ReportFailure(marks_absent_ ? access_.FillAbsent(gradients) : access_.Clear(gradients));
    if (!status.ok()) return status;
    if (status = PublishFetched(i); !status.ok()) return status;
  }
  if (!tables_.empty()) {
    Stopwatch watch(&waited_, &clock_);
    absl::Status ended = ReportFailure(link_->EndRows(step_, step_samples_));
    if (!ended.ok()) return ended;
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

absl::StatusOr<int> ArenaClient::Add(const rows::TableSpec& table) {
  if (absl::Status status = Expect(Phase::kRegistering, "rows().Add"); !status.ok()) return status;
  if (launch_.record().job().exchange() != proto::Job::PARAMETER_SERVER) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table \"", table.name, "\": lies on servers, but the job has none (exchange: ",
        proto::Job::Exchange_Name(launch_.record().job().exchange()), ")"));
  }
  if (absl::Status valid = table.Validate(); !valid.ok()) return valid;
  tables_.push_back(table);
  return static_cast<int>(tables_.size()) - 1;
}

absl::Status ArenaClient::ExpectRows(int table, absl::Span<const uint64_t> ids,
                                     const char* call) const {
  if (table < 0 || table >= static_cast<int>(tables_.size())) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": no table ", table));
  }
  absl::Status valid = rows::CheckAscending(ids);
  if (valid.ok() && !ids.empty() && ids.back() > rows::kIdMax) {
    valid = absl::InvalidArgumentError(absl::StrFormat("id %d is not below 2^63", ids.back()));
  }
  return Prefixed(absl::StrCat("table \"", tables_[table].name, "\": "), valid);
}

absl::Status ArenaClient::LookUp(int table, absl::Span<const uint64_t> ids, float* to) {
  return LookUpRows("rows().LookUp", table, ids, /*of_step=*/false, to);
}

absl::Status ArenaClient::Take(int table, absl::Span<const uint64_t> ids, float* to) {
  return LookUpRows("rows().Take", table, ids, /*of_step=*/true, to);
}

absl::Status ArenaClient::LookUpRows(const char* call, int table, absl::Span<const uint64_t> ids,
                                     bool of_step, float* to) {
  if (absl::Status status = ExpectTraining(call); !status.ok()) return status;
  if (absl::Status status = ExpectRows(table, ids, call); !status.ok()) return status;
  BeginForward();
  Stopwatch watch(&waited_, &clock_);
  return ReportFailure(
      link_->LookUpRows(static_cast<uint32_t>(table), tables_[table].columns, ids, of_step, to));
}

absl::Status ArenaClient::Want(int table, absl::Span<const uint64_t> ids) {
  constexpr char kCall[] = "rows().Want";
  if (absl::Status status = ExpectTraining(kCall); !status.ok()) return status;
  if (absl::Status status = ExpectRows(table, ids, kCall); !status.ok()) return status;
  Stopwatch watch(&waited_, &clock_);
  return ReportFailure(link_->WantRows(static_cast<uint32_t>(table), tables_[table].columns, ids));
}

absl::Status ArenaClient::Push(int table, absl::Span<const uint64_t> ids, const float* gradients,
                               double rate) {
  constexpr char kCall[] = "rows().Push";
  if (absl::Status status = Expect(Phase::kInStep, kCall); !status.ok()) return status;
  if (absl::Status status = ExpectRows(table, ids, kCall); !status.ok()) return status;
  if (step_samples_ == 0 && !ids.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table \"%s\": has gradients in a step of 0 samples", tables_[table].name));
  }
  const auto rounded = static_cast<float>(rate);
  if (!std::isfinite(rounded) || rate < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("table \"%s\": learning rate %g is not a finite number >= 0 of fp32",
                        tables_[table].name, rate));
  }
  Stopwatch watch(&waited_, &clock_);
  return BrokenIfInterrupted(ReportFailure(link_->AddRows(
      static_cast<uint32_t>(table), tables_[table].columns, std::abs(rounded), ids, gradients)));
}

// In short sleeps, so that the program can interrupt it; once a step, even if interrupted.
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
  // A later process of the rank numbers its reports higher.
  out->set_number((uint64_t{launch_.incarnation()} << kReportsBits) + ++reports_);
  if (report.state) return agent_->Send(message);
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
    Fail(status);
  }
  return status;
}

absl::Status ArenaAccess::MoveTo(std::shared_ptr<device::Device> device) {
  absl::StatusOr<std::unique_ptr<device::Stream>> stream = device->NewStream(/*urgent=*/false);
  if (!stream.ok()) return stream.status();
  own_ = *std::move(stream);
  device_ = std::move(device);
  return absl::OkStatus();
}

absl::Status ArenaAccess::After(absl::Status status) {
  return status.ok() && stream_ == nullptr ? own_->Synchronize() : status;
}

absl::Status ArenaAccess::Copy(float* to, const float* from, size_t count) {
  if (device_ != nullptr) return After(InUse().Copy(to, from, count * sizeof(float)));
  std::memcpy(to, from, count * sizeof(float));
  return absl::OkStatus();
}

absl::Status ArenaAccess::Clear(absl::Span<float> values) {
  const size_t bytes = values.size() * sizeof(float);
  if (device_ != nullptr) return After(InUse().Fill(values.data(), 0, bytes));
  std::memset(values.data(), 0, bytes);
  return absl::OkStatus();
}

absl::Status ArenaAccess::FillAbsent(absl::Span<float> values) {
  if (device_ == nullptr) {
    std::fill(values.begin(), values.end(), -0.0f);
    return absl::OkStatus();
  }
  constexpr size_t kPiece = 1 << 16;
  absent_.resize(kPiece, -0.0f);
  for (; !values.empty(); values.remove_prefix(std::min(kPiece, values.size()))) {
    const size_t bytes = std::min(kPiece, values.size()) * sizeof(float);
    if (absl::Status status = InUse().Copy(values.data(), absent_.data(), bytes); !status.ok()) {
      return status;
    }
  }
  return After(absl::OkStatus());
}

absl::Status ArenaAccess::Settle() {
  return device_ != nullptr ? InUse().Synchronize() : absl::OkStatus();
}

namespace {

constexpr absl::string_view kOtherCharacters = "._-/";

bool MayBeInName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kOtherCharacters.find(c) != absl::string_view::npos;
}

// Returns the first bytes of UTF-8 text, without splitting a character.
std::string Start(const std::string& text, size_t bytes_max) {
  size_t end = std::min(text.size(), bytes_max);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

absl::Status CheckValues(const std::map<std::string, double>& values) {
  if (values.size() > kReportValuesMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d values in a report, at most %d", values.size(), kReportValuesMax));
  }
  for (const auto& [name, value] : values) {
    const auto refuse = [&name = name](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "value \"%s\": %s", absl::CEscape(name).substr(0, 2 * kValueNameMax), why));
    };
    if (name.empty() || name.size() > kValueNameMax ||
        !std::all_of(name.begin(), name.end(), MayBeInName)) {
      return refuse("a name has 1 to 64 letters, digits and characters of \"._-/\"");
    }
    if (name == "test_accuracy" || name == "test_loss") {
      return refuse("has a field of its own in the report");
    }
    if (!std::isfinite(value)) return refuse(std::isnan(value) ? "is NaN" : "is infinite");
  }
  return absl::OkStatus();
}

void CopyReport(const Report& report, proto::RankReport* out) {
  out->set_first_step(report.first_step);
  out->set_end_step(report.end_step);
  out->set_samples(report.samples);
  out->set_loss_sum(report.loss_sum);
  out->set_wall_s(report.wall_s);
  if (report.has_test) {
    if (!std::isnan(report.test_accuracy)) out->set_test_accuracy(report.test_accuracy);
    if (!std::isnan(report.test_loss)) out->set_test_loss(report.test_loss);
  }
  out->set_final(report.final);
  out->set_samples_per_epoch(report.samples_per_epoch);
  out->set_epochs(report.epochs);
  out->set_local_steps(report.local_steps);
  out->set_local_steps_total(report.local_steps_total);
  out->mutable_values()->insert(report.values.begin(), report.values.end());
  if (!report.state) return;
  out->mutable_state()->set_step(report.state->step);
  for (const State::Item& item : report.state->items) {
    proto::StateItem* const copied = out->mutable_state()->add_items();
    copied->set_name(Start(item.name, kStateNameMax));
    copied->set_checksum(item.checksum);
    copied->set_value(Start(item.value, kStateValueMax));
  }
}

namespace {

absl::StatusOr<std::unique_ptr<RankLink>> LinkOf(const proto::Launch& launch,
                                                 const std::shared_ptr<AgentChannel>& agent) {
  const proto::Job& job = launch.record().job();
  if (job.exchange() == proto::Job::NCCL) return nccl::NcclLink::Connect(launch);
  if (job.exchange() != proto::Job::NONE) {
    return AggregatorLink::Connect(launch, nccl::CreateNodeReducer);
  }
  if (job.device() == proto::Job::GPU) return nccl::AloneLink::Create(launch, agent);
  return std::make_unique<LocalLink>(launch, agent, kernels::Cpu());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const proto::Launch& launch) {
  auto agent = std::make_shared<AgentChannel>(launch.channel_fd());
  absl::StatusOr<std::unique_ptr<RankLink>> link = LinkOf(launch, agent);
  if (!link.ok()) return link.status();
  return std::make_unique<ArenaClient>(launch, std::move(agent), *std::move(link));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& launch_file) {
  absl::StatusOr<proto::Launch> launch = ReadLaunch(launch_file);
  if (!launch.ok()) return launch.status();
  return ConnectTo(*launch);
}

}  // namespace strata::client
