#include "server/coordinator/jobs/metrics_merge.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace strata::server {
namespace {

// A rank that is ahead of the slowest by more windows than this closes the oldest ones.
constexpr size_t kWindowsMax = 4096;
// Limits memory if a program keeps inventing names; its records have them all.
constexpr size_t kValuesShownMax = 32;

double PerSecond(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

uint64_t Difference(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

void AddCounts(const proto::NodeCounters& more, proto::NodeCounters* sum) {
  sum->set_bytes_pushed(sum->bytes_pushed() + more.bytes_pushed());
  sum->set_bytes_answered(sum->bytes_answered() + more.bytes_answered());
  sum->set_pushes(sum->pushes() + more.pushes());
  sum->set_pushes_during_backward(sum->pushes_during_backward() + more.pushes_during_backward());
  for (int bin = 0; bin < more.staleness_size(); ++bin) {
    if (sum->staleness_size() <= bin) sum->add_staleness(0);
    sum->set_staleness(bin, sum->staleness(bin) + more.staleness(bin));
  }
  sum->set_exchange_s(sum->exchange_s() + more.exchange_s());
  sum->set_exposed_s(sum->exposed_s() + more.exposed_s());
}

constexpr size_t kShownMax = 256;

// An item of one rank and of another.
struct Side {
  uint32_t rank;
  const proto::StateItem& item;
};

std::string Shown(absl::string_view text) {
  return absl::Utf8SafeCEscape(text.substr(0, kShownMax));
}

bool AreSame(const proto::StateItem& left, const proto::StateItem& right) {
  return left.name() == right.name() && left.checksum() == right.checksum() &&
         left.value() == right.value();
}

std::string Describe(const Side& one, const Side& other) {
  if (one.item.name() != other.item.name()) {
    return absl::StrFormat("rank %d has \"%s\" where rank %d has \"%s\"", one.rank,
                           Shown(one.item.name()), other.rank, Shown(other.item.name()));
  }
  const std::string name = Shown(one.item.name());
  if (one.item.value().empty()) {
    return absl::StrFormat("rank %d's \"%s\" differs from rank %d's", one.rank, name, other.rank);
  }
  return absl::StrFormat("rank %d's optimizer has %s %s, rank %d's %s", one.rank, name,
                         Shown(one.item.value()), other.rank, Shown(other.item.value()));
}

}  // namespace

MetricsMerge::MetricsMerge(uint32_t ranks, uint32_t epochs, uint64_t samples_per_epoch,
                           uint64_t total_steps, uint64_t first_step)
    : epochs_(epochs),
      samples_per_epoch_(samples_per_epoch),
      total_steps_(total_steps),
      first_step_(first_step),
      ranks_(ranks) {}

std::vector<proto::MetricsRecord> MetricsMerge::Add(const proto::RankReport& report,
                                                    double elapsed_s) {
  if (report.rank() >= ranks_.size()) return {};
  if (samples_per_epoch_ == 0 && total_steps_ == 0 && report.samples_per_epoch() > 0) {
    samples_per_epoch_ = report.samples_per_epoch();
    has_learnt_epochs_ = true;
  }
  if (has_learnt_epochs_ && report.epochs() > 0) epochs_ = report.epochs();
  if (report.local_steps_total() > 0) local_total_ = report.local_steps_total();
  if (report.final() && report.end_step() <= report.first_step()) {
    // A measurement without a window of steps. The first rank measures the final model; the others
    // add nothing.
    if (Measures(report.rank(), report.end_step()) && !final_.has_value()) final_ = report;
  } else if (report.end_step() == report.first_step() &&
             (report.has_test_accuracy() || report.has_test_loss() || !report.values().empty())) {
    return AddMeasured(report);
  } else {
    Take(report);
  }
  return Complete(/*all=*/false, elapsed_s);
}

bool MetricsMerge::IsNewMeasurement(const proto::RankReport& report) {
  if (report.number() > 0) {
    uint64_t& newest = ranks_[report.rank()].measured_number;
    return report.number() > std::exchange(newest, std::max(newest, report.number()));
  }
  if (report.end_step() < measured_step_) return false;
  if (report.end_step() > measured_step_) measured_names_.clear();
  // A program may measure one thing after another; earlier values are repeated.
  bool is_new = report.has_test_accuracy() && measured_names_.insert("test_accuracy").second;
  is_new |= report.has_test_loss() && measured_names_.insert("test_loss").second;
  for (const auto& [name, value] : report.values()) is_new |= measured_names_.insert(name).second;
  return is_new;
}

std::vector<proto::MetricsRecord> MetricsMerge::AddMeasured(const proto::RankReport& report) {
  if (!Measures(report.rank(), report.end_step()) || !IsNewMeasurement(report)) return {};
  if (report.end_step() >= measured_step_) NoteMeasured(report);
  measured_step_ = std::max(measured_step_, report.end_step());
  proto::MetricsRecord record;
  record.set_step(LocalStepsAt(report));
  record.set_number(report.number());
  if (report.has_test_accuracy()) record.set_test_accuracy(report.test_accuracy());
  if (report.has_test_loss()) record.set_test_loss(report.test_loss());
  *record.mutable_values() = report.values();
  record.set_elapsed_s(report.trained_s());
  return {record};
}

void MetricsMerge::NoteMeasured(const proto::RankReport& report) {
  if (report.has_test_accuracy()) accuracy_ = report.test_accuracy();
  if (!Measures(report.rank(), report.end_step())) return;
  for (const auto& [name, value] : report.values()) {
    if (values_.size() < kValuesShownMax || values_.contains(name)) values_[name] = value;
  }
}

std::vector<proto::MetricsRecord> MetricsMerge::Flush(double elapsed_s) {
  return Complete(/*all=*/true, elapsed_s);
}

void MetricsMerge::Take(proto::RankReport report) {
  Rank& rank = ranks_[report.rank()];
  if (report.end_step() <= report.first_step()) return Begin(&rank, report.end_step());
  if (rank.newest.has_value() && report.end_step() <= StepsOf(rank)) return;
  SettleSteps(&report);
  if (report.has_node()) AddCounts(rank.earlier, report.mutable_node());
  rank.samples += report.samples();
  rank.steps += report.end_step() - report.first_step();
  rank.wall_s += report.wall_s();
  rank.newest = report;
  NoteMeasured(report);
  windows_[report.end_step()][report.rank()] = report;
}

// It may have no window left to report, so the unreported steps of its last process count from now.
void MetricsMerge::Begin(Rank* rank, uint64_t step) {
  if (step <= StepsOf(*rank)) return;
  if (rank->newest.has_value()) AddMissed(StepsOf(*rank), step, *rank->newest, rank);
  rank->began = step;
}

void MetricsMerge::AddMissed(uint64_t first, uint64_t end, const proto::RankReport& window,
                             Rank* rank) {
  const uint64_t steps = window.end_step() - window.first_step();
  const uint64_t samples = (end - first) * window.samples() / steps;
  rank->samples += samples;
  if (samples > 0) missed_.push_back({first, end, samples});
}

uint64_t MetricsMerge::TakeMissedSamples(uint64_t end) {
  uint64_t taken = 0;
  for (Missed& missed : missed_) {
    if (missed.first >= end) continue;
    const uint64_t until = std::min(missed.end, end);
    const uint64_t share = missed.samples * (until - missed.first) / (missed.end - missed.first);
    taken += share;
    missed.samples -= share;
    missed.first = until;
  }
  std::erase_if(missed_, [](const Missed& missed) { return missed.first == missed.end; });
  return taken;
}

void MetricsMerge::SettleSteps(proto::RankReport* report) {
  Rank& rank = ranks_[report->rank()];
  const uint64_t known = rank.newest.has_value() ? StepsOf(rank) : rank.from;
  const bool begins_anew = std::exchange(rank.begins_anew, false) || !rank.newest.has_value();
  const uint64_t first = report->first_step(), steps = report->end_step() - first;
  if (first < known) {
    // The rest of a window in which the process was restarted: the earlier steps were reported.
    const double share = static_cast<double>(report->end_step() - known) / steps;
    report->set_samples(report->samples() * (report->end_step() - known) / steps);
    report->set_loss_sum(report->loss_sum() * share);
    report->set_wall_s(report->wall_s() * share);
    report->set_wait_s(report->wait_s() * share);
    report->set_first_step(known);
    return;
  }
  // Windows that were merged before a restart of the coordinator, steps before a checkpoint, or
  // steps that a process had not reported when it died: assume this window's samples per step.
  if (begins_anew && first > known) AddMissed(known, first, *report, &rank);
}

void MetricsMerge::StartOver(uint32_t first, uint32_t count) {
  for (uint32_t rank = first; rank < first + count && rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].newest.has_value()) continue;
    ranks_[rank].earlier = ranks_[rank].newest->node();
    ranks_[rank].begins_anew = true;
  }
}

