#include "compare/campaign/run_log.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/consistency.h"
#include "compare/curve.h"

namespace strata::compare {

void RunLog::Add(const proto::RankReport& report) {
  if (report.attempt() < attempt_) return;  // it was on its way
  if (report.attempt() > attempt_) {
    absl::StatusOr<proto::RunRecord> before = SoFar();
    earlier_ = before.ok() ? std::make_shared<proto::RunRecord>(*std::move(before)) : nullptr;
    log_.emplace(plan_);
    attempt_ = report.attempt();
  }
  log_->Add(report);
}

absl::StatusOr<proto::RunRecord> RunLog::SoFar() const {
  proto::JobStatus now = newest_;
  now.set_state(proto::FAILED);
  absl::StatusOr<proto::RunRecord> record = MakeRecord(now);
  if (record.ok()) record->clear_failure();
  return record;
}

absl::StatusOr<proto::RunRecord> RunLog::MakeRecord(const proto::JobStatus& end) const {
  absl::StatusOr<proto::RunRecord> record = log_->MakeRecord(end);
  if (!record.ok() || record->resumed_step() == 0) return record;
  if (earlier_ == nullptr || record->resumed_step() > earlier_->steps()) {
    return absl::DataLossError("the reports of steps that the job went on from were not heard");
  }
  return Continued(*earlier_, *std::move(record));
}

namespace {

bool IsAlwaysInStep(const proto::Consistency& consistency) {
  return IsInStep(consistency) && !consistency.lazy().has_quorum();
}

// Returns true if each node's push is a separate update.
bool IsAppliedOnArrival(const proto::Consistency& consistency) {
  return consistency.has_async() || consistency.lazy().apply() == proto::Lazy::ON_ARRIVAL;
}

}  // namespace

ReportLog::ReportLog(const RunPlan& plan)
    : plan_(plan), in_step_(IsAlwaysInStep(plan.job.consistency())), ranks_(plan.job.ranks()) {}

void ReportLog::Add(const proto::RankReport& report) {
  if (report.rank() >= ranks_.size()) return;
  has_begun_ = true;
  Rank& rank = ranks_[report.rank()];
  const bool measured =
      report.has_test_accuracy() || report.has_test_loss() || !report.values().empty();
  if (report.rank() == 0 && measured) AddMeasured(report);
  const bool is_window = report.end_step() > report.first_step();
  const Point last = EndOf(rank);
  const auto known = static_cast<uint64_t>(last.steps);
  if (is_window && report.end_step() <= known) return;
  if (report.final()) rank.final = true;
  if (!is_window) {
    if (known == 0 && !IsOfProgram()) StartAt(report.first_step(), &rank);
    return;
  }
  if (report.first_step() != known) rank.missed = true;
  rank.points.push_back({.trained_s = std::max(last.trained_s, report.trained_s()),
                         .steps = static_cast<double>(report.end_step()),
                         .samples = last.samples + static_cast<double>(report.samples())});
  if (report.has_node()) rank.counters = report.node();
  rank.windows.push_back(report);
}

void ReportLog::StartAt(uint64_t step, Rank* rank) const {
  rank->start.steps = static_cast<double>(step);
  rank->start.samples = SamplesIn(*rank, rank->start.steps);
}

void ReportLog::AddMeasured(const proto::RankReport& report) {
  const auto [known, is_new] = measured_.try_emplace(report.end_step(), report);
  proto::RankReport& all = known->second;
  if (is_new) return;
  if (report.has_test_accuracy()) {
    all.set_test_accuracy(report.test_accuracy());
    all.set_trained_s(report.trained_s());
  }
  if (report.has_test_loss()) all.set_test_loss(report.test_loss());
  for (const auto& [name, value] : report.values()) (*all.mutable_values())[name] = value;
  if (report.final()) all.set_final(true);
}

size_t ReportLog::RanksHeard() const {
  return static_cast<size_t>(std::count_if(ranks_.begin(), ranks_.end(),
                                           [](const Rank& rank) { return !rank.windows.empty(); }));
}

double ReportLog::SamplesIn(const Rank& rank, double steps) const {
  if (!IsOfProgram()) return steps * plan_.job.data().batch_per_rank();
  const Rank& known = rank.points.empty() ? ranks_.front() : rank;
  if (known.points.empty()) return steps * plan_.job.program().samples_per_rank();
  const Point last = known.points.back();
  return last.steps > 0 ? steps * last.samples / last.steps : 0;
}

absl::Status ReportLog::CheckComplete(bool finished) const {
  if (IsOfProgram()) return absl::OkStatus();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].missed || (finished && !ranks_[i].final)) {
      return absl::DataLossError(absl::StrCat("not all reports of rank ", i, " were heard"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::RunRecord> ReportLog::MakeRecord(const proto::JobStatus& end) const {
  const bool finished = end.state() == proto::FINISHED;
  if (const absl::Status status = CheckComplete(finished); !status.ok()) return status;
  proto::RunRecord record;
  record.set_mode(plan_.mode);
  record.set_seed(plan_.job.seed());
  *record.mutable_job() = plan_.job;
  if (!finished) record.set_failure(end.reason().empty() ? "it has failed" : end.reason());
  record.set_has_diverged(!finished && end.has_diverged());
  AddTotals(end, &record);
  AddWindows(&record);
  AddMeasurements(end, &record);
  return record;
}

ReportLog::Point ReportLog::At(const Rank& rank, double trained_s) {
  Point before = rank.start;
  for (const Point& after : rank.points) {
    if (after.trained_s < trained_s) {
      before = after;
      continue;
    }
    const double span = after.trained_s - before.trained_s;
    const double share = span > 0 ? (trained_s - before.trained_s) / span : 1;
    return {.trained_s = trained_s,
            .steps = before.steps + share * (after.steps - before.steps),
            .samples = before.samples + share * (after.samples - before.samples)};
  }
  return before;
}

uint64_t ReportLog::UpdatesAfter(const std::vector<double>& steps, const proto::JobStatus& end,
                                 bool ended) const {
  const auto per_clock = static_cast<double>(StepsPerClock(plan_.job));
  double apart = 0, slowest_node = -1, fastest_node = 0;
  for (const proto::JobNodeStatus& node : end.nodes()) {
    double slowest = -1;
    for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
      if (rank >= steps.size()) continue;
      slowest = slowest < 0 ? steps[rank] : std::min(slowest, steps[rank]);
    }
    slowest = std::max(slowest, 0.0);
    // The last clock may be shorter.
    const double clocks = ended ? std::ceil(slowest / per_clock) : std::floor(slowest / per_clock);
    apart += clocks;
    slowest_node = slowest_node < 0 ? clocks : std::min(slowest_node, clocks);
    fastest_node = std::max(fastest_node, clocks);
  }
  const proto::Consistency& consistency = plan_.job.consistency();
  if (IsAppliedOnArrival(consistency)) return static_cast<uint64_t>(apart);
  // At least: a clock has one push of a node at most.
  if (consistency.lazy().has_quorum()) return static_cast<uint64_t>(fastest_node);
  return static_cast<uint64_t>(std::max(slowest_node, 0.0));
}

void ReportLog::AddTotals(const proto::JobStatus& end, proto::RunRecord* record) const {
  double wall_s = 0, wait_s = 0;
  std::vector<double> steps;
  for (const Rank& each : ranks_) {
    const bool is_like_first = IsOfProgram() && each.windows.empty();
    const Rank& rank = is_like_first ? ranks_.front() : each;
    const Point last = EndOf(rank);
    record->set_samples(record->samples() + static_cast<uint64_t>(last.samples));
    record->set_resumed_samples(record->resumed_samples() +
                                static_cast<uint64_t>(rank.start.samples));
    for (const proto::RankReport& report : rank.windows) {
      wall_s += report.wall_s();
      wait_s += report.wait_s();
    }
    steps.push_back(last.steps);
    record->set_trained_s(std::max(record->trained_s(), last.trained_s));
    if (is_like_first) continue;
    record->set_bytes_pushed(record->bytes_pushed() + rank.counters.bytes_pushed());
    record->set_bytes_answered(record->bytes_answered() + rank.counters.bytes_answered());
    for (int bin = 0; bin < rank.counters.staleness_size(); ++bin) {
      if (record->staleness_size() <= bin) record->add_staleness(0);
      record->set_staleness(bin, record->staleness(bin) + rank.counters.staleness(bin));
    }
  }
  record->set_resumed_step(static_cast<uint64_t>(ranks_.front().start.steps));
  record->set_steps(static_cast<uint64_t>(*std::min_element(steps.begin(), steps.end())));
  record->set_updates(UpdatesAfter(steps, end, /*ended=*/end.state() == proto::FINISHED));
  record->set_waiting_share(wall_s > 0 ? wait_s / wall_s : 0);
}

// In step, all ranks' reports of the same steps are one window. Otherwise ranks are at different
// steps at the same time: a window is as many reports as there are ranks, in the order of their
// ends.
void ReportLog::AddWindows(proto::RunRecord* record) const {
  struct Part {
    const proto::RankReport* report;
    double trained_s;
  };
  std::vector<Part> parts;
  for (const Rank& rank : ranks_) {
    for (size_t i = 0; i < rank.windows.size(); ++i) {
      parts.push_back({&rank.windows[i], rank.points[i].trained_s});
    }
  }
  std::sort(parts.begin(), parts.end(), [this](const Part& a, const Part& b) {
    const uint64_t a_end = in_step_ ? a.report->end_step() : 0;
    const uint64_t b_end = in_step_ ? b.report->end_step() : 0;
    return std::make_tuple(a_end, a.trained_s, a.report->rank()) <
           std::make_tuple(b_end, b.trained_s, b.report->rank());
  });
  uint64_t all_samples = record->resumed_samples();
  const size_t ranks = IsOfProgram() ? std::max<size_t>(RanksHeard(), 1) : ranks_.size();
  for (size_t first = 0; first + ranks <= parts.size(); first += ranks) {
    proto::Window* window = record->add_windows();
    uint64_t samples = 0;
    double loss_sum = 0;
    for (size_t i = first; i < first + ranks; ++i) {
      samples += parts[i].report->samples();
      loss_sum += parts[i].report->loss_sum();
      window->set_trained_s(std::max(window->trained_s(), parts[i].trained_s));
    }
    all_samples += samples;
    window->set_samples(all_samples);
    window->set_loss(samples > 0 ? loss_sum / static_cast<double>(samples) : 0);
  }
}

void ReportLog::AddMeasurements(const proto::JobStatus& end, proto::RunRecord* record) const {
  for (const auto& [step, report] : measured_) {
    proto::Measurement* measurement = record->add_measurements();
    *measurement = MakeMeasurement(report, end);
    if (!report.final()) continue;
    measurement->set_samples(record->samples());
    measurement->set_updates(record->updates());
  }
}

proto::Measurement ReportLog::MakeMeasurement(const proto::RankReport& report,
                                              const proto::JobStatus& end) const {
  proto::Measurement measurement;
  measurement.set_step(report.end_step());
  measurement.set_trained_s(report.trained_s());
  if (report.has_test_accuracy()) measurement.set_accuracy(report.test_accuracy());
  if (report.has_test_loss()) measurement.set_loss(report.test_loss());
  *measurement.mutable_values() = report.values();
  const auto own_step = static_cast<double>(report.end_step());
  double samples = 0;
  std::vector<double> steps;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const bool knows = in_step_ || i == 0 || ranks_[i].points.empty();
    const Point at = knows ? Point{.steps = own_step, .samples = SamplesIn(ranks_[i], own_step)}
                           : At(ranks_[i], report.trained_s());
    samples += at.samples;
    steps.push_back(at.steps);
  }
  measurement.set_samples(static_cast<uint64_t>(std::llround(samples)));
  measurement.set_updates(UpdatesAfter(steps, end, /*ended=*/false));
  return measurement;
}

namespace {

// Returns when the run had trained on that number of samples.
double SecondsAt(const proto::RunRecord& run, uint64_t samples) {
  if (samples >= run.samples()) return run.trained_s();
  Curve seconds = {{0, 0}};
  for (const proto::Window& window : run.windows()) {
    seconds.push_back({double(window.samples()), window.trained_s()});
  }
  seconds.push_back({double(run.samples()), run.trained_s()});
  return ValueAt(seconds, double(samples)).value_or(run.trained_s());
}

uint64_t Part(uint64_t count, double share) {
  return static_cast<uint64_t>(std::llround(static_cast<double>(count) * share));
}

// Bytes and staleness of both, of the earlier run's a share.
void AddCounts(const proto::RunRecord& earlier, double share, proto::RunRecord* record) {
  record->set_bytes_pushed(record->bytes_pushed() + Part(earlier.bytes_pushed(), share));
  record->set_bytes_answered(record->bytes_answered() + Part(earlier.bytes_answered(), share));
  for (int bin = 0; bin < earlier.staleness_size(); ++bin) {
    if (record->staleness_size() <= bin) record->add_staleness(0);
    record->set_staleness(bin, record->staleness(bin) + Part(earlier.staleness(bin), share));
  }
}

void AddWindows(const proto::RunRecord& earlier, double before_s, proto::RunRecord* record) {
  google::protobuf::RepeatedPtrField<proto::Window> own;
  own.Swap(record->mutable_windows());
  for (const proto::Window& window : earlier.windows()) {
    if (window.samples() <= record->resumed_samples()) *record->add_windows() = window;
  }
  for (proto::Window& window : own) {
    window.set_trained_s(before_s + window.trained_s());
    *record->add_windows() = window;
  }
}

// The weights of the step itself may have been measured by both.
void AddMeasurements(const proto::RunRecord& earlier, double before_s, proto::RunRecord* record) {
  google::protobuf::RepeatedPtrField<proto::Measurement> own;
  own.Swap(record->mutable_measurements());
  for (const proto::Measurement& measurement : earlier.measurements()) {
    if (measurement.step() <= record->resumed_step()) *record->add_measurements() = measurement;
  }
  const uint64_t known =
      record->measurements().empty() ? 0 : record->measurements().rbegin()->step();
  for (proto::Measurement& measurement : own) {
    if (measurement.step() <= known) continue;
    // Weights of before may have been measured after.
    const bool is_before = measurement.step() < record->resumed_step();
    measurement.set_trained_s(is_before ? SecondsAt(earlier, measurement.samples())
                                        : before_s + measurement.trained_s());
    *record->add_measurements() = measurement;
  }
}

}  // namespace

proto::RunRecord Continued(const proto::RunRecord& earlier, proto::RunRecord record) {
  const double before_s = SecondsAt(earlier, record.resumed_samples());
  const double share =
      earlier.samples() == 0
          ? 0
          : std::min(1.0, double(record.resumed_samples()) / double(earlier.samples()));
  AddCounts(earlier, share, &record);
  AddWindows(earlier, before_s, &record);
  AddMeasurements(earlier, before_s, &record);
  const double waited_s =
      earlier.waiting_share() * before_s + record.waiting_share() * record.trained_s();
  record.set_trained_s(before_s + record.trained_s());
  record.set_waiting_share(record.trained_s() > 0 ? waited_s / record.trained_s() : 0);
  return record;
}

}  // namespace strata::compare