void MetricsMerge::SetEarlier(uint64_t rank_steps) {
  earlier_rank_steps_ = rank_steps;
  for (Rank& rank : ranks_) rank.from = first_step_;
}

void MetricsMerge::Join(uint32_t first, uint32_t count, uint64_t step) {
  for (uint32_t rank = first; rank < first + count && rank < ranks_.size(); ++rank) {
    ranks_[rank].from = step;
    ranks_[rank].until.reset();
    ranks_[rank].began = std::max(ranks_[rank].began, step);
  }
}

void MetricsMerge::Leave(uint32_t first, uint32_t count, uint64_t step) {
  for (uint32_t rank = first; rank < first + count && rank < ranks_.size(); ++rank) {
    ranks_[rank].until = step;
  }
}

void MetricsMerge::Drop(uint32_t first, uint32_t count) {
  for (uint32_t rank = first; rank < first + count && rank < ranks_.size(); ++rank) {
    ranks_[rank].until = StepsOf(ranks_[rank]);
  }
}

bool MetricsMerge::Measures(uint32_t rank, uint64_t end_step) const {
  return IsFirst(rank, end_step) || (end_step > 0 && IsFirst(rank, end_step - 1));
}

bool MetricsMerge::IsFirst(uint32_t rank, uint64_t step) const {
  const auto makes_it = [step](const Rank& one) {
    return one.from <= step && step < one.until.value_or(step + 1);
  };
  return makes_it(ranks_[rank]) && std::none_of(ranks_.begin(), ranks_.begin() + rank, makes_it);
}

uint64_t MetricsMerge::EarlierSamples() const {
  uint64_t samples = 0, steps = 0, earlier_steps = earlier_rank_steps_;
  for (const Rank& rank : ranks_) {
    samples += rank.samples;
    if (rank.from > 0) {
      steps += rank.steps;
    } else if (rank.newest) {
      steps += StepsOf(rank);
    } else if (!HasLeft(rank)) {
      earlier_steps += StepsOf(rank);
    }
  }
  return steps > 0 ? earlier_steps * samples / steps : 0;
}

bool MetricsMerge::IsComplete(uint64_t end_step) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [this, end_step](const Rank& rank) {
    return StepsOf(rank) >= std::min(end_step, rank.until.value_or(end_step));
  });
}

std::vector<proto::MetricsRecord> MetricsMerge::Complete(bool all, double elapsed_s) {
  std::vector<proto::MetricsRecord> records;
  while (!windows_.empty() &&
         (all || windows_.size() > kWindowsMax || IsComplete(windows_.begin()->first))) {
    records.push_back(Merge(windows_.begin()->second, elapsed_s));
    windows_.erase(windows_.begin());
  }
  if (final_.has_value() && !final_merged_ && (all || IsComplete(final_->end_step()))) {
    final_merged_ = true;
    NoteMeasured(*final_);
    records.push_back(Merge({{0, *final_}}, elapsed_s));
  }
  return records;
}

proto::MetricsRecord MetricsMerge::Merge(const Window& window, double elapsed_s) {
  proto::MetricsRecord record;
  uint64_t samples = 0, end_step = 0;
  double loss_sum = 0, wall_s = 0, wait_s = 0, samples_per_s = 0;
  Overlap overlap;
  for (const auto& [rank, report] : window) {
    end_step = report.end_step();
    record.set_step(std::max(record.step(), LocalStepsAt(report)));
    samples += report.samples();
    loss_sum += report.loss_sum();
    wall_s += report.wall_s();
    wait_s += report.wait_s();
    samples_per_s += PerSecond(static_cast<double>(report.samples()), report.wall_s());
    record.set_lr(std::max(record.lr(), report.lr()));
    if (report.has_test_accuracy()) record.set_test_accuracy(report.test_accuracy());
    if (report.has_test_loss()) record.set_test_loss(report.test_loss());
    if (report.has_node()) AddCounters(report, &record, &overlap);
    if (report.final()) record.set_final(true);
    // The first rank's values win.
    record.mutable_values()->insert(report.values().begin(), report.values().end());
  }
  samples_merged_ += samples + TakeMissedSamples(end_step);
  record.set_samples(samples_merged_ + EarlierSamples());
  if (samples_per_epoch_ > 0) {
    record.set_epoch(static_cast<double>(record.samples()) / samples_per_epoch_);
  }
  record.set_loss(samples > 0 ? loss_sum / samples : 0);
  record.set_samples_per_s(samples_per_s);
  record.set_waiting_share(wall_s > 0 ? wait_s / wall_s : 0);
  record.set_elapsed_s(elapsed_s);
  if (overlap.exchange_s > 0) {
    hidden_share_ = std::clamp(1 - overlap.exposed_s / overlap.exchange_s, 0.0, 1.0);
    record.set_hidden_share(*hidden_share_);
  }
  return record;
}

// Counters run since the job's start; the record holds the window's share.
void MetricsMerge::AddCounters(const proto::RankReport& report, proto::MetricsRecord* record,
                               Overlap* overlap) {
  const auto [it, first] = counters_.try_emplace(report.rank());
  const proto::NodeCounters& now = report.node();
  const proto::NodeCounters before = std::exchange(it->second, now);
  if (first && report.first_step() > first_step_) return;  // nothing is known before this window
  record->set_bytes_pushed(record->bytes_pushed() +
                           Difference(now.bytes_pushed(), before.bytes_pushed()));
  record->set_bytes_answered(record->bytes_answered() +
                             Difference(now.bytes_answered(), before.bytes_answered()));
  overlap->exchange_s += std::max(0.0, now.exchange_s() - before.exchange_s());
  overlap->exposed_s += std::max(0.0, now.exposed_s() - before.exposed_s());
  record->set_pushes(record->pushes() + Difference(now.pushes(), before.pushes()));
  record->set_pushes_during_backward(
      record->pushes_during_backward() +
      Difference(now.pushes_during_backward(), before.pushes_during_backward()));
  for (int bin = 0; bin < now.staleness_size(); ++bin) {
    if (record->staleness_size() <= bin) record->add_staleness(0);
    const uint64_t earlier = bin < before.staleness_size() ? before.staleness(bin) : 0;
    record->set_staleness(bin, record->staleness(bin) + Difference(now.staleness(bin), earlier));
  }
}

proto::Progress MetricsMerge::GetProgress() const {
  proto::Progress progress;
  progress.set_step(ShownStep(0, ranks_.size()));
  progress.set_total_steps(local_total_ > 0 ? local_total_ : total_steps_ * local_per_step_);
  progress.set_epochs(epochs_);
  progress.set_test_accuracy(accuracy_);
  uint64_t samples = EarlierSamples(), window_samples = 0;
  double loss_sum = 0, samples_per_s = 0, bytes_per_step = 0, eta_s = total_steps_ > 0 ? 0 : -1;
  for (const Rank& rank : ranks_) {
    if (HasLeft(rank) || (rank.newest && rank.newest->end_step() <= rank.from)) {
      samples += rank.samples;
      continue;
    }
    if (!rank.newest.has_value()) {
      if (total_steps_ == 0 || StepsOf(rank) < total_steps_) eta_s = -1;
      continue;
    }
    const proto::RankReport& report = *rank.newest;
    samples += rank.samples;
    window_samples += report.samples();
    loss_sum += report.loss_sum();
    samples_per_s += PerSecond(static_cast<double>(report.samples()), report.wall_s());
    bytes_per_step +=
        static_cast<double>(report.node().bytes_pushed() + report.node().bytes_answered()) /
        (report.end_step() - std::max(first_step_, rank.from));
    if (eta_s >= 0) {
      const double steps_left = Difference(total_steps_, StepsOf(rank));
      // The rate of the whole run: that of one window would fluctuate.
      eta_s = std::max(eta_s, steps_left * rank.wall_s / rank.steps);
    }
  }
  progress.set_samples(samples);
  if (samples_per_epoch_ > 0) {
    double epoch = static_cast<double>(samples) / samples_per_epoch_;
    // A script may draw samples ahead of its steps, and again after a restart.
    if (has_learnt_epochs_ && epochs_ > 0) epoch = std::min<double>(epoch, epochs_);
    progress.set_epoch(epoch);
  }
  progress.set_samples_per_s(samples_per_s);
  progress.set_loss(window_samples > 0 ? loss_sum / window_samples : 0);
  progress.set_bytes_per_step(bytes_per_step / static_cast<double>(local_per_step_));
  if (has_learnt_epochs_ && epochs_ > 0) eta_s = EtaBySamples(samples);
  progress.set_eta_s(eta_s);
  progress.mutable_values()->insert(values_.begin(), values_.end());
  return progress;
}

double MetricsMerge::EtaBySamples(uint64_t samples) const {
  double per_s = 0;
  for (const Rank& rank : ranks_) {
    if (!HasLeft(rank)) per_s += PerSecond(static_cast<double>(rank.samples), rank.wall_s);
  }
  const uint64_t all = samples_per_epoch_ * epochs_;
  return per_s > 0 ? static_cast<double>(Difference(all, samples)) / per_s : -1;
}

uint64_t MetricsMerge::Slowest(uint32_t first, uint32_t count,
                               absl::FunctionRef<uint64_t(const Rank&)> steps_of) const {
  uint64_t slowest = UINT64_MAX;
  for (uint32_t rank = first; rank < first + count && rank < ranks_.size(); ++rank) {
    if (!HasLeft(ranks_[rank])) slowest = std::min(slowest, steps_of(ranks_[rank]));
  }
  return slowest == UINT64_MAX ? 0 : slowest;
}

uint64_t MetricsMerge::SlowestStep(uint32_t first, uint32_t count) const {
  return Slowest(first, count, [this](const Rank& rank) { return StepsOf(rank); });
}

uint64_t MetricsMerge::LocalStepsOf(const Rank& rank) const {
  const bool says_it = rank.newest && rank.newest->end_step() >= rank.began;
  return says_it ? LocalStepsAt(*rank.newest) : StepsOf(rank) * local_per_step_;
}

uint64_t MetricsMerge::ShownStep(uint32_t first, uint32_t count) const {
  return Slowest(first, count, [this](const Rank& rank) { return LocalStepsOf(rank); });
}

bool MetricsMerge::HasReported(uint32_t rank) const {
  return rank < ranks_.size() && ranks_[rank].newest.has_value();
}

std::string RankStates::Add(uint32_t rank, const proto::RankState& state) {
  if (state.items_size() > kItemsMax || state.ByteSizeLong() > kBytesMax) return "";
  const auto [at, is_first] = steps_.try_emplace(state.step());
  if (is_first) {
    at->second = {rank, state};
    if (steps_.size() > kStepsMax) steps_.erase(steps_.begin());
    return "";
  }
  const First& first = at->second;
  const int count = std::max(state.items_size(), first.state.items_size());
  const proto::StateItem none;
  for (int i = 0; i < count; ++i) {
    const Side own{rank, i < state.items_size() ? state.items(i) : none};
    const Side its{first.rank, i < first.state.items_size() ? first.state.items(i) : none};
    if (AreSame(own.item, its.item)) continue;
    return absl::StrCat(rank > first.rank ? Describe(own, its) : Describe(its, own), " after step ",
                        state.step(),
                        ": each rank must change its weights as all do"
                        " (DistributedOptimizer(check_every=0) compares nothing)");
  }
  return "";
}

}  // namespace strata::server
